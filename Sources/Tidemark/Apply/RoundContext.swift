import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// What a transaction of a device works with, read once at its beginning; the members of its moment are its own.
@dynamicMemberLookup
struct RoundContext {
    let db: Database
    let file: DeviceFile
    let moment: Moment

    var schema: SyncSchema { file.schema }
    subscript<Value>(dynamicMember member: KeyPath<Moment, Value>) -> Value { moment[keyPath: member] }

    var fingerprints: ConfirmedRows { ConfirmedRows(db: db, file: file) }
    var pending: PendingChanges { PendingChanges(db: db, schema: schema) }
    var uncaptured: UncapturedEdits { UncapturedEdits(db: db, schema: schema, now: moment.time, newID: moment.newID) }
    var parking: ParkConflict { ParkConflict(db: db, now: moment.time) }

    /// Makes change sets of the captured changes, with the zone's policies: the one way into the outbox.
    ///
    /// `schema` is that of the captured changes, where the file has another one by now.
    func drain(
        _ boundaries: KnownTransactions? = nil, schema: SyncSchema? = nil,
        renumbering: DrainCapture.Renumbering = .all, precedesPending: Bool = false,
        independent: IndependentTables? = nil
    ) throws {
        var moment = moment
        if let boundaries { moment.boundaries = boundaries }
        try DrainCapture(
            db: db, schema: schema ?? self.schema, renumbering: renumbering, precedesPending: precedesPending,
            independent: independent
        ).drain(at: moment)
    }

    /// Makes change sets of the captured changes, and of rows that only this device has and whose capture was lost.
    func drainWithUnsentRows() throws {
        try drain()
        try UnsentRows(db: db, schema: schema).captureAgain()
        try drain([])
    }

    /// Makes change sets of edits that a comparison has found in the rows, ahead of the pending ones.
    func drainFound() throws { try drain([], renumbering: .none, precedesPending: true) }

    /// The tables at the beginning of a rebase.
    enum Rows {
        /// The confirmed rows with the pending edits on top.
        case edited
        /// The confirmed rows: the file is new, and its outbox comes from another one.
        case confirmed
        /// The confirmed rows with the pending edits on top, and `take` replaces all of them.
        case replaced
        /// As edited, but a migration has lost the row numbers that the pending edits name; the edits stay in the rows.
        case unmatched
    }

    /// The confirmed versions of the records with pending edits, after `take`.
    enum Bases {
        /// The rows: `take` has brought the server's, and judged the edits by them.
        case rows
        /// As they are in the bookkeeping: `take` has found edits in the rows, and drained them.
        case bookkeeping
    }

    /// Takes the pending edits out of the rows, has `take` bring the server's rows, and puts the edits on top again.
    ///
    /// Answers, deltas, repairs, snapshots, rescues, migrations and comparisons of rebuilt tables enter a file here; a
    /// join of a file without rows writes them by itself. The caller has drained, and runs it in a transaction without
    /// foreign keys: the server has judged the references, and a cascade here would delete records that nobody names.
    /// `take` settles the verdicts and judges the edits while the tables hold exactly the server's rows. An edit that
    /// no longer fits stays in the outbox without a replay.
    func rebase(_ rows: Rows = .edited, bases: Bases = .rows, _ take: () throws -> [DeviceEvent]) throws
        -> [DeviceEvent]
    {
        try DeviceFile.whileApplying(db) {
            let ownColumns = UnservedColumns(db: db, schema: schema)
            try ownColumns.save(all: rows == .replaced)
            var events: [DeviceEvent] = []
            switch rows {
            case .edited:
                events = try uncaptured.parkOverPending()
                try pending.rewind()
            case .replaced: events = try uncaptured.parkOverPending()
            case .confirmed, .unmatched: break
            }
            events += try take()
            switch bases {
            case _ where rows == .unmatched: break
            case .rows:
                try pending.refreshBase()
                try pending.replay()
            case .bookkeeping:
                try pending.rewind()
                try pending.replay()
            }
            try ownColumns.restore()
            try OwnReferences(db: db, schema: schema).settle()
            return events
        }
    }
}

extension RoundContext {
    /// Fits the file to its tables and to the zone's, if one has changed, and reads its state.
    init(_ db: Database, at moment: Moment) throws {
        try FitSchema(db: db, moment: moment).runIfNeeded()
        try self.init(prepared: db, at: moment)
    }

    /// Reads the state of a file that fits.
    init(prepared db: Database, at moment: Moment) throws {
        self.init(db: db, file: try DeviceFile(db), moment: moment)
        try EngineConnection.prepare(db, schema: file.schema)
    }
}
