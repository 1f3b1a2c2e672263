package import TidemarkCore

/// SQL that finds a table's row by a key in canonical JSON, through the table's own index.
package enum KeySQL {
    /// The condition under which a row has the key that an SQL expression gives as canonical JSON.
    package static func match(_ table: SyncedTable, key: String, alias: String = "") -> String {
        table.key.indices.map {
            "\(alias)\(SQLText.name(table.key[$0])) = \(part(table, $0, of: key))"
        }.joined(separator: " AND ")
    }

    /// The value of one key column, out of a key in canonical JSON.
    package static func part(_ table: SyncedTable, _ position: Int, of key: String) -> String {
        if table.keyKind == .integer { return "CAST(\(key) AS INTEGER)" }
        return table.key.count == 1
            ? "tidemark_decode(\(key))" : "tidemark_decode(\(key) -> \(position))"
    }
}
