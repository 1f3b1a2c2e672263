import GRDB
import TidemarkCore
import TidemarkSQL

/// Moves refused change sets and all their dependents to the conflicts, with base, mine and theirs.
///
/// The server refuses what depends on a refused change set. So a dependent is parked along with it, even if it was
/// sent: until its own verdict it would change the record that took the refused one's place.
///
/// Conflicts get their numbers in the order of the outbox. A retry in that order leads to the rows that the device had.
struct ParkConflict {
    let db: Database
    let now: String

    /// Parks refused change sets, whose truths are staged as `ord`, and their dependents.
    ///
    /// At this point the tables of `schema` hold the server's rows. They are the truth about dependents without a
    /// verdict of their own.
    func park(_ refused: [(ord: Int, id: String)], in schema: SyncSchema) throws -> [DeviceEvent] {
        guard !refused.isEmpty else { return [] }
        let rows = try Row.fetchAll(
            db, cached: "SELECT ord, coalesce(reasons, '[]') FROM temp.tidemark_answered WHERE conflict")
        let reasonsByOrd = try Dictionary(
            rows.map { try ($0.value(0) as Int, $0.value(1) as String) }, uniquingKeysWith: { first, _ in first })
        let reasonsByID = refused.map { ($0.id, reasonsByOrd[$0.ord] ?? "[]") }
        let truths = Dictionary(uniqueKeysWithValues: refused.map { ($0.id, $0.ord) })
        let events = try park(Dictionary(uniqueKeysWithValues: reasonsByID), truths: truths)
        // An answer has no record that the refusal is not about, for instance one that breaks a CHECK.
        try JudgeAfterReset.fillTheirs(refused.map(\.id), schema: schema, in: db, where: "theirs IS NULL")
        let dependents = events.compactMap(\.conflictID).filter { truths[$0] == nil }
        try JudgeAfterReset.fillTheirs(dependents, schema: schema, in: db)
        return events
    }

    /// Parks change sets that the server cannot judge, and their dependents; `reasons` has a JSON array for each id.
    func parkUnsent(_ reasons: [String: String]) throws -> [DeviceEvent] { try park(reasons, truths: [:]) }

    private func park(_ reasons: [String: String], truths: [String: Int]) throws -> [DeviceEvent] {
        guard !reasons.isEmpty else { return [] }
        let all = try String.fetchAll(
            db,
            cached: """
                WITH RECURSIVE parked (id) AS (
                    SELECT value FROM json_each(?1)
                    UNION
                    SELECT changeset.id
                    FROM parked
                    JOIN tidemark_after AS dependency ON dependency.id = parked.id
                    JOIN tidemark_changeset AS changeset USING (seq)
                )
                SELECT changeset.id
                FROM tidemark_changeset AS changeset
                JOIN parked USING (id)
                ORDER BY changeset.seq
                """, arguments: ["[" + reasons.keys.map { "\"\($0)\"" }.joined(separator: ",") + "]"])
        try storeAuthorsBase(all)
        for id in all {
            let reason = reasons[id] ?? "[\(Conflict.Reason.predecessor.json)]"
            try move(id, reasons: reason, truth: truths[id])
        }
        return all.map { .conflict($0) }
    }

    /// Stores the base of refused changes: the server's record as their author saw it.
    ///
    /// This is the record before its first pending change. `tidemark_base` may be newer, because rows arrive while
    /// edits are pending. The row after an earlier refused change set exists only on this device, so it is no base.
    private func storeAuthorsBase(_ ids: [String]) throws {
        try db.execute(
            cached: """
                UPDATE tidemark_outbox SET before = (
                    SELECT first_entry.before FROM tidemark_outbox AS first_entry
                    WHERE first_entry.tbl = tidemark_outbox.tbl AND first_entry.key = tidemark_outbox.key
                    ORDER BY first_entry.seq
                    LIMIT 1)
                WHERE (tbl, key) IN (
                    SELECT entry.tbl, entry.key
                    FROM json_each(?) AS parked_id
                    JOIN tidemark_changeset AS changeset ON changeset.id = parked_id.value
                    JOIN tidemark_outbox AS entry ON entry.seq = changeset.seq)
                """, arguments: ["[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]"])
    }

    /// Parks records that an accepted change set created but its answer, staged as `ord`, lacks.
    ///
    /// A trigger on the server may have deleted them, or the server lost them. They leave the tables, so the device
    /// parks them for the user. At this point the tables of `schema` hold the server's rows. A record that is in its
    /// table is not missing even if the answer lacks it: a compacted change set has only new ids, and a record that
    /// another author created first has only the values that prevailed.
    func parkMissingRecords(id: String, ord: Int, in schema: SyncSchema) throws -> [DeviceEvent] {
        var missing = """
            FROM tidemark_outbox AS entry
            JOIN tidemark_changeset AS changeset USING (seq)
            WHERE changeset.id = ?1 AND entry.operation = 'create' AND NOT EXISTS (
                SELECT 1 FROM temp.tidemark_staged AS staged
                WHERE staged.ord = ?2 AND staged.tbl = entry.tbl AND staged.key = entry.key
                    AND staged.operation <> 'delete')
            """
        let names = try String.fetchSet(db, cached: "SELECT DISTINCT entry.tbl \(missing)", arguments: [id, ord])
        guard !names.isEmpty else { return [] }
        for table in schema.tables where names.contains(table.name) {
            missing += """
                 AND NOT (entry.tbl = \(SQLText.literal(table.name)) AND EXISTS (
                    SELECT 1 FROM main.\(SQLText.name(table.name)) AS app_row
                    WHERE \(KeySQL.match(table, key: "entry.key", alias: "app_row."))))
                """
        }
        let isWhole = try Bool.fetchOne(db, sql: "SELECT NOT EXISTS (SELECT 1 \(missing))", arguments: [id, ord])
        guard isWhole == false else { return [] }
        try db.execute(
            sql: "INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
            arguments: [id, now, "[\(Conflict.Reason.missing.json)]"])
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO tidemark_conflict_record (id, tbl, key, operation, mine)
                SELECT ?1, entry.tbl, entry.key, entry.operation, entry.attributes \(missing)
                """, arguments: [id, ord])
        return [.conflict(id)]
    }

    private func move(_ id: String, reasons: String, truth ord: Int?) throws {
        try db.execute(
            cached: """
                INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons, after, merges)
                SELECT changeset.id, ?2, ?3, (
                        SELECT json_group_array(dependency.id) FROM tidemark_after AS dependency
                        WHERE dependency.seq = changeset.seq),
                    changeset.merges
                FROM tidemark_changeset AS changeset
                WHERE changeset.id = ?1
                """, arguments: [id, now, reasons])
        try db.execute(
            cached: """
                INSERT OR REPLACE INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, entry.tbl, entry.key, entry.operation, entry.before, entry.attributes,
                    CASE WHEN ?2 IS NULL THEN base.image ELSE (
                        SELECT json_remove(staged.attributes, '$.revision') FROM temp.tidemark_staged AS staged
                        WHERE staged.ord = ?2 AND staged.tbl = entry.tbl AND staged.key = entry.key) END
                FROM tidemark_outbox AS entry
                JOIN tidemark_changeset AS changeset USING (seq)
                LEFT JOIN tidemark_base AS base ON base.tbl = entry.tbl AND base.key = entry.key
                WHERE changeset.id = ?1
                """, arguments: [id, ord])
        try storeBlockingRecords(id, reasons: reasons, truth: ord)
        try runPlanted(PlantedBug.losesConflictRecords, in: db)
        try Outbox.remove(id, in: db)
    }

    /// Stores other records that the reasons name, for instance the one that already has a unique value.
    private func storeBlockingRecords(_ id: String, reasons: String, truth ord: Int?) throws {
        try db.execute(
            cached: """
                INSERT OR IGNORE INTO tidemark_conflict_record (id, tbl, key, operation, theirs)
                SELECT ?1, staged.tbl, staged.key, 'unchanged', json_remove(staged.attributes, '$.revision')
                FROM json_each(?2) AS reason
                JOIN temp.tidemark_staged AS staged
                    ON staged.tbl = reason.value ->> '$.table' AND staged.key = reason.value -> '$.key'
                WHERE staged.ord = ?3 AND staged.operation = 'update'
                """, arguments: [id, reasons, ord])
    }
}
