import GRDB
import TidemarkCore

/// Operations on whole change sets of the outbox.
enum Outbox {
    static func contains(_ id: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset WHERE id = ?)", arguments: [id])
            ?? false
    }

    /// Removes a change set that has its verdict.
    static func remove(_ id: String, in db: Database) throws {
        guard
            let seq = try Int64.fetchOne(
                db, cached: "DELETE FROM tidemark_changeset WHERE id = ? RETURNING seq", arguments: [id])
        else { return }
        try WireText.deleteOverflow(where: "seq = ?", arguments: [seq], in: db)
        try db.execute(cached: "DELETE FROM tidemark_outbox WHERE seq = ?", arguments: [seq])
        try db.execute(cached: "DELETE FROM tidemark_after WHERE seq = ?", arguments: [seq])
    }

    /// Deletes the bases of records without pending changes.
    static func deleteUnusedBases(in db: Database) throws {
        try db.execute(
            cached: """
                DELETE FROM tidemark_base
                WHERE NOT EXISTS (
                    SELECT 1 FROM tidemark_outbox AS pending
                    WHERE pending.tbl = tidemark_base.tbl AND pending.key = tidemark_base.key)
                """)
    }
}
