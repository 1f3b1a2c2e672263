import GRDB
import TidemarkCore

/// Operations on whole change sets of the outbox.
enum Outbox {
    /// Removes a change set that has its verdict.
    static func remove(_ id: String, in db: Database) throws {
        guard
            let seq = try Int64.fetchOne(
                db.cachedStatement(sql: "DELETE FROM tidemark_changeset WHERE id = ? RETURNING seq"),
                arguments: [id]
            )
        else { return }
        try WireText.forgetRest(where: "seq = ?", arguments: [seq], in: db)
        try db.cachedStatement(sql: "DELETE FROM tidemark_outbox WHERE seq = ?").execute(arguments: [seq])
        try db.cachedStatement(sql: "DELETE FROM tidemark_after WHERE seq = ?").execute(arguments: [seq])
    }

    /// A planted bug: what was edited since the request leaves with what was sent.
    static func forgetNewerEdits(in db: Database) throws {
        guard planted(PlantedBug.acknowledgesNewerEdits) else { return }
        let unsent = "SELECT id FROM tidemark_changeset WHERE wire IS NULL"
        for id in try String.fetchAll(db, sql: unsent) { try remove(id, in: db) }
    }

    /// Forgets the bases of records that nothing waits for any more.
    static func forgetBases(in db: Database) throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM tidemark_base WHERE NOT EXISTS (
                    SELECT 1 FROM tidemark_outbox AS o WHERE o.tbl = tidemark_base.tbl AND o.key = tidemark_base.key)
                """
        ).execute()
    }
}
