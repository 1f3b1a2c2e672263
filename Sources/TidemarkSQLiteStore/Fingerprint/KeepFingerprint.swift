import GRDB
package import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// The zone's fingerprint at each revision.
///
/// It is computed from the rows once, when it is first asked for, so that adopting a file costs
/// nothing a row; from then on every commit carries it forward by what it changed. It belongs to a
/// shape of the tables: with other columns, rows have other hashes, and it is computed anew.
extension ZoneTransaction {
    package func fingerprint(at revision: Int64) throws -> Fingerprint? {
        if let kept = try keptFingerprint(at: revision) { return kept }
        guard try zone().revision == revision else { return nil }
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: revision)
        return computed
    }

    /// Notes the fingerprint of a new revision, by what the commit changed.
    func carryFingerprint(to revision: Int64, adding change: @autoclosure () throws -> Fingerprint) throws {
        guard let previous = try keptFingerprint(at: revision - 1) else { return }
        let isOld = planted(PlantedBug.carriesOldFingerprint)
        try keepFingerprint(isOld ? previous : previous + change(), at: revision)
    }

    func keepFingerprint(_ fingerprint: Fingerprint, at revision: Int64) throws {
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO tidemark_fingerprint VALUES (?, ?, ?)").execute(arguments: [
            revision, fingerprint.hex, shape,
        ])
    }

    /// The fingerprint that is kept of a revision.
    package func keptFingerprint(at revision: Int64) throws -> Fingerprint? {
        try String.fetchOne(
            db.cachedStatement(sql: "SELECT fingerprint FROM tidemark_fingerprint WHERE revision = ? AND shape = ?"),
            arguments: [revision, shape]
        ).flatMap(Fingerprint.init(hex:))
    }
}
