import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Moves captured changes into the outbox, as change sets.
///
/// Each known transaction of the app becomes a change set. Writes of other programs, whose
/// boundaries are unknown, are combined up to the next known boundary. Adjacent transactions that
/// touch the same record become one change set. So do all transactions from a record's creation to its
/// deletion, and the record's changes then cancel out. Combined transactions stay atomic. A
/// transaction is never split, unless the app has declared independent tables: ``DivideRecords``.
struct DrainCapture {
    let db: Database
    let schema: SyncSchema
    /// The tables whose rows may get other ids: only while the rows have the pending changes.
    var renumbering = Renumbering.all
    /// Whether the captured changes were made before the pending ones, and only found now.
    var precedesPending = false
    /// The tables in which changes of other programs are independent; nil: those that the file declares.
    var independent: IndependentTables?

    /// Drains everything captured; if it throws, the caller must roll back its transaction.
    ///
    /// The exact times of the writes are unknown, so a change set gets the time of its drain.
    func drain(at moment: Moment) throws {
        guard var range = try CapturedEffects.collectPending(schema, in: db) else { return }
        let captured = try capturedTables()
        let tables = captured.filter(renumbering.includes)
        if try FoldReinserts(db: db, schema: schema).run(tables) {
            range = try CapturedEffects.collectPending(schema, in: db) ?? range
        }
        var clock = try DeviceClock.read(db)
        let last = try Outbox.nextNumber(in: db) - 1
        let drawn = DrawnIDs(db: db, schema: schema)
        let overdrawn = try tables.compactMap(drawn.overdrawn)
        if let names = renumbering.columnNames {
            try FoldRewrites(db: db, schema: schema, columnNames: names).run(
                captured, in: range, outside: moment.boundaries.unknownRanges(in: range))
        }
        let groups = TransactionGroups(db: db, schema: schema)
        let independent = try independent ?? IndependentTables(declaredIn: db)
        for run in try groups.runs(in: range, boundaries: moment.boundaries) {
            guard let first = try enqueue(run, at: moment, &clock), !independent.isNone else { continue }
            try divide(run, from: first, independent, newID: moment.newID)
        }
        try renumber(overdrawn, from: last + 1)
        try drawn.settle(tables, newID: moment.newID)
        let first = precedesPending ? try MoveForward(db: db, schema: schema).run(after: last) : last + 1
        try Dependencies(db: db, schema: schema).store(from: first)
        try DeviceClock.store(clock, in: db)
        // The fold of reinserted rows may have changed tables that were not captured before.
        try CapturedEffects.deleteAll(of: capturedTables(), in: db)
        try runPlanted(PlantedBug.dropsCreationsDeletedLater, in: db)
    }

    /// The tables whose rows may get other ids when their captured changes are drained.
    enum Renumbering {
        /// All tables: the file has them as `schema` describes them.
        case all
        case none
        /// A migration has altered the file since the edits.
        ///
        /// `unaltered` are the tables whose columns, and the references to them, are as before. `renames` has the
        /// new names of renamed columns, by table and former name.
        case migrated(unaltered: Set<String>, renames: [String: [String: String]])

        func includes(_ table: SyncedTable) -> Bool {
            switch self {
            case .all: true
            case .none: false
            case .migrated(let unaltered, _): unaltered.contains(table.name)
            }
        }

        /// The file's names of renamed columns, by table; nil if no row may get another id.
        var columnNames: [String: [String: String]]? {
            switch self {
            case .all: [:]
            case .none: nil
            case .migrated(_, let renames): planted(PlantedBug.doublesRewrittenTables) ? nil : renames
            }
        }
    }

    private func capturedTables() throws -> [SyncedTable] {
        try String.fetchAll(db, cached: "SELECT DISTINCT tbl FROM tidemark_capture").compactMap { schema.byName[$0] }
    }

    /// Gives new records other ids if SQLite drew theirs beyond this device's place.
    private func renumber(_ overdrawn: [DrawnIDs.Overdrawn], from first: Int64) throws {
        guard !overdrawn.isEmpty else { return }
        let records = overdrawn.map {
            """
            SELECT tbl, CAST(key AS INTEGER) AS id
            FROM tidemark_outbox
            WHERE seq >= ?1 AND tbl = \(SQLText.literal($0.table.name)) AND operation = 'create'
                AND \($0.condition("CAST(key AS INTEGER)"))
            """
        }
        let renumbering = RenumberRecords(db: db, schema: schema)
        guard try renumbering.assign(records.joined(separator: " UNION ALL "), arguments: [first]) else { return }
        try renumbering.renamePending()
    }

    // MARK: Enqueueing

    /// Makes a change set of each group of a run that still changes anything; returns the number of the first group's.
    private func enqueue(_ run: [TransactionGroups.Group], at moment: Moment, _ clock: inout HybridClock) throws
        -> Int64?
    {
        let first = try Outbox.nextNumber(in: db)
        let ends = run.map(\.range.upperBound)
        let effects = CapturedEffects(db, schema: schema, in: run[0].range.lowerBound...ends[ends.count - 1])
        let differences = try Outbox.store(effects, schema, in: db) { number in
            first + Int64(ends.partitioningIndex { $0 >= number })
        }
        guard !differences.isEmpty else { return nil }
        try NumberNewRows(db: db, schema: schema).run(from: run[0].range.lowerBound, sets: first)
        try runPlanted(PlantedBug.thawsSentSets, in: db)
        let list = run.indices.map { index in
            let seq = first + Int64(index)
            let id = moment.newID().uuidString.lowercased()
            let time = clock.next(at: Timestamp.milliseconds(moment.now))
            return #"[\#(seq),"\#(id)",\#(time),\#(run[index].isOutside),"\#(differences[seq, default: .none])"]"#
        }
        let json = JSONText.array(list)
        try db.execute(
            cached: """
                INSERT INTO tidemark_changeset (seq, id, time, difference, epoch)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 4, device.epoch
                FROM json_each(?) AS new_set
                CROSS JOIN tidemark_device AS device
                WHERE EXISTS (SELECT 1 FROM tidemark_outbox WHERE seq = value ->> 0)
                ORDER BY new_set.key
                """, arguments: [json])
        try storeOutsideIDs(json)
        // The confirmed row is the row before the first pending change.
        try db.execute(
            cached: """
                INSERT OR \(precedesPending ? "REPLACE" : "IGNORE") INTO tidemark_base
                SELECT tbl, key, before FROM tidemark_outbox WHERE seq >= ?
                """, arguments: [first])
        return first
    }

    /// Stores the ids of change sets of unknown transactions, while these are pending or parked.
    private func storeOutsideIDs(_ sets: String) throws {
        try db.execute(
            cached: """
                DELETE FROM tidemark_outside
                WHERE id NOT IN (SELECT id FROM tidemark_changeset)
                    AND id NOT IN (SELECT id FROM tidemark_conflict)
                """)
        try db.execute(
            cached: """
                INSERT INTO tidemark_outside
                SELECT value ->> 1 FROM json_each(?)
                WHERE value ->> 3 AND value ->> 1 IN (SELECT id FROM tidemark_changeset)
                """, arguments: [sets])
    }

    /// Divides the change sets of a run that other programs made, the last one first: parts get the next numbers.
    private func divide(
        _ run: [TransactionGroups.Group], from first: Int64, _ independent: IndependentTables, newID: () -> UUID
    ) throws {
        let range = run[0].range.lowerBound...run[run.count - 1].range.upperBound
        for index in run.indices.reversed() where run[index].isOutside {
            let division = DivideRecords(db: db, schema: schema, independent: independent)
            let seq = first + Int64(index)
            try division.fill(withChangeSet: seq)
            guard let count = try division.divide(captureRange: range)[0] else { continue }
            try division.spread(seq, over: count, newID: newID)
        }
    }
}

extension RandomAccessCollection {
    /// Returns the first index from which on all elements belong to the second part.
    fileprivate func partitioningIndex(_ isSecond: (Element) -> Bool) -> Index {
        var low = startIndex
        var count = self.count
        while count > 0 {
            let middle = index(low, offsetBy: count / 2)
            if isSecond(self[middle]) {
                count /= 2
            } else {
                low = index(after: middle)
                count -= count / 2 + 1
            }
        }
        return low
    }
}
