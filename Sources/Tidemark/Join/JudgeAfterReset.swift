import GRDB
import TidemarkCore
import TidemarkSQLite

/// Judges waiting changes when the server's history is another one than that of their bases.
///
/// A base is a revision of the old history and says nothing in the new one. What can be compared
/// are the rows: where the record still is as the server had confirmed it, nobody's change would be
/// overwritten, and the change set is offered again. Where it is not, somebody changed it unseen,
/// and the change set is parked as a conflict, with the record as it is now.
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

    /// The waiting changes of records that are no longer as the server had confirmed them.
    private func changedRecords(of table: SyncedTable) throws -> [Row] {
        let current = currentImage(table, key: "b.key")
        return try Row.fetchAll(
            db,
            sql: """
                SELECT c.id, b.key, CASE WHEN b.image IS NULL THEN '\(ConflictRule.exists.rawValue)'
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
