import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// What the app's migrations wrote before the first snapshot: nothing in the file is the zone's
/// yet, so all of it belongs to what this device creates.
struct EarlyRows {
    let db: Database
    let schema: SyncSchema
    let now: Date
    let newID: () -> UUID

    /// Captures it, with capture switched off, when what the triggers saw waits in the outbox.
    func capture() throws {
        let adopt = AdoptTables(db: db, schema: schema, now: Timestamp.text(now), newID: newID)
        let tables = try schema.tables.filter { try giveIds(to: $0, adopt) }
        for table in tables { try CaptureRows.created(table, where: isFree(table, "t."), in: db) }
        for table in schema.tables {
            try CaptureWritten(db: db, schema: schema).capture(table) { column in
                try SQLText.literal(DefaultValue.json(column, in: db))
            }
        }
    }

    /// Gives rows that nobody saw temporary ids, unless the app's table takes no others than it
    /// has: then they are the app's own.
    private func giveIds(to table: SyncedTable, _ adopt: AdoptTables) throws -> Bool {
        let name = "main.\(SQLText.name(table.name))."
        do {
            try db.inSavepoint {
                // What refers to a row is compared later, when it has the new id.
                try adopt.giveTemporaryIds(table, where: isFree(table, name), shared: { _ in [] })
                return .commit
            }
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT { return false }
    }

    /// Whether nothing of the record waits: nobody saw it being written.
    private func isFree(_ table: SyncedTable, _ alias: String) -> String {
        """
        NOT EXISTS (SELECT 1 FROM tidemark_base AS b WHERE b.tbl = \(SQLText.literal(table.name))
        AND b.key = \(RowJSON.key(table, alias: alias)))
        """
    }
}
