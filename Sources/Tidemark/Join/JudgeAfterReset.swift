import GRDB
import TidemarkCore
import TidemarkSQLite

/// Judges waiting changes when the server's history is another one than that of their bases.
///
/// A base is a revision of the old history and says nothing in the new one. What can be compared
/// are the rows:
///
/// - The record still is as the server had confirmed it: nobody's change would be overwritten, and
///   the change set is offered again.
/// - The record already is as this device wants it: there is nothing left to do.
/// - Anything else: somebody changed it unseen, and the change set is parked as a conflict, with
///   the record as it is now.
struct JudgeAfterReset {
    let db: Database
    let schema: SyncSchema
    /// From this place in the outbox on stands what is judged here.
    let firstWaiting: Int64
    /// What is referred to, when an id may stand for another record now.
    let parents: OldParents?
    let now: String
    /// Why a record is not as the edit's author saw it.
    var cause = "The server has another history now, in which this record is another."

    /// Parks what does not fit, when the new rows are in the tables and the base is still the old.
    func park() throws -> [SyncEvent] {
        var reasons: [String: String] = [:]
        for table in schema.tables {
            for row in try changedRecords(of: table) {
                if try isDone(row, table) {
                    try forget(row.value("key"), of: table)
                    continue
                }
                let id: String = try row.value("id")
                guard reasons[id] == nil, try isWaiting(id) else { continue }
                let rule = try ConflictRule(rawValue: row.value("rule")) ?? .changed
                reasons[id] = try "[\(reason(rule, table, row.value("key")).json)]"
            }
        }
        try removeEmpty()
        for table in schema.tables {
            for row in try parents?.changed(of: table) ?? [] {
                let id: String = try row.value("id")
                guard reasons[id] == nil, try isWaiting(id) else { continue }
                reasons[id] = try "[\(reason(.changed, table, row.value("key")).json)]"
            }
        }
        let events = try ParkConflict(db: db, now: now).parkUnsent(reasons)
        for case .conflict(let id) in events { try Self.showTheirs(id, schema: schema, in: db) }
        return events
    }

    private func reason(_ rule: ConflictRule, _ table: SyncedTable, _ key: String) -> Conflict.Reason {
        Conflict.Reason(table: table.name, key: key, columns: [], rule: rule.rawValue, message: cause)
    }

    /// Whether all that waits for a record has been done to it already.
    private func isDone(_ row: Row, _ table: SyncedTable) throws -> Bool {
        let changes = try Row.fetchAll(
            db,
            sql: """
                SELECT operation, attributes FROM tidemark_outbox
                WHERE tbl = ? AND key = ? AND seq >= ? ORDER BY seq
                """,
            arguments: try [table.name, row.value("key") as String, firstWaiting]
        )
        guard let last = changes.last else { return true }
        let current: String? = try row.value("current")
        if try last.value("operation") as String == Operation.delete.rawValue { return current == nil }
        guard let current, try !changes.contains(where: { try $0.value("operation") as String == "delete" }) else {
            return false
        }
        var wanted = current
        for attributes in try changes.compactMap({ try $0.value("attributes") as String? }) {
            wanted = try Images.merged(wanted, attributes, in: db)
        }
        return wanted == current
    }

    /// Takes a record out of the outbox.
    private func forget(_ key: String, of table: SyncedTable) throws {
        try db.execute(
            sql: "DELETE FROM tidemark_outbox WHERE tbl = ? AND key = ? AND seq >= ?",
            arguments: [table.name, key, firstWaiting]
        )
    }

    /// Takes the change sets out of the outbox that have no record any more.
    private func removeEmpty() throws {
        let empty = try String.fetchAll(
            db,
            sql: "SELECT id FROM tidemark_changeset WHERE seq NOT IN (SELECT seq FROM tidemark_outbox)"
        )
        for id in empty { try Outbox.remove(id, in: db) }
    }

    /// The waiting changes of records that are no longer as the server had confirmed them.
    private func changedRecords(of table: SyncedTable) throws -> [Row] {
        let current = Images.current(table, key: "b.key")
        return try Row.fetchAll(
            db,
            sql: """
                SELECT c.id, b.key, (\(current)) AS current, CASE WHEN b.image IS NULL THEN '\(ConflictRule.exists.rawValue)'
                    WHEN EXISTS (\(current)) THEN '\(ConflictRule.changed.rawValue)'
                    ELSE '\(ConflictRule.deleted.rawValue)' END AS rule
                FROM tidemark_base AS b
                JOIN tidemark_outbox AS o ON o.tbl = b.tbl AND o.key = b.key
                JOIN tidemark_changeset AS c ON c.seq = o.seq
                WHERE b.tbl = ? AND b.image IS NOT (\(current)) AND c.seq >= ?
                ORDER BY c.seq
                """,
            arguments: [table.name, firstWaiting]
        )
    }

    private func isWaiting(_ id: String) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset WHERE id = ?)", arguments: [id])
            ?? false
    }

    /// Fills in, for a parked change set, the records as they are now.
    static func showTheirs(_ id: String, schema: SyncSchema, in db: Database) throws {
        for table in schema.tables {
            try db.execute(
                sql: """
                    UPDATE tidemark_conflict_record
                    SET theirs = (\(Images.current(table, key: "tidemark_conflict_record.key")))
                    WHERE id = ? AND tbl = ?
                    """,
                arguments: [id, table.name]
            )
        }
    }
}
