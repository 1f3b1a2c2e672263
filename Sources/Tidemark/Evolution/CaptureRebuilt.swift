import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Compares the rebuilt tables of a file with the zone's rows, and makes pending changes of what the triggers missed.
struct CaptureRebuilt {
    let db: Database
    let boundaries: KnownTransactions
    let now: Date
    let newID: () -> UUID

    /// Drains all captured changes, so that the outbox has them, and returns the file.
    func begin() throws -> DeviceFile {
        try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).runIfNeeded()
        let file = try DeviceFile(db)
        try EngineConnection.prepare(db, schema: file.schema)
        try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
        return file
    }

    /// Compares with the attached snapshot, or with the rows kept of it; the file is at the revision of these rows.
    func compare(_ file: DeviceFile, with source: CompareRebuilt.Source) throws -> [DeviceEvent] {
        var events: [DeviceEvent] = []
        do {
            try db.inSavepoint {
                events = try capture(file, source)
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

    /// Compares with the kept rows, in a transaction of its own.
    func compareKept() throws -> [DeviceEvent] {
        var events: [DeviceEvent] = []
        try Transaction.withoutForeignKeys(db) {
            let file = try begin()
            events = try compare(file, with: .keptRows)
            try CompareRebuilt.forgetRows(of: file, in: db)
        }
        return events
    }

    /// Captures what the triggers missed, as changes that precede the pending ones.
    private func capture(_ file: DeviceFile, _ source: CompareRebuilt.Source) throws -> [DeviceEvent] {
        let pending = PendingChanges(db: db, schema: file.schema)
        let ownColumns = UnservedColumns(db: db, schema: file.schema)
        var events: [DeviceEvent] = []
        let comparison = CompareRebuilt(
            db: db, schema: file.schema, tables: try CompareRebuilt.tables(file), now: Timestamp.text(now),
            newID: newID, isRewound: true, source: source)
        try DeviceFile.whileApplying(db) {
            let uncaptured = UncapturedEdits(db: db, schema: file.schema, now: Timestamp.text(now), newID: newID)
            try comparison.restoreRowids()
            try ownColumns.save(all: false)
            events += try uncaptured.parkOverPending()
            try pending.rewind()
            events += try ReplacedRows(db: db, schema: file.schema).park(
                restored: Set(comparison.tables.map(\.name)), now: Timestamp.text(now), newID: newID)
            try comparison.capture()
            if file.lack == .columns { try UnknownValues(db: db, schema: file.schema).replaceFromSnapshot() }
        }
        try drainFound(file)
        // Change sets of their own, so that a conflict does not take the rest of a migration along.
        try DeviceFile.whileApplying(db) { try comparison.captureContended() }
        try drainFound(file)
        try DeviceFile.whileApplying(db) {
            // The rows have the found edits, and sums must not be added twice.
            try pending.rewind()
            try pending.replay()
            try ownColumns.restore()
        }
        return events
    }

    func drainFound(_ file: DeviceFile) throws {
        try DrainCapture(db: db, schema: file.schema, renumbering: .none, precedesPending: true).drain(
            boundaries: [], now: now, newID: newID)
    }
}
