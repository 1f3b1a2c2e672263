import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Moves what was captured into the outbox, as change sets.
///
/// Each transaction of the app is a change set; writes of other programs, whose boundaries nobody
/// noted, go together up to the next known boundary. Neighbours that touch the same record become
/// one change set, and a record created and deleted before anything was sent takes all between with
/// it: then its changes vanish. A union of transactions is still atomic; none is ever split, but
/// where the app has declared that what other programs write is independent: ``DivideRecords``.
struct DrainCapture {
    let db: Database
    let schema: SyncSchema

    /// Drains everything captured.
    ///
    /// - Parameters:
    ///   - boundaries: The known transactions.
    ///   - now: The wall clock. What waits was written before, nobody knows exactly when; so a
    ///     change set is as late as the drain that finds it.
    ///   - newID: Makes the random id of a change set.
    /// - Throws: `DatabaseError`; the caller's transaction is rolled back then.
    func drain(boundaries: KnownTransactions, now: Date, newID: () -> UUID) throws {
        guard let range = try ReduceCapture.settled(schema, in: db) else { return }
        var clock = try DeviceClock.read(db)
        let last = try Int64.fetchOne(db, sql: "SELECT max(seq) FROM tidemark_changeset") ?? 0
        guard last < .max else { throw TidemarkError.unreadable("The outbox") }
        let groups = TransactionGroups(db: db, schema: schema)
        let independent = try IndependentTables(declaredIn: db)
        for run in try groups.runs(in: range, boundaries: boundaries) {
            let whole = run[0].range.lowerBound...run[run.count - 1].range.upperBound
            let count = try ReduceCapture.reduce(whole, schema: schema, in: db)
            guard count > 0 else { continue }
            let parts = try divide(run, whole, independent)
            let sets = run.flatMap { group in
                (0..<parts[group.range.upperBound, default: 1]).map { part in
                    Fresh(
                        last: group.range.upperBound,
                        part: part,
                        isOutside: group.isOutside,
                        id: newID().uuidString.lowercased(),
                        time: clock.next(at: Timestamp.milliseconds(now))
                    )
                }
            }
            try enqueueReduced(as: sets)
        }
        try Dependencies(db: db, schema: schema).note(from: last + 1)
        try DeviceClock.store(clock, in: db)
        try ReduceCapture.forget(range, schema: schema, in: db)
        // Else each drain would make one more change set of it, for ever.
        guard try ReduceCapture.pending(in: db) == nil else {
            throw TidemarkError.unreadable("The list of captured changes")
        }
        if planted(PlantedBug.dropsCreationsDeletedLater) { try Self.dropDeletedCreations(in: db) }
    }

    /// Divides the records of a run's groups that other programs made, as far as that is declared.
    ///
    /// - Returns: The number of parts of each group that has more than one, by its last number.
    private func divide(_ run: [TransactionGroups.Group], _ whole: ClosedRange<Int64>, _ independent: IndependentTables)
        throws -> [Int64: Int]
    {
        let division = DivideRecords(db: db, schema: schema, independent: independent)
        try division.clear()
        let outside = run.filter(\.isOutside).map { "[\($0.range.lowerBound),\($0.range.upperBound)]" }
        guard !outside.isEmpty, !independent.isNone else { return [:] }
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_division (tbl, key, operation, before, attributes, grp)
                SELECT r.tbl, r.key, r.operation, r.before, r.attributes, j.value ->> 1
                FROM temp.tidemark_reduced AS r JOIN json_each(?) AS j
                    ON r.seq BETWEEN j.value ->> 0 AND j.value ->> 1
                ORDER BY r.seq
                """
        ).execute(arguments: ["[\(outside.joined(separator: ","))]"])
        return try division.divide(moved: whole)
    }

    // MARK: Enqueueing

    /// A change set that is made of the captured changes up to a number, or of a part of them.
    private struct Fresh {
        let last: Int64
        let part: Int
        let isOutside: Bool
        let id: String
        let time: Int64
    }

    /// Makes change sets of `temp.tidemark_reduced`; of a group of which nothing is left, none.
    private func enqueueReduced(as sets: [Fresh]) throws {
        guard try !addToSentSet() else { return }
        let list = sets.map { #"[\#($0.last),\#($0.part),"\#($0.id)",\#($0.time),\#($0.isOutside)]"# }.joined(
            separator: ","
        )
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_group").execute()
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_group (last, part, id, time, outside)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
                FROM json_each(?)
                """
        ).execute(arguments: ["[\(list)]"])
        let group = "FROM temp.tidemark_group WHERE last >= r.seq"
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_changeset (id, time, epoch)
                SELECT g.id, g.time, d.epoch
                FROM temp.tidemark_group AS g CROSS JOIN tidemark_device AS d
                WHERE g.last IN (SELECT (SELECT min(last) \(group)) FROM temp.tidemark_reduced AS r)
                ORDER BY g.last, g.part
                """
        ).execute()
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_group
                SET seq = (SELECT seq FROM tidemark_changeset AS c WHERE c.id = tidemark_group.id)
                """
        ).execute()
        try noteOutside()
        let part = """
            coalesce((SELECT d.part FROM temp.tidemark_division AS d
            WHERE d.tbl = r.tbl AND d.key = r.key), 0)
            """
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
                SELECT (SELECT seq \(group) AND part = \(part) ORDER BY last LIMIT 1),
                    tbl, key, operation, before, attributes, base FROM temp.tidemark_reduced AS r
                """
        ).execute()
        // What the server confirmed is what stood there before the first waiting change.
        try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO tidemark_base SELECT tbl, key, before FROM temp.tidemark_reduced"
        ).execute()
    }

    /// Notes which change sets no known transaction made, for as long as they wait or are parked.
    private func noteOutside() throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM tidemark_outside WHERE id NOT IN (SELECT id FROM tidemark_changeset)
                    AND id NOT IN (SELECT id FROM tidemark_conflict)
                """
        ).execute()
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_outside SELECT id FROM temp.tidemark_group
                WHERE outside AND seq IS NOT NULL
                """
        ).execute()
    }
}

extension DrainCapture {
    /// What ``TidemarkCore/PlantedBug/thawsSentSets`` does wrong: the last waiting change set may
    /// have been sent, and what is added to it never arrives.
    private func addToSentSet() throws -> Bool {
        let last = "(SELECT max(seq) FROM tidemark_changeset)"
        guard planted(PlantedBug.thawsSentSets), try Int64.fetchOne(db, sql: "SELECT \(last)") != nil else {
            return false
        }
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO tidemark_outbox (seq, tbl, key, operation, attributes, base)
                SELECT \(last), tbl, key, operation, attributes, base FROM temp.tidemark_reduced;
                UPDATE tidemark_changeset SET wire = NULL WHERE seq = \(last)
                """
        )
        return true
    }

    /// What ``TidemarkCore/PlantedBug/dropsCreationsDeletedLater`` does wrong: a creation may have
    /// been sent, and then the server has it.
    private static func dropDeletedCreations(in db: Database) throws {
        try db.execute(
            sql: """
                DELETE FROM tidemark_outbox WHERE EXISTS (
                    SELECT 1 FROM tidemark_outbox AS d JOIN tidemark_outbox AS c USING (tbl, key)
                    WHERE tbl = tidemark_outbox.tbl AND key = tidemark_outbox.key
                        AND d.operation = 'delete' AND c.operation = 'create' AND c.seq < d.seq)
                """
        )
    }
}
