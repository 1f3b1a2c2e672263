import GRDB
package import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The zone's fingerprint at each revision.
///
/// The adoption of a file computes it from the rows, and each commit updates it by the commit's changes. A fingerprint
/// is valid for one column layout: with other columns, rows have other hashes, and the first request for it computes it
/// again.
extension ZoneTransaction {
    package func fingerprint(at revision: Int64) throws -> Fingerprint? {
        if let fingerprint = try storedFingerprint(at: revision) { return fingerprint }
        guard try head().state.revision == revision else { return nil }
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: revision)
        return computed
    }

    package func recomputeFingerprint() throws {
        // Log and tables differ only if a program wrote without the triggers. Devices get the rows
        // of the tables, so the fingerprint covers the tables.
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: head().state.revision)
    }

    package func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] { try reader().fingerprints(query) }

    func keepFingerprint(_ fingerprint: Fingerprint, at revision: Int64) throws {
        try Self.keep(fingerprint, at: revision, of: fingerprintLayoutHash, in: db)
    }

    /// Stores the fingerprint of a revision in the column layout with a hash.
    static func keep(_ fingerprint: Fingerprint, at revision: Int64, of layout: String, in db: Database) throws {
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO tidemark_fingerprint VALUES (?, ?, ?)").execute(arguments: [
            revision, fingerprint.hex, layout,
        ])
    }

    /// Returns the stored fingerprint of a revision, if there is one.
    package func storedFingerprint(at revision: Int64) throws -> Fingerprint? {
        try String.fetchOne(
            db.cachedStatement(sql: "SELECT fingerprint FROM tidemark_fingerprint WHERE revision = ? AND shape = ?"),
            arguments: [revision, fingerprintLayoutHash]
        ).flatMap(Fingerprint.init(hex:))
    }
}
