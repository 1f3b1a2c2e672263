package import TidemarkCore

/// SQL that finds a table's row by a canonical key, with the table's own index.
package enum KeySQL {
    /// Returns the condition that a row has the key of an SQL expression in canonical JSON.
    ///
    /// Unless `isExact`, another spelling matches if the columns compare it as equal.
    package static func match(_ table: SyncedTable, key: String, alias: String = "", isExact: Bool = true) -> String {
        var conditions = table.key.indices.map {
            "\(alias)\(SQLText.name(table.key[$0])) = \(part(table, $0, of: key))"
        }
        if isExact, hasSpellings(table) { conditions.append("\(RowJSON.key(table, alias: alias)) = \(key)") }
        return conditions.joined(separator: " AND ")
    }

    /// Whether a key column may compare different values as equal, such as 9 and 9.0, or 'a' and 'A'.
    ///
    /// Integer keys cannot, and text keys only with a collation.
    package static func hasSpellings(_ table: SyncedTable) -> Bool {
        switch table.keyKind {
        case .integer: false
        case .text: table.sql.uppercased().contains("COLLATE")
        case .general: true
        }
    }

    /// Returns the SQL of one key column's value from a canonical key.
    package static func part(_ table: SyncedTable, _ position: Int, of key: String) -> String {
        if table.keyKind == .integer { return "CAST(\(key) AS INTEGER)" }
        return table.key.count == 1 ? "tidemark_decode(\(key))" : "tidemark_decode(\(key) -> \(position))"
    }
}
