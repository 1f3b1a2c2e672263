import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Moves what was captured into the outbox, as change sets.
///
/// Each transaction of the app is a change set; writes of other programs, whose boundaries nobody
/// noted, go together up to the next known boundary. Neighbours that touch the same record become
/// one change set, and a record created and deleted before anything was sent takes all between with
/// it: then its changes vanish. A union of transactions is still atomic; none is ever split.
struct DrainCapture {
    let db: Database
    let schema: SyncSchema

    /// Drains everything captured.
    ///
    /// - Parameters:
    ///   - boundaries: The numbers of the last captured changes of known transactions.
    ///   - now: The wall clock. What waits was written before, nobody knows exactly when; so a
    ///     change set is as late as the drain that finds it.
    ///   - newID: Makes the random id of a change set.
    /// - Throws: `DatabaseError`; the caller's transaction is rolled back then.
    func drain(boundaries: [Int64], now: Date, newID: () -> UUID) throws {
        guard let range = try ReduceCapture.pending(in: db) else { return }
        var clock = try DeviceClock.read(db)
        let last = try Int64.fetchOne(db, sql: "SELECT max(seq) FROM tidemark_changeset") ?? 0
        for group in try groups(in: range, boundaries: boundaries) {
            let count = try ReduceCapture.reduce(group, schema: schema, in: db)
            let (id, time) = (newID(), clock.next(at: Timestamp.milliseconds(now)))
            if count > 0 { try enqueueReduced(id: id.uuidString.lowercased(), time: time) }
        }
        try Dependencies(db: db, schema: schema).note(from: last + 1)
        try DeviceClock.store(clock, in: db)
        try ReduceCapture.forget(range, schema: schema, in: db)
        if planted(PlantedBug.dropsCreationsDeletedLater) { try Self.dropDeletedCreations(in: db) }
    }

    // MARK: Groups

    /// Divides the captured range into the ranges that become a change set each.
    private func groups(
        in range: ClosedRange<Int64>,
        boundaries: [Int64]
    ) throws -> [ClosedRange<Int64>] {
        let ends = Set(boundaries.filter { range.contains($0) } + [range.upperBound]).sorted()
        guard ends.count > 1 else { return [range] }
        let reach = try firstSegmentsTouched(ends)
        var groups: [ClosedRange<Int64>] = []
        var starts: [Int] = []
        for (index, end) in ends.enumerated() {
            var first = index
            // Joins every group from the one that holds the segment this one reaches back to.
            if let back = reach[index], let at = starts.lastIndex(where: { $0 <= back }) {
                first = starts[at]
                groups.removeLast(starts.count - at)
                starts.removeLast(starts.count - at)
            }
            let low = first == 0 ? range.lowerBound : ends[first - 1] + 1
            groups.append(low...end)
            starts.append(first)
        }
        return groups
    }

    /// For each segment, the earlier segment that it has to be united with, if there is one: its
    /// neighbour when they share a record, and the one where a record was created that it deletes.
    private func firstSegmentsTouched(_ ends: [Int64]) throws -> [Int: Int] {
        let touched: String = schema.tables.map { table -> String in
            let shadow = SQLText.name("tidemark_capture_\(table.name)")
            let (old, new) = (
                RowJSON.key(table, prefix: "old_"), RowJSON.key(table, prefix: "new_")
            )
            return """
                SELECT seq, \(SQLText.literal(table.name)) AS tbl,
                    CASE kind WHEN 'insert' THEN \(new) ELSE \(old) END AS key, kind FROM \(shadow)
                UNION ALL SELECT seq, \(SQLText.literal(table.name)), \(new), kind FROM \(shadow) WHERE kind = 'update'
                """
        }.joined(separator: "\nUNION ALL ")
        let list = "[" + ends.map(String.init).joined(separator: ",") + "]"
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    WITH touch (segment, tbl, key, kind) AS MATERIALIZED (
                        SELECT * FROM (
                            SELECT sum(kind IS NULL) OVER (ORDER BY seq, kind IS NULL ROWS UNBOUNDED PRECEDING),
                                tbl, key, kind
                            FROM (\(touched) UNION ALL SELECT value, NULL, NULL, NULL FROM json_each(?))
                        ) WHERE kind IS NOT NULL
                    ), record (tbl, key, segment, made, gone, previous) AS (
                        SELECT tbl, key, segment, max(kind = 'insert'), max(kind = 'delete'),
                            lag(segment) OVER (PARTITION BY tbl, key ORDER BY segment)
                        FROM touch GROUP BY tbl, key, segment
                    )
                    SELECT segment, min(back) AS back FROM (
                        SELECT segment, previous AS back FROM record WHERE previous = segment - 1
                        UNION ALL
                        SELECT g.segment, m.segment FROM record AS g JOIN record AS m USING (tbl, key)
                        WHERE g.gone AND m.made AND m.segment < g.segment
                    ) GROUP BY segment
                    """
            ),
            arguments: [list]
        )
        return Dictionary(
            uniqueKeysWithValues: rows.map { ($0["segment"] as Int, $0["back"] as Int) }
        )
    }

    // MARK: Enqueueing

    /// Makes a change set of `temp.tidemark_reduced`.
    private func enqueueReduced(id: String, time: Int64) throws {
        guard try !addToSentSet() else { return }
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_changeset (id, time, epoch)
                SELECT ?, ?, epoch FROM tidemark_device
                """
        ).execute(arguments: [id, time])
        let seq = db.lastInsertedRowID
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
                SELECT ?, tbl, key, operation, before, attributes, base FROM temp.tidemark_reduced
                """
        ).execute(arguments: [seq])
        // What the server confirmed is what stood there before the first waiting change.
        try db.cachedStatement(
            sql:
                "INSERT OR IGNORE INTO tidemark_base SELECT tbl, key, before FROM temp.tidemark_reduced"
        ).execute()
    }
}

extension DrainCapture {
    /// What ``TidemarkCore/PlantedBug/thawsSentSets`` does wrong: the last waiting change set may
    /// have been sent, and what is added to it never arrives.
    private func addToSentSet() throws -> Bool {
        let last = "(SELECT max(seq) FROM tidemark_changeset)"
        guard planted(PlantedBug.thawsSentSets),
            try Int64.fetchOne(db, sql: "SELECT \(last)") != nil
        else { return false }
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
