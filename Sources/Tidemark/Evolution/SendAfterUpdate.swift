import GRDB
import TidemarkCore
import TidemarkSQL

/// Sends edits that the server refused because the app's table lacked a column, after the app's update has added it.
///
/// A new record needs a value in the column. Where the table has no default, that is the value that the migration has
/// written into all rows of the file; if they differ, a person decides.
struct SendAfterUpdate {
    let round: RoundContext
    private var db: Database { round.db }

    /// Gives waiting and parked new records a value of a new column, before the rows have the zone's values.
    func fill(_ column: SyncedTable.Column, of table: SyncedTable) throws {
        guard column.isNotNull, column.defaultSQL == nil else { return }
        let value = "tidemark_key(\(SQLText.name(column.name)))"
        let rows = "main.\(SQLText.name(table.name))"
        try db.execute(
            sql: """
                UPDATE tidemark_outbox AS pending SET attributes = json_insert(attributes, ?1, json(own.value))
                FROM (SELECT \(RowJSON.key(table)) AS key, \(value) AS value FROM \(rows)) AS own
                WHERE tbl = ?2 AND operation = 'create' AND pending.key = own.key
                    AND seq IN (SELECT seq FROM tidemark_changeset WHERE wire IS NULL)
                """, arguments: [MemberSQL.path(column.name), table.name])
        // The sums are those of the drained values.
        try db.execute(sql: "UPDATE tidemark_changeset SET difference = NULL")
        // One row alone does not tell a default from a value of its own.
        let values = try String.fetchAll(
            db, sql: "SELECT DISTINCT \(value) FROM \(rows) WHERE (SELECT count(*) FROM \(rows)) > 1 LIMIT 2")
        guard values.count == 1, let value = values.first else { return }
        try db.execute(
            sql: """
                UPDATE tidemark_conflict_record SET mine = json_insert(mine, ?, json(?))
                WHERE tbl = ? AND operation = 'create' AND json_valid(mine)
                """, arguments: [MemberSQL.path(column.name), value, table.name])
    }

    /// Makes the change sets again that wait for nothing else, and those that depend on them.
    func send() throws {
        var sent: Set<String> = []
        for conflict in try Conflict.all(db) where isDue(conflict, after: sent) {
            guard try ResolveConflict(db: db, schema: round.schema).retry(conflict.id) else { continue }
            try round.drain(.all)
            sent.insert(conflict.id)
        }
    }

    private func isDue(_ conflict: Conflict, after sent: Set<String>) -> Bool {
        guard conflict.kind == .refused, !conflict.isDamaged, sent.isSuperset(of: conflict.after) else { return false }
        return !conflict.reasons.isEmpty
            && conflict.reasons.allSatisfy { reason in
                if reason.rule == ConflictRule.predecessor.rawValue { return !conflict.after.isEmpty }
                let columns = round.schema.byName[reason.table]?.columns.map(\.name) ?? []
                return reason.rule == ErrorCode.deviceBehind.rawValue && Set(columns).isSuperset(of: reason.columns)
            }
    }
}
