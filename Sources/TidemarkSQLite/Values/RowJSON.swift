package import TidemarkCore

/// SQL expressions that turn the columns of a row into canonical JSON, inside the statement.
///
/// SQLite takes at most 127 arguments a function, hence the chunks.
package enum RowJSON {
    /// The canonical key of a row whose key columns are called with a prefix.
    package static func key(_ table: SyncedTable, prefix: String = "", alias: String = "") -> String {
        let columns = table.key.map { alias + SQLText.name(prefix + $0) }
        return "tidemark_key(\(columns.joined(separator: ", ")))"
    }

    /// A JSON object of columns.
    ///
    /// The columns' names become the members' names. `prefix` stands before the quoted name, for
    /// instance `t.`, and `side` in front of the name within the quotes, for instance `old_`.
    package static func object(_ columns: [String], prefix: String = "", side: String = "") -> String {
        call("tidemark_members", columns, size: 60) { "\(SQLText.literal($0)), \(prefix)\(SQLText.name(side + $0))" }
    }

    /// A row as it is hashed: a JSON object of all columns but the key's, sorted by name.
    ///
    /// Two sides may declare their columns in another order.
    package static func image(_ table: SyncedTable, prefix: String = "") -> String {
        object(hashedColumns(table), prefix: prefix)
    }

    /// The columns of a row as it is hashed, in their order.
    package static func hashedColumns(_ table: SyncedTable) -> [String] {
        table.valueColumns.map(\.name).sorted {
            ChangeSetJSON.quote($0).utf8.dropFirst().dropLast().lexicographicallyPrecedes(
                ChangeSetJSON.quote($1).utf8.dropFirst().dropLast()
            )
        }
    }

    /// A JSON object of the columns that differ between `f.old_...` and `l.new_...`.
    package static func changes(_ columns: [String]) -> String {
        call("tidemark_changes", columns, size: 40) {
            "\(SQLText.literal($0)), f.\(SQLText.name("old_" + $0)), l.\(SQLText.name("new_" + $0))"
        }
    }

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
