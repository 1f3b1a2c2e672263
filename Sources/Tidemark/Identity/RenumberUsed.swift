import GRDB
import TidemarkCore
import TidemarkSQLite

/// Fresh temporary ids for new records whose id stood for another record before.
///
/// A program may write a negative id by hand, and nothing in the file shows that it was used: that
/// record has its permanent id now. The server remembers, and refuses the second one for ever. So
/// before such a record is sent, it gets an id that nobody has used, and whatever waits and refers
/// to it follows.
struct RenumberUsed {
    let db: Database
    let schema: SyncSchema

    /// Renumbers the new records of change sets that were not sent yet.
    func run() throws {
        let used = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT o.tbl, o.key FROM tidemark_outbox AS o
                    JOIN tidemark_changeset AS c ON c.seq = o.seq
                    JOIN tidemark_idmap AS m ON m.tbl = o.tbl AND m.temporary = CAST(o.key AS INTEGER)
                    WHERE o.operation = 'create' AND c.wire IS NULL AND NOT EXISTS (
                        SELECT 1 FROM tidemark_outbox AS p
                        WHERE p.tbl = o.tbl AND p.key = o.key AND p.seq < o.seq)
                    ORDER BY o.seq, o.tbl, length(o.key), o.key
                    """
            )
        ).map { (table: try $0.value("tbl") as String, key: try $0.value("key") as String) }.filter {
            schema.byName[$0.table]?.keyKind == .integer
        }
        guard !used.isEmpty else { return }
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        for name in Set(used.map(\.table)).sorted() { try skipUsed(name) }
        for record in used {
            try db.execute(
                sql: "INSERT INTO temp.tidemark_assigned VALUES (?, CAST(? AS INTEGER), ?)",
                arguments: [record.table, record.key, try TemporaryIDs.next(db)]
            )
        }
        // A parent gets its new id after its children refer to it. The same statements run without
        // references when an answer is taken in.
        try ConnectionFlag.preparingAnew(db) {
            try ConnectionFlag.deferForeignKeys.set(true, in: db)
            try DeviceFile.whileApplying(db) {
                try RenameRows(db: db, schema: schema).run()
                let identities = MapIdentities(db: db, schema: schema)
                try identities.rewrite()
                try identities.rewriteOwnReferences()
            }
        }
    }

    /// Moves the counter of temporary ids below all that a table has, or had.
    private func skipUsed(_ table: String) throws {
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
