import GRDB
import TidemarkCore
import TidemarkSQL

/// Saves and restores columns that only this file has.
///
/// Rewind, apply and replay write rows again without these columns. So the device saves their values
/// first, and restores them at the end, under the rows' new ids.
struct UnservedColumns {
    let db: Database
    let schema: SyncSchema

    private var tables: [(SyncedTable, [String])] {
        schema.tables.compactMap { table in
            schema.difference.unservedColumns[table.name].map { (table, $0.map(\.name)) }
        }
    }

    /// Saves the columns of all records, or of those with pending changes.
    func save(all: Bool) throws {
        try db.execute(cached: "DELETE FROM temp.tidemark_held")
        for (table, columns) in tables {
            let match = KeySQL.match(table, key: "base.key", alias: "app_row.")
            let filter = all ? "" : "JOIN tidemark_base AS base ON base.tbl = ?1 AND \(match)"
            for column in columns {
                try db.execute(
                    sql: """
                        INSERT INTO temp.tidemark_held
                        SELECT ?1, \(RowJSON.key(table, alias: "app_row.")), ?2, app_row.\(SQLText.name(column))
                        FROM main.\(SQLText.name(table.name)) AS app_row \(filter)
                        """, arguments: [table.name, column])
            }
        }
    }

    func restore() throws {
        guard !tables.isEmpty, !planted(PlantedBug.losesOwnColumns) else { return }
        try StagedImages.stage(
            "SELECT DISTINCT tbl, key, 'update' AS operation, NULL AS attributes FROM temp.tidemark_held",
            ord: StagedPurpose.unserved.ord, in: db)
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_staged_cell (rec, col, value)
                SELECT staged.rec, saved.col, saved.value
                FROM temp.tidemark_held AS saved
                JOIN temp.tidemark_staged AS staged
                    ON staged.ord = ? AND staged.tbl = saved.tbl AND staged.key = saved.key
                """, arguments: [StagedPurpose.unserved.ord])
        try RecordWriter(db, schema: schema).write(ord: StagedPurpose.unserved.ord)
        try db.execute(
            sql: """
                DELETE FROM temp.tidemark_staged_cell
                    WHERE rec IN (SELECT rec FROM temp.tidemark_staged WHERE ord = \(StagedPurpose.unserved.ord));
                DELETE FROM temp.tidemark_staged WHERE ord = \(StagedPurpose.unserved.ord);
                """)
    }
}
