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
        try staged.compare(
            ranges,
            limits: limits,
            measured: { try RangeFingerprints(db, schema: schema).measured($0) },
            changeSet: changeSet
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
