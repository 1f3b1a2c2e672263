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
        let last = try Int64.fetchOne(db, sql: "SELECT max(seq) FROM tidemark_changeset") ?? 0
        guard last < .max else { throw TidemarkError.unreadable("The outbox") }
        let drawn = DrawnIDs(db: db, schema: schema)
        let overdrawn = try tables.compactMap(drawn.overdrawn)
        if let names = renumbering.columnNames {
            try FoldRewrites(db: db, schema: schema, columnNames: names).run(
                captured, in: range, outside: moment.boundaries.unknownRanges(in: range))
        }
        let groups = TransactionGroups(db: db, schema: schema)
        let independent = try independent ?? IndependentTables(declaredIn: db)
        for run in try groups.runs(in: range, boundaries: moment.boundaries) {
            let whole = run[0].range.lowerBound...run[run.count - 1].range.upperBound
            guard try CapturedEffects(db, schema: schema, in: whole).reduce() > 0 else { continue }
            try NumberNewRows(db: db, schema: schema).run(from: whole.lowerBound)
            let parts = try divide(run, whole: whole, independent: independent)
            let sets = run.flatMap { group in
                (0..<parts[group.range.upperBound, default: 1]).map { part in
                    NewChangeSet(
                        last: group.range.upperBound, part: part, isOutside: group.isOutside,
                        id: moment.newID().uuidString.lowercased(),
                        time: clock.next(at: Timestamp.milliseconds(moment.now)))
                }
            }
            try enqueueReduced(as: sets)
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

    /// Divides groups that other programs wrote; returns how many parts, if more than one, by a group's last number.
    private func divide(_ run: [TransactionGroups.Group], whole: ClosedRange<Int64>, independent: IndependentTables)
        throws -> [Int64: Int]
    {
        let division = DivideRecords(db: db, schema: schema, independent: independent)
        try division.clear()
        let outside = run.filter(\.isOutside).map { "[\($0.range.lowerBound),\($0.range.upperBound)]" }
        guard !outside.isEmpty, !independent.isNone else { return [:] }
        try division.fill(
            with: """
                SELECT reduced.tbl, reduced.key, reduced.operation, reduced.before, reduced.attributes,
                    bounds.value ->> 1
                FROM temp.tidemark_reduced AS reduced
                JOIN json_each(?) AS bounds
                    ON reduced.seq BETWEEN bounds.value ->> 0 AND bounds.value ->> 1
                ORDER BY reduced.seq
                """, arguments: ["[\(outside.joined(separator: ","))]"])
        return try division.divide(captureRange: whole)
    }

    // MARK: Enqueueing

    /// A change set to create from the captured changes up to a number, or from one part of them.
    private struct NewChangeSet {
        let last: Int64
        let part: Int
        let isOutside: Bool
        let id: String
        let time: Int64
    }

    /// Creates change sets from `temp.tidemark_reduced` and skips groups without remaining changes.
    private func enqueueReduced(as sets: [NewChangeSet]) throws {
        try runPlanted(PlantedBug.thawsSentSets, in: db)
        let list = sets.map { #"[\#($0.last),\#($0.part),"\#($0.id)",\#($0.time),\#($0.isOutside)]"# }.joined(
            separator: ",")
        try db.execute(cached: "DELETE FROM temp.tidemark_group")
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_group (last, part, id, time, outside)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
                FROM json_each(?)
                """, arguments: ["[\(list)]"])
        // The first group that ends at or after a change. The parts of a group share its end, so it is looked up first.
        let last = "(SELECT min(last) FROM temp.tidemark_group WHERE last >= reduced.seq)"
        try db.execute(
            cached: """
                INSERT INTO tidemark_changeset (id, time, epoch)
                SELECT new_set.id, new_set.time, device.epoch
                FROM temp.tidemark_group AS new_set
                CROSS JOIN tidemark_device AS device
                WHERE new_set.last IN (SELECT \(last) FROM temp.tidemark_reduced AS reduced)
                ORDER BY new_set.last, new_set.part
                """)
        try db.execute(
            cached: """
                UPDATE temp.tidemark_group
                SET seq = (
                    SELECT seq FROM tidemark_changeset AS changeset WHERE changeset.id = tidemark_group.id)
                """)
        try storeOutsideIDs()
        let part = """
            coalesce((
                SELECT division.part FROM temp.tidemark_division AS division
                WHERE division.tbl = reduced.tbl AND division.key = reduced.key), 0)
            """
        try db.execute(
            cached: """
                INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
                SELECT (SELECT seq FROM temp.tidemark_group WHERE last = \(last) AND part = \(part)),
                    tbl, key, operation, before, attributes, base
                FROM temp.tidemark_reduced AS reduced
                """)
        // The confirmed row is the row before the first pending change.
        try db.cachedStatement(
            sql:
                "INSERT OR \(precedesPending ? "REPLACE" : "IGNORE") INTO tidemark_base SELECT tbl, key, before FROM temp.tidemark_reduced"
        ).execute()
    }

    /// Stores the ids of change sets of unknown transactions, while these are pending or parked.
    private func storeOutsideIDs() throws {
        try db.execute(
            cached: """
                DELETE FROM tidemark_outside
                WHERE id NOT IN (SELECT id FROM tidemark_changeset)
                    AND id NOT IN (SELECT id FROM tidemark_conflict)
                """)
        try db.execute(
            cached: "INSERT INTO tidemark_outside SELECT id FROM temp.tidemark_group WHERE outside AND seq IS NOT NULL")
    }
}
