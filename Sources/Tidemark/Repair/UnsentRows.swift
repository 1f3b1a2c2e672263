import GRDB
import TidemarkCore
import TidemarkSQL

/// Finds rows with temporary ids that no pending change set creates.
///
/// Their capture entries were lost, for instance with a damaged page. A comparison with the server cannot find them,
/// because a temporary id means nothing there. The caller drains captured changes first.
struct UnsentRows {
    let db: Database
    let schema: SyncSchema

    func find() throws -> [Verification.Record] {
        try tables.flatMap { table in
            try String.fetchAll(
                db,
                sql: """
                    SELECT \(RowJSON.key(table, alias: "t."))
                    FROM main.\(SQLText.name(table.name)) AS t
                    WHERE \(unsentCondition(table))
                    ORDER BY t.\(SQLText.name(table.key[0]))
                    """
            ).map { Verification.Record(table: table.name, key: $0, difference: .unsent, columns: []) }
        }
    }

    /// Captures the rows as creations, so that the next sync sends them.
    func captureAgain() throws {
        for table in tables { try CaptureRows.captureAsCreated(table, where: unsentCondition(table), in: db) }
    }

    private var tables: [SyncedTable] { schema.tables.filter { $0.keyKind == .integer } }

    private func unsentCondition(_ table: SyncedTable) -> String {
        let id = "t.\(SQLText.name(table.key[0]))"
        return """
            (\(id) < \(table.lowestID) OR \(id) >= \(TemporaryID.reservedMin))
            AND NOT EXISTS (
                SELECT 1 FROM tidemark_outbox AS pending
                WHERE pending.tbl = \(SQLText.literal(table.name))
                    AND pending.key = \(RowJSON.key(table, alias: "t.")))
            """
    }
}
