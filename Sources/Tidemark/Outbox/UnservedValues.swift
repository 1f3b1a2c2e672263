import GRDB
import TidemarkCore
import TidemarkSQL

/// Handles values of pending change sets in columns that the zone does not have.
///
/// These values are local: the row keeps them even if the server refuses the change set. If the
/// change set kept them as well, a replay or a retry would undo later edits of the app. Only a pending
/// creation keeps them, because the row of a refused creation is removed.
struct UnservedValues {
    let db: Database
    let schema: SyncSchema

    /// Moves the values from a change set's updates to the pending creations of the same records.
    func settle(_ seq: Int64) throws {
        for (table, columns) in schema.difference.unservedColumns.sorted(by: { $0.key < $1.key }) {
            let paths = columns.map { SQLText.literal(MemberSQL.path($0.name)) }
            for path in paths { try handOver(path, of: table, seq) }
            try db.execute(
                cached: """
                    UPDATE tidemark_outbox SET attributes = json_remove(attributes, \(paths.joined(separator: ", ")))
                    WHERE seq = ? AND tbl = ? AND operation = 'update'
                    """, arguments: [seq, table])
            try db.execute(
                cached: """
                    DELETE FROM tidemark_outbox
                    WHERE seq = ? AND tbl = ? AND operation = 'update' AND attributes = '{}'
                    """, arguments: [seq, table])
            if db.changesCount > 0 { try Outbox.deleteUnusedBases(in: db) }
        }
    }

    private func handOver(_ path: String, of table: String, _ seq: Int64) throws {
        try db.execute(
            cached: """
                UPDATE tidemark_outbox AS creation
                SET attributes = json_set(creation.attributes, \(path), json(change.attributes -> \(path)))
                FROM tidemark_outbox AS change
                WHERE change.seq = ? AND change.tbl = ? AND change.operation = 'update'
                    AND json_type(change.attributes, \(path)) IS NOT NULL
                    AND creation.tbl = change.tbl AND creation.key = change.key
                    AND creation.seq < change.seq AND creation.operation = 'create'
                """, arguments: [seq, table])
    }
}
