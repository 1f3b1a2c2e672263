package import TidemarkCore

/// The columns of a record that a client without rows writes, each value as the JSON that it sent.
package struct WrittenColumns: Hashable, Sendable {
    /// The values by column, in the protocol's JSON.
    package let values: [String: String]

    /// Reads the members of a record.
    ///
    /// `$revision`, `$key` and `$overruled` mean nothing here, so that a client can send back the record that it got.
    ///
    /// - Parameters:
    ///   - json: The record, an object without white space between its values.
    ///   - table: The record's table.
    /// - Throws: ``TidemarkCore/TidemarkError`` `malformedRequest`, `unknownColumn`, `duplicateName` or
    ///   `invalidValue`.
    package init(_ json: String, of table: SyncedTable) throws(TidemarkError) {
        guard let members = JSONParts.members(of: json) else {
            throw TidemarkError(
                .malformedRequest,
                "The record is not a JSON object.",
                fix: #"Send the columns and their values: {"name": "Anna", "goals": 7}."#,
                place: .init(table: table.name)
            )
        }
        let columns = Set(table.columns.map(\.name))
        var values: [String: String] = [:]
        for member in members where !Self.answered.contains(member.name) {
            guard let name = RecordText.column(of: member.name), columns.contains(name) else {
                throw TidemarkError(
                    .unknownColumn,
                    "The table has no column of this name that a client can write.",
                    fix: "Use the names of CREATE TABLE. A column whose name begins with $ has one more $.",
                    place: .init(table: table.name, column: member.name)
                )
            }
            guard let value = Self.value(member.value) else { throw Self.invalid(name, table) }
            guard values.updateValue(value, forKey: name) == nil else {
                throw TidemarkError(
                    .duplicateName,
                    "The record has a column twice.",
                    fix: "Give each name once: readers of JSON disagree on which one counts.",
                    place: .init(table: table.name, column: name)
                )
            }
        }
        self.values = values
    }

    /// The members of an answer that are not columns.
    private static let answered: Set<String> = ["$revision", "$key", "$overruled"]

    /// Returns a value in the protocol's JSON; nil for a text that is no value of a column.
    private static func value(_ json: String) -> String? {
        switch json.utf8.first ?? 0 {
        case UInt8(ascii: "\""), UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return json
        case UInt8(ascii: "{"):
            guard let members = JSONParts.members(of: json), members.count == 1, let tag = members.first,
                tag.name.hasPrefix("$"), tag.value.hasPrefix("\"")
            else { return nil }
            return tag.name == "$int" ? integer(tag.value) : json
        default: return ["null", "true", "false"].contains(json) ? json : nil
        }
    }

    /// Returns the digits in a JSON string; nil if they are no integer of 64 bits.
    private static func integer(_ string: String) -> String? {
        let digits = string.dropFirst().dropLast()
        return Int64(digits).map(String.init).flatMap { $0 == digits ? $0 : nil }
    }

    private static func invalid(_ column: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .invalidValue,
            "The value is neither a text, a number, null, nor a tagged value.",
            fix: #"REST.md lists the form of every value; an array or object is a text in quotes."#,
            place: .init(table: table.name, column: column)
        )
    }
}
