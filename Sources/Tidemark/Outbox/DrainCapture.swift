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
        for group in try groups(in: range, boundaries: boundaries) {
            try ReduceCapture.reduce(group, schema: schema, in: db)
            try enqueueReduced(
                id: newID().uuidString.lowercased(),
                time: clock.next(at: Timestamp.milliseconds(now))
            )
        }
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

    /// Makes a change set of `temp.tidemark_reduced`, unless nothing is left of it.
    func enqueueReduced(id: String, time: Int64) throws {
        let isEmpty = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT NOT EXISTS (SELECT 1 FROM temp.tidemark_reduced)")
        )
        guard isEmpty == false, try !addToSentSet() else { return }
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
        try noteDependencies(seq)
    }

    /// A change set depends on the latest waiting one that touched the same record, on those that
    /// created records to which it refers, and on those that moved records away from one that it
    /// deletes: without the move, the deletion would take them along.
    func noteDependencies(_ seq: Int64) throws {
        if planted(PlantedBug.forgetsDependencies) { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT ?1, c.id FROM tidemark_outbox AS o JOIN tidemark_changeset AS c ON c.seq = (
                    SELECT max(p.seq) FROM tidemark_outbox AS p
                    WHERE p.tbl = o.tbl AND p.key = o.key AND p.seq < ?1)
                WHERE o.seq = ?1
                """
        ).execute(arguments: [seq])
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT DISTINCT ?1, c.id FROM (
                    SELECT r.parent, CAST(j.value AS TEXT) AS key
                    FROM tidemark_outbox AS o, json_each(o.attributes) AS j
                    JOIN temp.tidemark_reference AS r ON r.tbl = o.tbl AND r.col = j.key
                    WHERE o.seq = ?1 AND j.type = 'integer'
                    UNION
                    SELECT r.parent, CAST(j.value AS TEXT)
                    FROM tidemark_outbox AS o
                    JOIN temp.tidemark_column AS k ON k.tbl = o.tbl AND k.key_position IS NOT NULL
                    JOIN temp.tidemark_reference AS r ON r.tbl = o.tbl AND r.col = k.col,
                        json_each(o.key) AS j
                    WHERE o.seq = ?1 AND j.type = 'integer' AND coalesce(j.key, 0) = k.key_position
                ) AS wanted
                JOIN tidemark_outbox AS p ON p.tbl = wanted.parent AND p.key = wanted.key
                    AND p.operation = 'create' AND p.seq < ?1
                JOIN tidemark_changeset AS c ON c.seq = p.seq
                """
        ).execute(arguments: [seq])
        let deleted = try String.fetchSet(
            db.cachedStatement(
                sql:
                    "SELECT DISTINCT tbl FROM tidemark_outbox WHERE seq = ? AND operation = 'delete'"
            ),
            arguments: [seq]
        )
        for parent in schema.tables where deleted.contains(parent.name) {
            for (child, reference) in schema.references(to: parent.name) {
                try noteMoves(seq, parent, child, reference)
            }
        }
    }

    private func noteMoves(
        _ seq: Int64,
        _ parent: SyncedTable,
        _ child: SyncedTable,
        _ reference: SyncedTable.Reference
    ) throws {
        // A key never changes, so a reference that is part of one cannot move.
        let columns = reference.columns.filter { !child.key.contains($0) }
        guard !columns.isEmpty else { return }
        let path = { (name: String) in SQLText.literal("$.\"\(name)\"") }
        let was = reference.columns.map { name in
            child.key.firstIndex(of: name).map { position in
                child.key.count == 1 ? "key" : "(key -> \(position))"
            } ?? "(before -> \(path(name)))"
        }
        let isToKey = reference.parentColumns == parent.key
        let here =
            isToKey
            ? "d.key"
            : reference.parentColumns.map { "(d.before -> \(path($0)))" }
                .joined(separator: " || ',' || ")
        let list = was.joined(separator: " || ',' || ")
        let there = isToKey && was.count > 1 ? "'[' || \(list) || ']'" : list
        let moves = columns.map { "json_type(attributes, \(path($0))) IS NOT NULL" }
        try db.cachedStatement(
            sql: """
                WITH moved (seq, was) AS MATERIALIZED (
                    SELECT seq, \(there) FROM tidemark_outbox
                    WHERE seq < ?1 AND tbl = \(SQLText.literal(child.name)) AND operation = 'update'
                        AND (\(moves.joined(separator: " OR ")))
                )
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT DISTINCT ?1, c.id FROM tidemark_outbox AS d JOIN moved AS m ON m.was = \(here)
                JOIN tidemark_changeset AS c ON c.seq = m.seq
                WHERE d.seq = ?1 AND d.operation = 'delete' AND d.tbl = \(SQLText.literal(parent.name))
                """
        ).execute(arguments: [seq])
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
