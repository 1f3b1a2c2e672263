import GRDB
import TidemarkCore
import TidemarkSQLite

/// What waiting change sets say about columns that the zone does not have.
///
/// Nobody else has a say in those: an update of one is done when the app has written it, and the
/// row keeps it whatever becomes of the rest of its change set. If the change set said it again,
/// shown anew or retried, it would undo what the app has written since. Only a record that is new
/// has no row to fall back on if it is refused: what is new there says all of it.
struct UnservedValues {
    let db: Database
    let schema: SyncSchema

    /// Takes them out of the updates of a change set that is about to be frozen, and hands them to
    /// the waiting change sets that made the records.
    func settle(_ seq: Int64) throws {
        for (table, columns) in schema.difference.unservedColumns.sorted(by: { $0.key < $1.key }) {
            let paths = columns.map { SQLText.literal("$.\"\($0.name)\"") }
            for path in paths { try handOver(path, of: table, seq) }
            try db.cachedStatement(
                sql: """
                    UPDATE tidemark_outbox SET attributes = json_remove(attributes, \(paths.joined(separator: ", ")))
                    WHERE seq = ? AND tbl = ? AND operation = 'update'
                    """
            ).execute(arguments: [seq, table])
            try db.cachedStatement(
                sql: """
                    DELETE FROM tidemark_outbox
                    WHERE seq = ? AND tbl = ? AND operation = 'update' AND attributes = '{}'
                    """
            ).execute(arguments: [seq, table])
            if db.changesCount > 0 { try Outbox.forgetBases(in: db) }
        }
    }

    private func handOver(_ path: String, of table: String, _ seq: Int64) throws {
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_outbox AS made
                SET attributes = json_set(made.attributes, \(path), json(o.attributes -> \(path)))
                FROM tidemark_outbox AS o
                WHERE o.seq = ? AND o.tbl = ? AND o.operation = 'update'
                    AND json_type(o.attributes, \(path)) IS NOT NULL
                    AND made.tbl = o.tbl AND made.key = o.key AND made.seq < o.seq AND made.operation = 'create'
                """
        ).execute(arguments: [seq, table])
    }
}
