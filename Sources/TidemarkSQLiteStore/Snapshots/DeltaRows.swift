import GRDB
import TidemarkCore
import TidemarkSQLite
import TidemarkStore

/// The rows of a delta: those of the records that the log names after a revision, in the
/// transaction of a ``SnapshotBuilder``, with the zone's file attached as `zone`.
struct DeltaRows {
    let db: Database
    let schema: SyncSchema

    /// Lists the records that changed.
    ///
    /// - Returns: Whether they are fit for a delta: the log reaches back so far, and most rows have
    ///   not changed.
    func list(since base: DeltaBase, in zone: Row) throws -> Bool {
        let isPossible = DeltaChoice.isPossible(
            since: base,
            epoch: try zone.value("epoch"),
            horizon: try zone.value("horizon"),
            revision: try zone.value("revision")
        )
        guard isPossible else { return false }
        try EngineConnection.prepare(db, schema: schema)
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_changed AS SELECT DISTINCT tbl, key
                FROM zone.tidemark_log INDEXED BY tidemark_log_revision WHERE revision > ?
                """,
            arguments: [base.revision]
        )
        let changed = try Int64.fetchOne(db, sql: "SELECT count(*) FROM temp.tidemark_changed")
        return try DeltaChoice.isWorthwhile(changed: changed ?? 0, in: schema.tables, count: count)
    }

    /// Copies the rows of a table's changed records, and notes the records that are gone.
    func copy(_ table: SyncedTable) throws {
        let name = SQLText.name(table.name)
        let columns = table.columns.map(\.name)
        let match = KeySQL.match(table, key: "c.key", alias: "t.")
        let values = columns.map { "t.\(SQLText.name($0))" }.joined(separator: ", ")
        let order = table.key.map { "t.\(SQLText.name($0))" }.joined(separator: ", ")
        try db.execute(
            sql: """
                INSERT INTO main.\(name) (\(SQLText.names(columns)))
                SELECT \(values) FROM temp.tidemark_changed AS c CROSS JOIN zone.\(name) AS t
                    ON \(match) WHERE c.tbl = ? ORDER BY \(order)
                """,
            arguments: [table.name]
        )
        try db.execute(
            sql: """
                INSERT INTO main.\(SnapshotFormat.deleted) (tbl, key)
                SELECT c.tbl, c.key FROM temp.tidemark_changed AS c
                WHERE c.tbl = ? AND NOT EXISTS (SELECT 1 FROM zone.\(name) AS t WHERE \(match))
                """,
            arguments: [table.name]
        )
    }

    private func count(_ table: SyncedTable, most: Int64) throws -> Int64 {
        try Int64.fetchOne(
            db,
            sql: "SELECT count(*) FROM (SELECT 1 FROM zone.\(SQLText.name(table.name)) LIMIT ?)",
            arguments: [most]
        ) ?? 0
    }
}
