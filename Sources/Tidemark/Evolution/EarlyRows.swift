import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Captures rows that the app's migrations wrote before the first snapshot.
///
/// Nothing in the file comes from the zone yet, so this device creates all these rows.
struct EarlyRows {
    let db: Database
    let schema: SyncSchema
    let now: Date
    let newID: () -> UUID

    /// Captures the rows, while the triggers are off and after the device drained their captures.
    func capture() throws {
        let adopt = AdoptTables(db: db, schema: schema, now: Timestamp.text(now), newID: newID)
        let tables = try schema.tables.filter { try assignIDs(to: $0, adopt) }
        for table in tables { try CaptureRows.captureAsCreated(table, where: Self.isUncaptured(table, "t."), in: db) }
        for table in schema.tables {
            try CaptureMissedEdits(db: db, schema: schema).capture(table) { column in
                try SQLText.literal(DefaultValue.json(column, in: db))
            }
        }
    }

    /// Gives uncaptured rows ids of this device; false if a constraint forbids new ids, so that the rows stay local.
    private func assignIDs(to table: SyncedTable, _ adopt: AdoptTables) throws -> Bool {
        let name = "main.\(SQLText.name(table.name))."
        do {
            try db.inSavepoint {
                // `capture` compares the references later, when they have the new ids.
                try adopt.assignIDs(table, where: Self.isUncaptured(table, name), shared: { _ in [] })
                return .commit
            }
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT { return false }
    }

    /// Returns the condition that no pending change has altered a row.
    static func isUncaptured(_ table: SyncedTable, _ alias: String) -> String {
        """
        NOT EXISTS (
            SELECT 1 FROM tidemark_base
            WHERE tidemark_base.tbl = \(SQLText.literal(table.name))
                AND tidemark_base.key = \(RowJSON.key(table, alias: alias)))
        """
    }
}
