import GRDB
import TidemarkCore
import TidemarkSQL

/// Judges pending changes whose bases belong to another history than the server's.
///
/// A base is a revision of the old history and means nothing in the new one, so the device compares rows:
///
/// - The record is still as the server had confirmed it: the change overwrites nothing, and the device sends it again.
/// - The record is already as this device wants it: nothing to do.
/// - The change only adds to columns, and the server does not have it: the device sends it.
/// - Anything else: another client changed it unseen. The device parks the change set as a conflict,
///   with the current record.
///
/// A deletion would also delete children that its author has not seen, because the server takes it for newer than
/// they are. The device parks it, too.
struct JudgeAfterReset {
    let db: Database
    let schema: SyncSchema
    /// The sequence number of the first change set to judge.
    let firstWaiting: Int64
    /// The referenced records; nil if every id still stands for the same record.
    let parents: OldParents?
    let now: String
    /// Whether no waiting change has taken effect on the server's rows.
    ///
    /// If the server remembers this device, it knows the verdicts on all that it has accepted. A server
    /// that has the rows but has lost its bookkeeping knows none.
    let knowsVerdicts: Bool
    /// The reason in the conflict: why the record differs from the one that the author saw.
    var cause = "The server's history has changed, and this record differs in the new one."

    /// Parks conflicting change sets, while the tables hold the new rows and the bases are the old ones.
    func park() throws -> [DeviceEvent] {
        var reasons: [String: String] = [:]
        for table in schema.tables {
            for row in try changedRecords(of: table) {
                if try isDone(row, table) {
                    try removeChanges(ofRecord: row.value("key"), in: table)
                    continue
                }
                let id: String = try row.value("id")
                guard reasons[id] == nil, try Outbox.contains(id, in: db) else { continue }
                let rule = try ConflictRule(rawValue: row.value("rule")) ?? .changed
                reasons[id] = try "[\(reason(rule, table: table, key: row.value("key")).json)]"
            }
        }
        try removeEmpty()
        for table in schema.tables {
            for row in try parents?.changeSetsWithChangedParent(in: table) ?? [] {
                let id: String = try row.value("id")
                guard reasons[id] == nil, try Outbox.contains(id, in: db) else { continue }
                reasons[id] = try "[\(reason(.changed, table: table, key: row.value("key")).json)]"
            }
        }
        for table in schema.tables {
            for row in try deletionsOverUnseenChildren(of: table) {
                let id: String = try row.value("id")
                guard reasons[id] == nil, try Outbox.contains(id, in: db) else { continue }
                reasons[id] = try "[\(reason(.referenced, table: table, key: row.value("key")).json)]"
            }
        }
        let events = try ParkConflict(db: db, now: now).parkUnsent(reasons)
        try Self.fillTheirs(events.compactMap(\.conflictID), schema: schema, in: db)
        return events
    }

    private func reason(_ rule: ConflictRule, table: SyncedTable, key: String) -> Conflict.Reason {
        Conflict.Reason(table: table.name, key: key, columns: [], rule: rule.rawValue, message: cause)
    }

    /// Returns whether the record already has the result of all its pending changes.
    private func isDone(_ row: Row, _ table: SyncedTable) throws -> Bool {
        let changes = try Row.fetchAll(
            db,
            sql: """
                SELECT operation, attributes FROM tidemark_outbox
                WHERE tbl = ? AND key = ? AND seq >= ? ORDER BY seq
                """, arguments: try [table.name, row.value("key") as String, firstWaiting])
        guard let last = changes.last else { return true }
        let current: String? = try row.value("current")
        if try last.value("operation") as String == Operation.delete.rawValue { return current == nil }
        guard let current, try !changes.contains(where: { try $0.value("operation") as String == "delete" }) else {
            return false
        }
        let allAttributes = try changes.compactMap { try $0.value("attributes") as String? }
        // Equal sums do not prove that this device's part is among them.
        guard !allAttributes.contains(where: { $0.contains(Delta.prefix) }) else { return false }
        var wanted = current
        for attributes in allAttributes { wanted = try Images.merged(wanted, attributes, in: db) }
        return wanted == current
    }

    private func removeChanges(ofRecord key: String, in table: SyncedTable) throws {
        try db.execute(
            sql: "DELETE FROM tidemark_outbox WHERE tbl = ? AND key = ? AND seq >= ?",
            arguments: [table.name, key, firstWaiting])
    }

    private func removeEmpty() throws {
        let empty = try String.fetchAll(
            db, sql: "SELECT id FROM tidemark_changeset WHERE seq NOT IN (SELECT seq FROM tidemark_outbox)")
        for id in empty { try Outbox.remove(id, in: db) }
    }

    /// Returns the pending changes of records that differ from their confirmed version.
    private func changedRecords(of table: SyncedTable) throws -> [Row] {
        let current = Images.current(table, key: "base_row.key")
        return try Row.fetchAll(
            db,
            sql: """
                SELECT changeset.id, base_row.key, (\(current)) AS current,
                    CASE WHEN base_row.image IS NULL THEN '\(ConflictRule.exists.rawValue)'
                        WHEN EXISTS (\(current)) THEN '\(ConflictRule.changed.rawValue)'
                        ELSE '\(ConflictRule.deleted.rawValue)' END AS rule
                FROM tidemark_base AS base_row
                JOIN tidemark_outbox AS pending ON pending.tbl = base_row.tbl AND pending.key = base_row.key
                JOIN tidemark_changeset AS changeset ON changeset.seq = pending.seq
                WHERE base_row.tbl = ? AND base_row.image IS NOT (\(current)) AND changeset.seq >= ?
                    AND NOT (pending.operation = 'update' AND (changeset.wire IS NULL OR ?)
                        AND \(Delta.hasOnly("pending.attributes")) AND EXISTS (\(current)))
                ORDER BY changeset.seq
                """, arguments: [table.name, firstWaiting, knowsVerdicts])
    }

    /// Returns the pending deletions of records to which others refer now.
    ///
    /// The children that the author saw have pending changes, because the deletion has changed them as well.
    private func deletionsOverUnseenChildren(of parent: SyncedTable) throws -> [Row] {
        try schema.references(to: parent.name).filter { $0.1.parentColumns == parent.key }.flatMap { child, reference in
            let match = reference.columns.indices.map {
                "child_row.\(SQLText.name(reference.columns[$0])) = \(KeySQL.part(parent, $0, of: "pending.key"))"
            }
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT changeset.id, pending.key
                    FROM tidemark_outbox AS pending
                    JOIN tidemark_changeset AS changeset ON changeset.seq = pending.seq
                    WHERE pending.tbl = ? AND pending.operation = 'delete' AND pending.seq >= ? AND EXISTS (
                        SELECT 1 FROM main.\(SQLText.name(child.name)) AS child_row
                        WHERE \(match.joined(separator: " AND ")) AND NOT EXISTS (
                            SELECT 1 FROM tidemark_outbox AS known
                            WHERE known.tbl = ? AND \(KeySQL.match(child, key: "known.key", alias: "child_row."))))
                    ORDER BY pending.seq
                    """, arguments: [parent.name, firstWaiting, child.name])
        }
    }

    /// Stores the current records in parked change sets, in those of their records for which the SQL condition holds.
    static func fillTheirs(_ ids: [String], schema: SyncSchema, in db: Database, where condition: String = "true")
        throws
    {
        guard !ids.isEmpty else { return }
        let list = "[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]"
        for table in schema.tables {
            try db.execute(
                sql: """
                    UPDATE tidemark_conflict_record
                    SET theirs = (\(Images.current(table, key: "tidemark_conflict_record.key")))
                    WHERE id IN (SELECT value FROM json_each(?)) AND tbl = ? AND \(condition)
                    """, arguments: [list, table.name])
        }
    }
}

extension DeviceEvent {
    var conflictID: String? { if case .conflict(let id) = self { id } else { nil } }
}
