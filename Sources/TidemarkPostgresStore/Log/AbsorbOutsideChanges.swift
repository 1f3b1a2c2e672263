import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// What psql, a job or another service committed in the synced tables becomes revisions: one a
/// transaction, in the order in which they committed.
extension PostgresTransaction {
    func absorbOutsideChanges() throws {
        // A group that is answered together has done it when it began.
        if facts.isAbsorbed {
            facts.isAbsorbed = false
            return
        }
        let transactions = try pg.query(
            "SELECT xid FROM tidemark.outside WHERE zone = $1 ORDER BY number NULLS LAST, xid",
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

    /// Keys that no device can name: ids that stand for records not yet synced.
    private func refuseUnfitKeys() throws {
        let unfit = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT r.tbl, r.key FROM temp.tidemark_reduced AS r
                    JOIN temp.tidemark_table AS t ON t.tbl = r.tbl
                    WHERE r.operation <> 'delete' AND t.kind = 'integer'
                        AND CAST(r.key AS INTEGER) NOT BETWEEN 0 AND \(TemporaryID.permanentMax) LIMIT 1
                    """
            )
        )
        guard let unfit else { return }
        throw TidemarkError(
            .unavailable,
            "A row written into the database has a key below 0 or above 2^52 - 1.",
            fix: "Give it another key there, or delete it.",
            place: .init(table: unfit["tbl"], key: unfit["key"])
        )
    }
}
