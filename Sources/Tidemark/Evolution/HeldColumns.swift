import GRDB
import TidemarkCore
import TidemarkSQLite

/// Columns that only this file has: the server sends none of them, so they must survive when rows
/// go and come again.
///
/// Rewinding, applying and replaying make rows anew. What the app wrote into such columns is put
/// aside before, and back when all is done, under the ids that the rows have then.
struct HeldColumns {
    let db: Database
    let schema: SyncSchema

    private static let ord = -9

    private var tables: [(SyncedTable, [String])] {
        schema.tables.compactMap { table in
            schema.difference.unservedColumns[table.name].map { (table, $0.map(\.name)) }
        }
    }

    /// Puts the columns aside: of all records, or of those with waiting changes.
    func save(all: Bool) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_held").execute()
        for (table, columns) in tables {
            let match = KeySQL.match(table, key: "b.key", alias: "t.")
            let waiting = all ? "" : "JOIN tidemark_base AS b ON b.tbl = ?1 AND \(match)"
            for column in columns {
                try db.execute(
                    sql: """
                        INSERT INTO temp.tidemark_held
                        SELECT ?1, \(RowJSON.key(table, alias: "t.")), ?2, t.\(SQLText.name(column))
                        FROM main.\(SQLText.name(table.name)) AS t \(waiting)
                        """,
                    arguments: [table.name, column]
                )
            }
        }
    }

    /// Puts them back, into the rows that are there.
    func restore() throws {
        guard !tables.isEmpty, !planted(PlantedBug.losesOwnColumns) else { return }
        try StagedImages.stage(
            "SELECT DISTINCT tbl, key, 'update' AS operation, NULL AS attributes FROM temp.tidemark_held",
            ord: Self.ord,
            in: db
        )
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_staged_cell (rec, col, value)
                SELECT s.rec, h.col, h.value FROM temp.tidemark_held AS h
                JOIN temp.tidemark_staged AS s ON s.ord = ? AND s.tbl = h.tbl AND s.key = h.key
                """,
            arguments: [Self.ord]
        )
        try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: Self.ord)
        try db.execute(
            sql: """
                DELETE FROM temp.tidemark_staged_cell
                    WHERE rec IN (SELECT rec FROM temp.tidemark_staged WHERE ord = \(Self.ord));
                DELETE FROM temp.tidemark_staged WHERE ord = \(Self.ord);
                """
        )
    }
}
