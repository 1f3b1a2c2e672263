import GRDB
import TidemarkCore
import TidemarkSQL

/// Operations on whole change sets of the outbox.
enum Outbox {
    /// A number far above those of change sets, for changes on their way from one number to another.
    static let farAbove: Int64 = 1 << 60

    /// Returns the number of the next change set, which no earlier one had.
    static func nextNumber(in db: Database) throws -> Int64 {
        let last = try Int64.fetchOne(
            db,
            cached: """
                SELECT max(coalesce((SELECT max(seq) FROM tidemark_changeset), 0),
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tidemark_changeset'), 0))
                """)
        guard let last, last < farAbove else { throw TidemarkError.unreadable("The outbox") }
        return last + 1
    }

    /// Stores the effects of captured changes in change sets: `set` returns the number of a captured change's.
    ///
    /// Returns by how much each change set changes the fingerprint of the rows.
    static func store(_ effects: CapturedEffects, _ schema: SyncSchema, in db: Database, set: (Int64) -> Int64) throws
        -> [Int64: Fingerprint]
    {
        let insert = try BoundStatement(
            """
            INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
            VALUES (?, ?, ?, ?, ?, ?, (SELECT base FROM tidemark_capture WHERE seq = ?7))
            """, in: db)
        var differences: [Int64: Fingerprint] = [:]
        var buffer: [UInt8] = []
        try effects.readForOutbox { effect, before, attributes in
            let seq = set(effect.number)
            let layout = schema.layouts[effect.table]
            let hash = { (row: [Value]?) in row.map { layout.hash($0, key: effect.key, &buffer) } ?? .none }
            differences[seq, default: .none] =
                differences[seq, default: .none] + hash(effect.after) - hash(effect.before)
            try insert.run { bound in
                bound.bind(seq, at: 1)
                bound.bind(schema.tables[effect.table].name, at: 2)
                bound.bind(effect.key, at: 3)
                bound.bind(effect.operation.rawValue, at: 4)
                bound.bind(before, at: 5)
                bound.bind(attributes, at: 6)
                bound.bind(effect.number, at: 7)
            }
        }
        return differences
    }

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
