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
        let rows = RangeRows(schema, sums: try reader().fingerprints)
        return try rows.compare(ranges, limits: limits) { differing in try presentRows(rows.names(in: differing)) }
    }

    /// Renders the present rows of records as a change set.
    private func presentRows(_ names: [RecordID]) throws -> String {
        let rows = try rows(names)
        let revisions = try revisions(of: names)
        var text = ChangeSetText(schema)
        for name in names {
            guard let row = rows[name] else { continue }
            let places = schema.layouts[name.table].valuePlaces
            text.add(name, .update, row: row, columns: places, revision: revisions[name] ?? 0)
        }
        return text.text([])
    }
}
