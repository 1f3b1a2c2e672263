import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Copies the rows of a delta, which the log names, in a ``SnapshotBuilder``'s transaction with the file as `zone`.
struct DeltaRows {
    let db: Database
    let schema: SyncSchema

    /// Lists the changed records, and returns whether the log has all of them and most rows did not change.
    func list(since base: DeltaBase, in zone: Row) throws -> Bool {
        let isPossible = DeltaChoice.isPossible(
            since: base, epoch: try zone.value("epoch"), horizon: try zone.value("horizon"),
            revision: try zone.value("revision"))
        guard isPossible else { return false }
        try EngineConnection.addFunctions(to: db)
        ProgramFunctions.addStandIns(schema.objects, to: db)
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_changed AS
                SELECT DISTINCT tbl, key
                FROM zone.tidemark_log INDEXED BY tidemark_log_revision
                WHERE revision > ?
                """,
            arguments: [base.revision])
        let changedCount = try Int64.fetchOne(db, sql: "SELECT count(*) FROM temp.tidemark_changed")
        return try DeltaChoice.isWorthwhile(changed: changedCount ?? 0, in: schema.tables, count: count)
    }

    /// Copies the rows of a table's changed records, and lists its deleted records.
    func copy(_ table: SyncedTable) throws {
        let name = SQLText.name(table.name)
        let columns = table.columns.map(\.name)
        let match = KeySQL.match(table, key: "changed.key", alias: "current_row.")
        let values = columns.map { "current_row.\(SQLText.name($0))" }.joined(separator: ", ")
        let order = table.key.map { "current_row.\(SQLText.name($0))" }.joined(separator: ", ")
        try db.execute(
            sql: """
                INSERT INTO main.\(name) (\(SQLText.names(columns)))
                SELECT \(values)
                FROM temp.tidemark_changed AS changed
                CROSS JOIN zone.\(name) AS current_row ON \(match)
                WHERE changed.tbl = ?
                ORDER BY \(order)
                """,
            arguments: [table.name])
        try db.execute(
            sql: """
                INSERT INTO main.\(SnapshotFormat.deletedTable) (tbl, key)
                SELECT changed.tbl, changed.key
                FROM temp.tidemark_changed AS changed
                WHERE changed.tbl = ?
                    AND NOT EXISTS (SELECT 1 FROM zone.\(name) AS current_row WHERE \(match))
                """,
            arguments: [table.name])
    }

    private func count(_ table: SyncedTable, most: Int64) throws -> Int64 {
        try Int64.fetchOne(
            db, sql: "SELECT count(*) FROM (SELECT 1 FROM zone.\(SQLText.name(table.name)) LIMIT ?)", arguments: [most])
            ?? 0
    }
}
