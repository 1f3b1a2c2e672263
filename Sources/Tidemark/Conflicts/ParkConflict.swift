import GRDB
import TidemarkCore

/// A refused change set is not lost: it moves to the conflicts, with base, mine and theirs, and so
/// does what depends on it and was not sent yet.
struct ParkConflict {
    let db: Database
    let now: String

    /// Parks the change set, whose truth is staged as `ord`.
    func park(id: String, ord: Int) throws -> [SyncEvent] {
        let reasons = try String.fetchOne(
            db.cachedStatement(
                sql:
                    "SELECT coalesce(json -> '$.reasons', '[]') FROM temp.tidemark_staged_set WHERE ord = ?"
            ),
            arguments: [ord]
        )
        try move(id, reasons: reasons ?? "[]", truth: ord)
        var events = [SyncEvent.conflict(id: id)]
        // What was sent along gets a verdict of its own; what was not would only be refused.
        let (none, some) = ("a.id IS NOT ?", "a.id = ?")
        let depends = planted(PlantedBug.parksBystanders) ? none : some
        let dependents = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT c.id FROM tidemark_after AS a JOIN tidemark_changeset AS c USING (seq)
                    WHERE \(depends) AND c.wire IS NULL ORDER BY c.seq
                    """
            ),
            arguments: [id]
        )
        for dependent in dependents {
            events += try parkUnsent(
                dependent,
                reasons: "[\(Conflict.Reason.predecessor.json)]"
            )
        }
        return events
    }

    /// Parks a change set that the server refused to look at, or never will.
    func parkUnsent(_ id: String, reasons: String) throws -> [SyncEvent] {
        try move(id, reasons: reasons, truth: nil)
        var events = [SyncEvent.conflict(id: id)]
        let dependents = try String.fetchAll(
            db.cachedStatement(
                sql:
                    "SELECT c.id FROM tidemark_after AS a JOIN tidemark_changeset AS c USING (seq) WHERE a.id = ? ORDER BY c.seq"
            ),
            arguments: [id]
        )
        for dependent in dependents {
            events += try parkUnsent(
                dependent,
                reasons: "[\(Conflict.Reason.predecessor.json)]"
            )
        }
        return events
    }

    private func move(_ id: String, reasons: String, truth ord: Int?) throws {
        try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)"
        ).execute(arguments: [id, now, reasons])
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, o.tbl, o.key, o.operation, b.image, o.attributes,
                    CASE WHEN ?2 IS NULL THEN b.image ELSE (
                        SELECT json_remove(s.attributes, '$.revision') FROM temp.tidemark_staged AS s
                        WHERE s.ord = ?2 AND s.tbl = o.tbl AND s.key = o.key) END
                FROM tidemark_outbox AS o JOIN tidemark_changeset AS c USING (seq)
                LEFT JOIN tidemark_base AS b ON b.tbl = o.tbl AND b.key = o.key
                WHERE c.id = ?1
                """
        ).execute(arguments: [id, ord])
        try keepNamed(id, reasons: reasons, truth: ord)
        if planted(PlantedBug.losesConflictRecords) {
            try db.execute(sql: "DELETE FROM tidemark_conflict_record")
        }
        try Outbox.remove(id, in: db)
    }
    /// Keeps the records of others that the reasons name, for instance the one that holds a unique
    /// value, so that people see what stands in the way.
    private func keepNamed(_ id: String, reasons: String, truth ord: Int?) throws {
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_conflict_record (id, tbl, key, operation, theirs)
                SELECT ?1, s.tbl, s.key, 'unchanged', json_remove(s.attributes, '$.revision')
                FROM json_each(?2) AS r JOIN temp.tidemark_staged AS s
                    ON s.tbl = r.value ->> '$.table' AND s.key = r.value -> '$.key'
                WHERE s.ord = ?3 AND s.operation = 'update'
                """
        ).execute(arguments: [id, reasons, ord])
    }
}
