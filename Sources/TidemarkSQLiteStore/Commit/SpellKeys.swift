import GRDB
import TidemarkCore
import TidemarkSQLite

/// One record, one spelling of its key.
///
/// SQLite finds a row by what a column makes of a value: 9 finds the row 9.0 of a REAL key, "3" the
/// row 3 of an INTEGER one, and 'ABC' the row 'abc' where the key ignores case. The log is searched
/// by the key's text. So an update or a deletion gets the key of its row as that is stored, before
/// anything is judged; else what others did to it would not be found. A creation keeps its own: a
/// row that is in its way is found by its value.
extension ZoneTransaction {
    func spellKeys() throws {
        let touched = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl FROM temp.tidemark_staged_member WHERE tbl IS NOT NULL
                    """
            )
        )
        for table in schema.tables where touched.contains(table.name) && KeySQL.hasSpellings(table) {
            let isOther = try Bool.fetchOne(
                db.cachedStatement(sql: "SELECT EXISTS (\(Self.named(table)) AND stored <> s.key)")
            )
            guard isOther == true else { continue }
            try refuseTwice(table)
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged AS u SET key = n.stored
                    FROM (\(Self.named(table)) AND stored <> s.key) AS n WHERE n.rec = u.rec
                    """
            ).execute()
        }
    }

    /// The staged records of a table that are about a row, with the row's own key.
    private static func named(_ table: SyncedTable) -> String {
        """
        SELECT s.rec, s.ord, s.key, \(RowJSON.key(table, alias: "t.")) AS stored
        FROM temp.tidemark_staged AS s CROSS JOIN main.\(SQLText.name(table.name)) AS t
            ON \(KeySQL.match(table, key: "s.key", alias: "t.", isExact: false))
        WHERE s.tbl = \(SQLText.literal(table.name)) AND s.operation <> 'create'
        """
    }

    private func refuseTwice(_ table: SyncedTable) throws {
        let row = try Row.fetchOne(db, sql: "\(Self.named(table)) GROUP BY s.ord, stored HAVING count(*) > 1 LIMIT 1")
        guard let row else { return }
        throw TidemarkError(
            .malformedRequest,
            "A record appears twice in one change set, its key spelled in two ways.",
            fix: "List each key once, in one of create, update and delete.",
            place: .init(
                changeSet: try ChangeSetStaging.index(of: row.value("ord")),
                table: table.name,
                key: try row.value("stored")
            )
        )
    }
}
