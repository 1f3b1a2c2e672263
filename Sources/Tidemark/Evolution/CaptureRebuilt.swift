import GRDB
import TidemarkCore
import TidemarkSQL

/// Compares the rebuilt tables of a file with the zone's rows, and makes pending changes of what the triggers missed.
struct CaptureRebuilt {
    let round: RoundContext
    private var db: Database { round.db }
    private var file: DeviceFile { round.file }

    /// Compares with the attached snapshot, or with the rows kept of it; the file is at the revision of these rows.
    ///
    /// The caller has drained all captured changes, so that the outbox has them.
    func compare(with source: CompareRebuilt.Source) throws -> [DeviceEvent] {
        var events: [DeviceEvent] = []
        do {
            try db.inSavepoint {
                events = try capture(source)
                return .commit
            }
            // The next request checks that the rows are the server's now, with pending changes on top.
            try ReplacedRows(db: db, schema: file.schema).forgetAll()
            try db.execute(sql: "UPDATE tidemark_device SET rebuilt = NULL, checked = NULL, stale = 0")
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // A row has a unique value that a pending change took from a confirmed row, or an edit does not
            // fit the values that others have given the row.
            try db.execute(sql: "UPDATE tidemark_device SET stale = 1")
            return []
        }
        return events
    }

    /// Captures what the triggers missed, as changes that precede the pending ones.
    private func capture(_ source: CompareRebuilt.Source) throws -> [DeviceEvent] {
        let comparison = CompareRebuilt(
            db: db, schema: file.schema, tables: try CompareRebuilt.tables(file), now: round.time, newID: round.newID,
            isRewound: true, source: source)
        return try DeviceFile.whileApplying(db) {
            try comparison.restoreRowids()
            return try round.rebase(bases: .bookkeeping) {
                let events = try ReplacedRows(db: db, schema: file.schema).park(
                    restored: Set(comparison.tables.map(\.name)), now: round.time, newID: round.newID)
                try comparison.capture()
                if file.lack == .columns { try UnknownValues(db: db, schema: file.schema).replaceFromSnapshot() }
                try round.drainFound()
                // Change sets of their own, so that a conflict does not take the rest of a migration along.
                try comparison.captureContended()
                try round.drainFound()
                return events
            }
        }
    }
}
