import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite
import TidemarkStore

extension ZoneTransaction {
    package func recomputeFingerprint() throws {
        // What the log says and what the tables hold can only differ when somebody wrote behind the
        // triggers' back. The tables are what devices get, so they count.
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: zone().revision)
    }

    package func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try staged.refuseForeign(ranges)
        let mine = try RangeFingerprints(db, schema: schema).measured(ranges)
        let differing = ranges.indices.filter {
            mine[$0].rows != ranges[$0].rows || mine[$0].fingerprint != ranges[$0].fingerprint
        }
        let sent = differing.filter { ranges[$0].send == true }
        let count = sent.reduce(0) { $0 + mine[$1].rows }
        guard count <= limits.repairRecordsMax else {
            throw TidemarkError(
                .snapshotRequired,
                "The rows differ in at least \(count) records.",
                fix: "Take a new snapshot; the outbox is kept."
            )
        }
        guard count > 0 else { return Comparison(differing: differing, changeSet: nil) }
        return Comparison(
            differing: differing,
            changeSet: try changeSet(of: sent.map { ranges[$0] })
        )
    }

    /// The rows in the ranges, whole, each with the revision that last changed it.
    private func changeSet(of ranges: [KeyRange]) throws -> String {
        try CommitTables.clear("truth", in: db)
        try RangeFingerprints(db, schema: schema).load(ranges)
        let names = Set(ranges.map(\.table))
        let tables = schema.tables.filter { names.contains($0.name) }
        for table in tables {
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_truth (tbl, key, follows)
                    SELECT \(SQLText.literal(table.name)), key, 0 FROM (\(RangeFingerprints.rows(of: table)))
                    """
            )
        }
        try noteTruth()
        return try staged.renderTruth(nil)
    }
}
