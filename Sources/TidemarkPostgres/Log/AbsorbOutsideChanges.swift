import TidemarkCore
import TidemarkEngine

/// Turns commits of other programs into revisions: one per transaction, in commit order.
extension PostgresTransaction {
    func absorbOutsideChanges() throws {
        guard try head().hasOutsideChanges else { return }
        let transactions = try pg.query(
            """
            SELECT xid
            FROM tidemark.outside
            WHERE zone = $1
            ORDER BY number NULLS LAST, xid
            """,
            [zone]
        ).map { $0.text(0) }
        for xid in transactions {
            try absorb(xid)
            try pg.queue("DELETE FROM tidemark.outside WHERE zone = $1 AND xid = $2::xid8", [zone, xid])
        }
        books.head?.hasOutsideChanges = false
    }

    private func absorb(_ xid: String) throws {
        let head = try head()
        var effects = RevisionEffects(revision: head.state.revision + 1, schema)
        var steps = Steps(pg, hasTriggers: served.hasTriggers)
        try readEffects(.outside(xid: xid), after: &steps) { effect in
            try refuseUnfitKey(effect)
            effects.take(effect)
        }
        guard !effects.entries.isEmpty else { return }
        try keep(effects.outsideCommit(after: head, at: now))
    }

    /// Refuses keys in the range of temporary ids, because devices cannot refer to them.
    private func refuseUnfitKey(_ effect: Effect) throws {
        let table = schema.tables[effect.table]
        guard effect.after != nil, table.keyKind == .integer, let id = Int64(effect.key),
            !(table.lowestID...TemporaryID.permanentMax).contains(id)
        else { return }
        throw TidemarkError(
            .unavailable,
            "A row written into the database has a key that stands for a temporary id or is above 2^52 - 1.",
            fix: "Give it another key there, or delete it.", place: .init(table: table.name, key: effect.key))
    }
}
