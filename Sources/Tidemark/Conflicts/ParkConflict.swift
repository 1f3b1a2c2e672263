import GRDB
import TidemarkCore
import TidemarkSQLite

/// A refused change set is not lost: it moves to the conflicts, with base, mine and theirs, and so
/// does what depends on it and was not sent yet.
///
/// What is parked together is numbered in the device's order: who makes the changes again in that
/// order ends where the device was.
struct ParkConflict {
    let db: Database
    let now: String

    /// Parks refused change sets, whose truths are staged as `ord`, and what would only be refused
    /// after them.
    ///
    /// What was sent along gets a verdict of its own.
    func park(_ refused: [(ord: Int, id: String)]) throws -> [SyncEvent] {
        guard !refused.isEmpty else { return [] }
        let told = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT ord, coalesce(reasons, '[]') FROM temp.tidemark_answered
                    WHERE conflict
                    """
            )
        )
        let byOrd = try Dictionary(
            told.map { try ($0.value(0) as Int, $0.value(1) as String) },
            uniquingKeysWith: { first, _ in first }
        )
        let reasons = refused.map { ($0.id, byOrd[$0.ord] ?? "[]") }
        let truths = Dictionary(uniqueKeysWithValues: refused.map { ($0.id, $0.ord) })
        return try park(Dictionary(uniqueKeysWithValues: reasons), truths: truths, withSent: false)
    }

    /// Parks change sets that the server refused to look at, or never will, and all that depend on
    /// them; `reasons` are JSON arrays, by id.
    func parkUnsent(_ reasons: [String: String]) throws -> [SyncEvent] {
        try park(reasons, truths: [:], withSent: true)
    }

    private func park(_ reasons: [String: String], truths: [String: Int], withSent: Bool) throws -> [SyncEvent] {
        guard !reasons.isEmpty else { return [] }
        let all = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    WITH RECURSIVE parked (id) AS (
                        SELECT value FROM json_each(?1)
                        UNION
                        SELECT c.id FROM parked AS d JOIN tidemark_after AS a ON a.id = d.id
                        JOIN tidemark_changeset AS c USING (seq) WHERE c.wire IS NULL OR ?2
                    )
                    SELECT c.id FROM tidemark_changeset AS c JOIN parked USING (id) ORDER BY c.seq
                    """
            ),
            arguments: ["[" + reasons.keys.map { "\"\($0)\"" }.joined(separator: ",") + "]", withSent]
        )
        try noteSeen(all)
        for id in all {
            let reason = reasons[id] ?? "[\(Conflict.Reason.predecessor.json)]"
            try move(id, reasons: reason, truth: truths[id])
        }
        return all.map { .conflict(id: $0) }
    }

    /// Notes as the base of refused changes what their author saw of the server's: the record as it
    /// was before the first change of it that waits.
    ///
    /// `tidemark_base` may be ahead of that: rows arrive while edits wait. And what an earlier
    /// refused change set, which later ones were made on, has left is nobody's but this device's.
    private func noteSeen(_ ids: [String]) throws {
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_outbox SET before = (
                    SELECT f.before FROM tidemark_outbox AS f
                    WHERE f.tbl = tidemark_outbox.tbl AND f.key = tidemark_outbox.key
                    ORDER BY f.seq LIMIT 1)
                WHERE (tbl, key) IN (
                    SELECT o.tbl, o.key FROM json_each(?) AS j
                    JOIN tidemark_changeset AS c ON c.id = j.value
                    JOIN tidemark_outbox AS o ON o.seq = c.seq)
                """
        ).execute(arguments: ["[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]"])
    }

    /// Keeps the records that an accepted change set created and that its answer, staged as `ord`,
    /// does not have: the server may have removed them at once, by a trigger of the app's, or it
    /// lost them.
    ///
    /// They leave the tables, as the server's rows are the truth; but not without a word. The
    /// server's rows are in the tables of `schema` by now, and a record that is there is not
    /// missing: of a change set that was compacted, the answer has no more than the new ids, and of
    /// a record that others had created, no more than the values that prevailed over theirs.
    func keepMissing(id: String, ord: Int, in schema: SyncSchema) throws -> [SyncEvent] {
        var missing = """
            FROM tidemark_outbox AS o JOIN tidemark_changeset AS c USING (seq)
            WHERE c.id = ?1 AND o.operation = 'create' AND NOT EXISTS (
                SELECT 1 FROM temp.tidemark_staged AS s
                WHERE s.ord = ?2 AND s.tbl = o.tbl AND s.key = o.key AND s.operation <> 'delete')
            """
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT o.tbl \(missing)"),
            arguments: [id, ord]
        )
        guard !names.isEmpty else { return [] }
        for table in schema.tables where names.contains(table.name) {
            missing += """
                 AND NOT (o.tbl = \(SQLText.literal(table.name)) AND EXISTS (
                    SELECT 1 FROM main.\(SQLText.name(table.name)) AS t
                    WHERE \(KeySQL.match(table, key: "o.key", alias: "t."))))
                """
        }
        let isWhole = try Bool.fetchOne(db, sql: "SELECT NOT EXISTS (SELECT 1 \(missing))", arguments: [id, ord])
        guard isWhole == false else { return [] }
        try db.execute(
            sql: "INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
            arguments: [id, now, "[\(Conflict.Reason.missing.json)]"]
        )
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO tidemark_conflict_record (id, tbl, key, operation, mine)
                SELECT ?1, o.tbl, o.key, o.operation, o.attributes \(missing)
                """,
            arguments: [id, ord]
        )
        return [.conflict(id: id)]
    }

    private func move(_ id: String, reasons: String, truth ord: Int?) throws {
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons, after, merges)
                SELECT c.id, ?2, ?3, (SELECT json_group_array(a.id) FROM tidemark_after AS a
                    WHERE a.seq = c.seq), c.merges
                FROM tidemark_changeset AS c WHERE c.id = ?1
                """
        ).execute(arguments: [id, now, reasons])
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, o.tbl, o.key, o.operation, o.before, o.attributes,
                    CASE WHEN ?2 IS NULL THEN b.image ELSE (
                        SELECT json_remove(s.attributes, '$.revision') FROM temp.tidemark_staged AS s
                        WHERE s.ord = ?2 AND s.tbl = o.tbl AND s.key = o.key) END
                FROM tidemark_outbox AS o JOIN tidemark_changeset AS c USING (seq)
                LEFT JOIN tidemark_base AS b ON b.tbl = o.tbl AND b.key = o.key
                WHERE c.id = ?1
                """
        ).execute(arguments: [id, ord])
        try keepNamed(id, reasons: reasons, truth: ord)
        if planted(PlantedBug.losesConflictRecords) { try db.execute(sql: "DELETE FROM tidemark_conflict_record") }
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
