package import TidemarkCore

/// Renders records of a table as JSON for clients without rows.
///
/// A page renders all its records with one value, which quotes the names of the members once.
package struct RecordText {
    /// The columns' members, each as `"name":`.
    private let members: [String]

    /// Creates a renderer of rows that have these columns first.
    package init(_ columns: [SyncedTable.Column]) {
        members = columns.map { "\(JSONText.quote(Self.member(of: $0.name))):" }
    }

    /// Renders a row: its columns, then the related records, `$key` if wanted, and `$revision`.
    package func object(
        _ row: RowText,
        key: String? = nil,
        related: [(name: String, value: String)] = []
    ) -> String {
        var output = ""
        append(row, key: key, related: related, to: &output)
        return output
    }

    /// Appends a row as ``object(_:key:related:)`` renders it.
    package func append(
        _ row: RowText,
        key: String? = nil,
        related: [(name: String, value: String)] = [],
        to output: inout String
    ) {
        output += "{"
        for (member, cell) in zip(members, row.cells) {
            output += member
            Self.append(cell, to: &output)
            output += ","
        }
        for member in related { output += "\(JSONText.quote(member.name)):\(member.value)," }
        if let key { output += "\"$key\":\(JSONText.quote(key))," }
        output += "\"$revision\":"
        output += String(row.revision)
        output += "}"
    }

    /// Renders one row.
    package static func object(_ row: RowText, columns: [SyncedTable.Column], key: String? = nil) -> String {
        RecordText(columns).object(row, key: key)
    }

    /// Returns the member that stands for a column: one that begins with `$` has one more.
    package static func member(of column: String) -> String { column.hasPrefix("$") ? "$" + column : column }

    /// Returns the column for which a member stands; nil for a member that is no column.
    package static func column(of member: String) -> String? {
        guard member.hasPrefix("$") else { return member }
        return member.hasPrefix("$$") ? String(member.dropFirst()) : nil
    }

    // MARK: Values

    /// The largest integer that every JSON parser reads exactly.
    private static let exactMax: Int64 = 1 << 53

    /// Returns a value in canonical JSON as these clients get it: large integers as `$int`.
    package static func value(_ json: String) -> String {
        var output = ""
        append(json, to: &output)
        return output
    }

    private static func append(_ json: String, to output: inout String) {
        guard json.utf8.count >= 16, let first = json.utf8.first, first != UInt8(ascii: "\""),
            first != UInt8(ascii: "{"), let number = Int64(json), number.magnitude >= exactMax.magnitude
        else { return output += json }
        output += #"{"$int":"\#(json)"}"#
    }
}
