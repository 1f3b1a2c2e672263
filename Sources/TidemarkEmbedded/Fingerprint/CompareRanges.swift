package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

extension ZoneTransaction {
    package func recomputeFingerprint() throws {
        // Log and tables differ only if a program wrote without the triggers. Devices get the rows
        // of the tables, so the fingerprint covers the tables.
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: zone().revision)
    }

    package func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        let rows = RangeRows(schema, sums: try reader().fingerprints)
        return try rows.compare(ranges, limits: limits) { differing in try presentRows(rows.names(in: differing)) }
    }
}
