import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives unused temporary ids to new records whose temporary id another record had before.
///
/// A program may write a negative id by hand. The tables do not show a former use of the id, because
/// the first record has its permanent id now. But the server remembers it, and would refuse the second
/// record for ever. So the device gives the second record an unused id before it sends the change set,
/// and updates the pending changes that refer to it.
struct ReplaceReusedIDs {
    let db: Database
    let schema: SyncSchema

    /// Renumbers new records of change sets that are not frozen yet.
    func run() throws {
        let reused = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT entry.tbl, entry.key
                    FROM tidemark_outbox AS entry
                    JOIN tidemark_changeset AS changeset ON changeset.seq = entry.seq
                    JOIN tidemark_idmap AS mapping
                        ON mapping.tbl = entry.tbl AND mapping.temporary = CAST(entry.key AS INTEGER)
                    WHERE entry.operation = 'create' AND changeset.wire IS NULL AND NOT EXISTS (
                        SELECT 1 FROM tidemark_outbox AS earlier
                        WHERE earlier.tbl = entry.tbl AND earlier.key = entry.key AND earlier.seq < entry.seq)
                    ORDER BY entry.seq, entry.tbl, length(entry.key), entry.key
                    """
            )
        ).map { (table: try $0.value("tbl") as String, key: try $0.value("key") as String) }.filter {
            schema.byName[$0.table]?.keyKind == .integer
        }
        guard !reused.isEmpty else { return }
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        for name in Set(reused.map(\.table)).sorted() { try skipUsedIDs(of: name) }
        for record in reused {
            try db.execute(
                sql: "INSERT INTO temp.tidemark_assigned VALUES (?, CAST(? AS INTEGER), ?)",
                arguments: [record.table, record.key, try TemporaryIDs.next(db)]
            )
        }
        // Children refer to the new id before the parent has it, so SQLite must defer the check. While
        // the device applies answers, the same statements run with `foreign_keys` off.
        try ConnectionFlag.withNewStatements(db) {
            try ConnectionFlag.deferForeignKeys.set(true, in: db)
            try DeviceFile.whileApplying(db) {
                try RenameRows(db: db, schema: schema).run()
                let identities = MapIdentities(db: db, schema: schema)
                try identities.rewriteAssigned()
                try identities.rewriteOwnReferences()
            }
        }
    }

    /// Moves the counter of temporary ids below all current and former ids of a table.
    private func skipUsedIDs(of table: String) throws {
        guard let key = schema.byName[table]?.key.first.map(SQLText.name) else { return }
        try db.execute(
            sql: """
                UPDATE tidemark_temporary SET next = min(next,
                    (SELECT coalesce(min(\(key)), 0) - 1 FROM main.\(SQLText.name(table))),
                    (SELECT coalesce(min(temporary), 0) - 1 FROM tidemark_idmap WHERE tbl = ?))
                """,
            arguments: [table]
        )
    }
}
