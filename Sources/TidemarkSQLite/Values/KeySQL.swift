package import TidemarkCore

/// SQL that finds a table's row by a key in canonical JSON, through the table's own index.
package enum KeySQL {
    /// The condition under which a row has the key that an SQL expression gives as canonical JSON.
    ///
    /// Unless `isExact`, a row will do whose key the columns take for the same.
    package static func match(_ table: SyncedTable, key: String, alias: String = "", isExact: Bool = true) -> String {
        var conditions = table.key.indices.map {
            "\(alias)\(SQLText.name(table.key[$0])) = \(part(table, $0, of: key))"
        }
        if isExact, hasSpellings(table) { conditions.append("\(RowJSON.key(table, alias: alias)) = \(key)") }
        return conditions.joined(separator: " AND ")
    }

    /// Whether a column of the key may take two values for one, 9 and 9.0 or 'abc' and 'ABC'.
    ///
    /// Integer ids are numbers on both sides, and a key of text is its characters unless it is
    /// compared by other rules.
    package static func hasSpellings(_ table: SyncedTable) -> Bool {
        switch table.keyKind {
        case .integer: false
        case .text: table.sql.uppercased().contains("COLLATE")
        case .general: true
        }
    }

    /// The value of one key column, out of a key in canonical JSON.
    package static func part(_ table: SyncedTable, _ position: Int, of key: String) -> String {
        if table.keyKind == .integer { return "CAST(\(key) AS INTEGER)" }
        return table.key.count == 1 ? "tidemark_decode(\(key))" : "tidemark_decode(\(key) -> \(position))"
    }
}
