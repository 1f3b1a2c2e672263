package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

extension ZoneTransaction {
    package func recomputeFingerprint() throws {
        // Log and tables differ only if a program wrote without the triggers. Devices get the rows
        // of the tables, so the fingerprint covers the tables.
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: head().state.revision)
    }

    package func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] { try reader().fingerprints(query) }
}
