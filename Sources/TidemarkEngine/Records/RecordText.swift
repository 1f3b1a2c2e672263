package import TidemarkCore

/// A record as JSON for clients without rows.
package enum RecordText {
    /// The largest integer that every JSON parser reads exactly.
    private static let exactMax: Int64 = 1 << 53

    /// Renders a row: its columns, then `$key` if wanted, `$revision`, and the related records.
    package static func object(
        _ row: RowText,
        columns: [SyncedTable.Column],
        key: String? = nil,
        related: [(name: String, value: String)] = []
    ) -> String {
        var members = zip(columns, row.cells).map { (member(of: $0.name), value($1)) }
        members += related
        if let key { members.append(("$key", JSONText.quote(key))) }
        members.append(("$revision", String(row.revision)))
        return JSONText.object(members)
    }

    /// Returns the member that stands for a column: one that begins with `$` has one more.
    package static func member(of column: String) -> String { column.hasPrefix("$") ? "$" + column : column }

    /// Returns the column for which a member stands; nil for a member that is no column.
    package static func column(of member: String) -> String? {
        guard member.hasPrefix("$") else { return member }
        return member.hasPrefix("$$") ? String(member.dropFirst()) : nil
    }

    /// Returns a value in canonical JSON as these clients get it: large integers as `$int`.
    package static func value(_ json: String) -> String {
        guard json.utf8.count >= 16, let first = json.utf8.first, first != UInt8(ascii: "\""),
            first != UInt8(ascii: "{"), let number = Int64(json), number.magnitude >= exactMax.magnitude
        else { return json }
        return #"{"$int":"\#(json)"}"#
    }
}
