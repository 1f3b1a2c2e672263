import GRDB
import TidemarkCore
import TidemarkSQL

/// Replaces the keys of staged updates and deletions by the stored spelling.
///
/// SQLite converts values before it compares keys: 9 finds the row 9.0 of a REAL key, "3" the row 3 of
/// an INTEGER key, and 'ABC' the row 'abc' of a key that ignores case. But the log is searched by the
/// key's text. With another spelling, the server would miss other devices' changes to the row. A
/// creation keeps its key; SQLite finds a conflicting row by value.
extension ZoneTransaction {
    func spellKeys() throws {
        let touchedTables = try String.fetchSet(
            db.cachedStatement(
                sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged"
            )
        )
        for table in schema.tables where touchedTables.contains(table.name) && KeySQL.hasSpellings(table) {
            let hasOtherSpelling = try Bool.fetchOne(
                db.cachedStatement(
                    sql: "SELECT EXISTS (\(Self.storedKeysSQL(table)) AND tidemark_stored_key <> staged.key)"
                )
            )
            guard hasOtherSpelling == true else { continue }
            try refuseDuplicates(in: table)
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged AS target
                    SET key = respelled.tidemark_stored_key
                    FROM (\(Self.storedKeysSQL(table)) AND tidemark_stored_key <> staged.key) AS respelled
                    WHERE respelled.rec = target.rec
                    """
            ).execute()
        }
    }

    /// Selects the staged records of a table that have a row, with the row's stored key.
    private static func storedKeysSQL(_ table: SyncedTable) -> String {
        """
        SELECT staged.rec, staged.ord, staged.key, \(RowJSON.key(table, alias: "current_row.")) AS tidemark_stored_key
        FROM temp.tidemark_staged AS staged
        CROSS JOIN main.\(SQLText.name(table.name)) AS current_row
            ON \(KeySQL.match(table, key: "staged.key", alias: "current_row.", isExact: false))
        WHERE staged.tbl = \(SQLText.literal(table.name)) AND staged.operation <> 'create'
        """
    }

    private func refuseDuplicates(in table: SyncedTable) throws {
        let row = try Row.fetchOne(
            db,
            sql: "\(Self.storedKeysSQL(table)) GROUP BY staged.ord, tidemark_stored_key HAVING count(*) > 1 LIMIT 1"
        )
        guard let row else { return }
        throw TidemarkError(
            .malformedRequest,
            "A record appears twice in one change set, its key spelled in two ways.",
            fix: "List each key once, in one of create, update and delete.",
            place: .init(
                changeSet: try ChangeSetStaging.index(of: row.value("ord")),
                table: table.name,
                key: try row.value("tidemark_stored_key")
            )
        )
    }
}
