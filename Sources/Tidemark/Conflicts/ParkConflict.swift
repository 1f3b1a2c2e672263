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

    /// Parks refused change sets, with the server's records of their answers, and their dependents.
    ///
    /// At this point the tables of `schema` hold the server's rows. They are the truth about dependents without a
    /// verdict of their own.
    func park(_ refused: [Answered.Own], in schema: SyncSchema) throws -> [DeviceEvent] {
        guard !refused.isEmpty else { return [] }
        let reasons = Dictionary(uniqueKeysWithValues: refused.map { ($0.id, $0.set.reasons) })
        let answers = Dictionary(uniqueKeysWithValues: refused.map { ($0.id, $0.set) })
        let events = try park(reasons, answers: answers)
        // An answer has no record that the refusal is not about, for instance one that breaks a CHECK.
        try JudgeAfterReset.fillTheirs(refused.map(\.id), schema: schema, in: db, where: "theirs IS NULL")
        let dependents = events.compactMap(\.conflictID).filter { answers[$0] == nil }
        try JudgeAfterReset.fillTheirs(dependents, schema: schema, in: db)
        return events
    }

    /// Parks change sets that the server cannot judge, and their dependents; `reasons` has a JSON array for each id.
    func parkUnsent(_ reasons: [String: String]) throws -> [DeviceEvent] { try park(reasons, answers: [:]) }

    private func park(_ reasons: [String: String], answers: [String: AnsweredSet]) throws -> [DeviceEvent] {
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
            try move(id, reasons: reason, answer: answers[id])
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

    /// Parks records that an accepted change set created but its answer lacks.
    ///
    /// A trigger on the server may have deleted them, or the server lost them. They leave the tables, so the device
    /// parks them for the user. At this point the tables of `schema` hold the server's rows. A record that is in its
    /// table is not missing even if the answer lacks it: a compacted change set has only new ids, and a record that
    /// another author created first has only the values that prevailed.
    func parkMissingRecords(of own: Answered.Own, in schema: SyncSchema) throws -> [DeviceEvent] {
        let records = own.set.changeSet.records.filter { $0.operation != .delete }
        let present = Set(records.map { RecordID(table: $0.table, key: $0.key) })
        let tables = schema.tables + schema.difference.unknownTables
        let pending = try PendingSet.records(of: [own.pending.seq], tables, in: db).values.joined()
        let unanswered = pending.filter { $0.value == .create && !present.contains($0.key) }.map(\.key)
        var missing: [RecordID] = []
        for (place, records) in Dictionary(grouping: unanswered, by: \.table) {
            // A table that the app has dropped has no rows.
            guard place < schema.tables.count else {
                missing += records
                continue
            }
            let keys = try KeySQL.keysWithoutRow(records.map(\.key), in: schema.tables[place], db)
            missing += keys.map { RecordID(table: place, key: $0) }
        }
        guard !missing.isEmpty else { return [] }
        try db.execute(
            sql: "INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
            arguments: [own.id, now, "[\(Conflict.Reason.missing.json)]"])
        for record in missing {
            try db.execute(
                cached: """
                    INSERT OR REPLACE INTO tidemark_conflict_record (id, tbl, key, operation, mine)
                    SELECT ?1, tbl, key, operation, attributes FROM tidemark_outbox
                    WHERE seq = ?2 AND tbl = ?3 AND key = ?4
                    """, arguments: [own.id, own.pending.seq, tables[record.table].name, record.key])
        }
        return [.conflict(own.id)]
    }

    private func move(_ id: String, reasons: String, answer: AnsweredSet?) throws {
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
                    iif(?2, NULL, base.image)
                FROM tidemark_outbox AS entry
                JOIN tidemark_changeset AS changeset USING (seq)
                LEFT JOIN tidemark_base AS base ON base.tbl = entry.tbl AND base.key = entry.key
                WHERE changeset.id = ?1
                """, arguments: [id, answer != nil])
        if let answer { try storeTruth(of: answer, id) }
        try runPlanted(PlantedBug.losesConflictRecords, in: db)
        try Outbox.remove(id, in: db)
    }

    /// Stores the records that the server sends with a refusal; the device adds those that only the reasons name.
    ///
    /// Such a record is, for instance, the one that has a unique value already.
    private func storeTruth(of answer: AnsweredSet, _ id: String) throws {
        for record in answer.changeSet.records {
            let table = answer.changeSet.names.tables[record.table].name
            try db.execute(
                cached: "UPDATE tidemark_conflict_record SET theirs = ? WHERE id = ? AND tbl = ? AND key = ?",
                arguments: [answer.changeSet.image(of: record, in: answer.reader), id, table, record.key])
            guard db.changesCount == 0, record.operation == .update,
                answer.blamed.contains(where: { $0.table == table && $0.key.utf8.elementsEqual(record.key.utf8) })
            else { continue }
            try db.execute(
                cached: """
                    INSERT INTO tidemark_conflict_record (id, tbl, key, operation, theirs)
                    VALUES (?, ?, ?, 'unchanged', ?)
                    """, arguments: [id, table, record.key, answer.changeSet.image(of: record, in: answer.reader)])
        }
    }
}
