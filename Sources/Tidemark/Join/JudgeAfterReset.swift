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
    let now: String

    /// Parks what does not fit, when the new rows are in the tables and the base is still the old.
    func park() throws -> [SyncEvent] {
        if planted(PlantedBug.skipsJudgingAfterReset) { return [] }
        var events: [SyncEvent] = []
        for table in schema.tables {
            for row in try changedRecords(of: table) {
                if try isDone(row, table) {
                    try forget(row["key"], of: table)
                    continue
                }
                guard try isWaiting(row["id"]) else { continue }
                let reason = Conflict.Reason(
                    table: table.name,
                    key: row["key"],
                    columns: [],
                    rule: row["rule"],
                    message: "The server has another history now, in which this record is another."
                )
                events += try ParkConflict(db: db, now: now).parkUnsent(
                    row["id"],
                    reasons: "[\(reason.json)]"
                )
            }
        }
        for case .conflict(let id) in events { try showTheirs(id) }
        return events
    }

    /// Whether all that waits for a record has been done to it already.
    private func isDone(_ row: Row, _ table: SyncedTable) throws -> Bool {
        let changes = try Row.fetchAll(
            db,
            sql: """
                SELECT operation, attributes FROM tidemark_outbox
                WHERE tbl = ? AND key = ? ORDER BY seq
                """,
            arguments: [table.name, row["key"]]
        )
        guard let last = changes.last else { return true }
        let current: String? = row["current"]
        if last["operation"] as String == Operation.delete.rawValue { return current == nil }
        guard let current, !changes.contains(where: { $0["operation"] as String == "delete" })
        else {
            return false
        }
        var wanted = current
        for attributes in changes.compactMap({ $0["attributes"] as String? }) {
            wanted = try merged(wanted, attributes)
        }
        return wanted == current
    }

    /// The columns of an image, with those of a change in their place.
    private func merged(_ image: String, _ attributes: String) throws -> String {
        try String.fetchOne(
            db,
            sql: """
                SELECT json_group_object(j.key, json(coalesce(?2 -> j.fullkey, ?1 -> j.fullkey)))
                FROM json_each(?1) AS j
                """,
            arguments: [image, attributes]
        ) ?? image
    }

    /// Takes a record out of the outbox, and with it the change sets that have no other.
    private func forget(_ key: String, of table: SyncedTable) throws {
        try db.execute(
            sql: "DELETE FROM tidemark_outbox WHERE tbl = ? AND key = ?",
            arguments: [table.name, key]
        )
        let empty = try String.fetchAll(
            db,
            sql:
                "SELECT id FROM tidemark_changeset WHERE seq NOT IN (SELECT seq FROM tidemark_outbox)"
        )
        for id in empty { try Outbox.remove(id, in: db) }
    }

    /// The waiting changes of records that are no longer as the server had confirmed them.
    private func changedRecords(of table: SyncedTable) throws -> [Row] {
        let current = currentImage(table, key: "b.key")
        return try Row.fetchAll(
            db,
            sql: """
                SELECT c.id, b.key, (\(current)) AS current, CASE WHEN b.image IS NULL THEN '\(ConflictRule.exists.rawValue)'
                    WHEN EXISTS (\(current)) THEN '\(ConflictRule.changed.rawValue)'
                    ELSE '\(ConflictRule.deleted.rawValue)' END AS rule
                FROM tidemark_base AS b
                JOIN tidemark_outbox AS o ON o.tbl = b.tbl AND o.key = b.key
                JOIN tidemark_changeset AS c ON c.seq = o.seq
                WHERE b.tbl = ? AND b.image IS NOT (\(current))
                ORDER BY c.seq
                """,
            arguments: [table.name]
        )
    }

    private func isWaiting(_ id: String) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset WHERE id = ?)",
            arguments: [id]
        ) ?? false
    }

    private func showTheirs(_ id: String) throws {
        for table in schema.tables {
            try db.execute(
                sql: """
                    UPDATE tidemark_conflict_record
                    SET theirs = (\(currentImage(table, key: "tidemark_conflict_record.key")))
                    WHERE id = ? AND tbl = ?
                    """,
                arguments: [id, table.name]
            )
        }
    }

    private func currentImage(_ table: SyncedTable, key: String) -> String {
        """
        SELECT \(RowJSON.object(table.valueColumns.map(\.name), prefix: "t."))
        FROM main.\(SQLText.name(table.name)) AS t WHERE \(KeySQL.match(table, key: key, alias: "t."))
        """
    }
}
