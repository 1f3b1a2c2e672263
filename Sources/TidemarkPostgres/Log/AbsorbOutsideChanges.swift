import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Turns commits of other programs into revisions: one per transaction, in commit order.
extension PostgresTransaction {
    func absorbOutsideChanges() throws {
        // The question of a group has checked this when the transaction began.
        if facts.isAbsorbed {
            facts.isAbsorbed = false
            return
        }
        let transactions = try pg.query(
            """
            SELECT xid
            FROM tidemark.outside
            WHERE zone = $1
            ORDER BY number NULLS LAST, xid
            """,
            [zoneName]
        ).map { $0.text(0) }
        for xid in transactions {
            try absorb(xid)
            try pg.query("DELETE FROM tidemark.outside WHERE zone = $1 AND xid = $2::xid8", [zoneName, xid])
        }
    }

    private func absorb(_ xid: String) throws {
        guard try reduce(.outside(xid: xid)) else { return }
        try refuseUnfitKeys()
        let revision = nextRevision()
        var clock = HybridClock(last: state.time)
        try logReduced(id: nil, stamp: Stamp(time: clock.next(at: now)), revision: revision)
    }

    /// Refuses keys in the range of temporary ids, because devices cannot refer to them.
    private func refuseUnfitKeys() throws {
        let misfit = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT change.tbl, change.key
                    FROM temp.tidemark_reduced AS change
                    JOIN temp.tidemark_table AS synced ON synced.tbl = change.tbl
                    WHERE change.operation <> 'delete' AND synced.kind = 'integer'
                        AND CAST(change.key AS INTEGER) NOT BETWEEN synced.lowest AND \(TemporaryID.permanentMax)
                    LIMIT 1
                    """
            )
        )
        guard let misfit else { return }
        throw TidemarkError(
            .unavailable,
            "A row written into the database has a key that stands for a temporary id or is above 2^52 - 1.",
            fix: "Give it another key there, or delete it.",
            place: .init(table: misfit["tbl"], key: misfit["key"])
        )
    }
}
