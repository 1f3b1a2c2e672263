package import TidemarkCore

/// SQL expressions that convert the columns of a row to canonical JSON.
///
/// SQLite functions have at most 127 arguments, hence the chunks.
package enum RowJSON {
    /// Returns the SQL of a row's canonical key; `prefix` precedes the names of its columns.
    package static func key(_ table: SyncedTable, prefix: String = "", alias: String = "") -> String {
        let columns = table.key.map { alias + SQLText.name(prefix + $0) }
        return "tidemark_key(\(columns.joined(separator: ", ")))"
    }

    /// Returns the SQL of a JSON object with a member for each column.
    ///
    /// `prefix` precedes the quoted name, for instance `t.`, and `side` precedes the name within the
    /// quotes, for instance `old_`. Where the row has a column under another name, `names` has that one.
    package static func object(
        _ columns: [String],
        prefix: String = "",
        side: String = "",
        names: [String: String] = [:]
    ) -> String {
        call("tidemark_members", columns, size: 60) {
            "\(member($0)), \(prefix)\(SQLText.name(side + (names[$0] ?? $0)))"
        }
    }

    /// Returns the SQL of a row's hashed form: a JSON object of all columns except the key, by name.
    ///
    /// The order by name does not depend on the declaration, which may differ on two sides.
    package static func image(_ table: SyncedTable, prefix: String = "") -> String {
        object(hashedColumns(table), prefix: prefix)
    }

    /// Returns the names of the columns of a row's hashed form, in their order.
    package static func hashedColumns(_ table: SyncedTable) -> [String] {
        let order = { (column: String) in
            JSONText.quote(WireName.member(column: column)).utf8.dropFirst().dropLast()
        }
        return table.valueColumns.map(\.name).sorted { order($0).lexicographicallyPrecedes(order($1)) }
    }

    /// Returns the SQL of an object of columns that differ in `first_row.old_...` and `last_row.new_...`.
    package static func changes(_ columns: [String]) -> String {
        call("tidemark_changes", columns, size: 40) {
            "\(member($0)), first_row.\(SQLText.name("old_" + $0)), last_row.\(SQLText.name("new_" + $0))"
        }
    }

    /// Returns the SQL of a column's member in the object.
    private static func member(_ column: String) -> String { SQLText.literal(WireName.member(column: column)) }

    private static func call(_ function: String, _ columns: [String], size: Int, arguments: (String) -> String)
        -> String
    {
        let chunks = stride(from: 0, to: columns.count, by: size).map { start in
            let part = columns[start..<min(start + size, columns.count)]
            return "\(function)(\(part.map(arguments).joined(separator: ", ")))"
        }
        return "tidemark_object(\(chunks.joined(separator: ", ")))"
    }
}
