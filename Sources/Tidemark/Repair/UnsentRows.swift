import GRDB
import TidemarkCore
import TidemarkSQLite

/// Rows under temporary ids that nothing in the outbox creates: what was captured of them was lost,
/// for instance with a damaged page.
///
/// The server does not know them, and no comparison with it can: a temporary id means nothing
/// there. Everything captured has to be drained before.
struct UnsentRows {
    let db: Database
    let schema: SyncSchema

    /// The rows, by table and id.
    func find() throws -> [Verification.Record] {
        try tables.flatMap { table in
            try String.fetchAll(
                db,
                sql: """
                    SELECT \(RowJSON.key(table, alias: "t.")) FROM main.\(SQLText.name(table.name)) AS t
                    WHERE \(isUnsent(table)) ORDER BY t.\(SQLText.name(table.key[0]))
                    """
            ).map { Verification.Record(table: table.name, key: $0, difference: .unsent, columns: []) }
        }
    }

    /// Captures the rows as new ones, so that the next sync sends them.
    func captureAgain() throws {
        for table in tables { try CaptureRows.created(table, where: isUnsent(table), in: db) }
    }

    private var tables: [SyncedTable] { schema.tables.filter { $0.keyKind == .integer } }

    private func isUnsent(_ table: SyncedTable) -> String {
        let id = "t.\(SQLText.name(table.key[0]))"
        return """
            (\(id) < 0 OR \(id) >= \(TemporaryID.reservedMin)) AND NOT EXISTS (
                SELECT 1 FROM tidemark_outbox AS o WHERE o.tbl = \(SQLText.literal(table.name))
                AND o.key = \(RowJSON.key(table, alias: "t.")))
            """
    }
}
