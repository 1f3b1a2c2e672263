import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

extension ZoneTransaction {
    package func recomputeFingerprint() throws {
        // Log and tables differ only if a program wrote without the triggers. Devices get the rows
        // of the tables, so the fingerprint covers the tables.
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: zone().revision)
    }

    package func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try staged.compare(
            ranges,
            limits: limits,
            measure: { try RangeFingerprints(db, schema: schema).measure($0) },
            changeSet: changeSet
        )
    }

    /// Renders the whole rows in the ranges, each with the revision that changed it last.
    private func changeSet(of ranges: [KeyRange]) throws -> String {
        try CommitTables.clear("truth", in: db)
        try RangeFingerprints(db, schema: schema).load(ranges)
        let names = Set(ranges.map(\.table))
        let tables = schema.tables.filter { names.contains($0.name) }
        for table in tables {
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_truth (tbl, key, follows)
                    SELECT \(SQLText.literal(table.name)), key, 0
                    FROM (\(RangeFingerprints.rows(of: table)))
                    """
            )
        }
        try noteTruth()
        return try staged.renderTruth(nil)
    }
}
