import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// The zone's fingerprint at each revision.
///
/// The first use computes it from all rows; then every commit carries it forward.
extension PostgresTransaction {
    func fingerprint(at revision: Int64) throws -> Fingerprint? {
        if let fingerprint = try storedFingerprint(at: revision) { return fingerprint }
        guard state.revision == revision else { return nil }
        let computed = try computeFingerprint()
        try keepFingerprint(computed, at: revision)
        return computed
    }

    func recomputeFingerprint() throws { try keepFingerprint(try computeFingerprint(), at: state.revision) }

    /// Stores the fingerprint of a new revision: the previous one plus the commit's difference.
    func carryFingerprint(to revision: Int64, adding change: @autoclosure () throws -> Fingerprint) throws {
        guard let previous = try storedFingerprint(at: revision - 1) else { return }
        try keepFingerprint(previous + change(), at: revision)
    }

    /// Computes the fingerprint of all rows.
    ///
    /// - Throws: ``Overtaken`` if another program's rows are in no revision yet.
    func computeFingerprint() throws -> Fingerprint { try pg.scanning { try sumOfRows() } }

    private func sumOfRows() throws -> Fingerprint {
        var sum = Fingerprint.none
        for table in schema.tables.compactMap({ table($0.name) }) {
            let rows = try pg.query(
                """
                SELECT \(FingerprintSQL.sum), EXISTS (SELECT 1 FROM tidemark.outside WHERE zone = $1)
                FROM \(table.name) AS app_row \(FingerprintSQL.hash(table, "app_row"))
                WHERE \(table.inZone("app_row")) AND $1::text IS NOT NULL
                """,
                [zoneName]
            )
            if rows[0].isTrue(1) { throw Overtaken() }
            sum = sum + (rows[0][0].flatMap(Fingerprint.init(hex:)) ?? .none)
        }
        return sum
    }

    func keepFingerprint(_ fingerprint: Fingerprint, at revision: Int64) throws {
        facts.fingerprints[revision] = nil
        try pg.query(
            """
            INSERT INTO tidemark.fingerprint VALUES ($1, $2::bigint, $3, $4)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                shape = excluded.shape
            """,
            [zoneName, "\(revision)", fingerprint.hex, fingerprintLayoutHash]
        )
    }

    func storedFingerprint(at revision: Int64) throws -> Fingerprint? {
        if let fingerprint = facts.fingerprints[revision] { return fingerprint }
        return try pg.text(
            """
            SELECT fingerprint
            FROM tidemark.fingerprint
            WHERE zone = $1 AND revision = $2::bigint AND shape = $3
            """,
            [zoneName, "\(revision)", fingerprintLayoutHash]
        ).flatMap(Fingerprint.init(hex:))
    }

    var fingerprintLayoutHash: String { served.fingerprintLayoutHash }

    // MARK: Ranges

    func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        let rows = RangeRows(schema) { query in
            guard let stored = self.table(query.table.name) else { return [] }
            let question = RowQuery(query.table, limit: 0, bytesMax: 0)
            let dialect = PostgresDialect(table: stored, query: question, adopted: self.adopted)
            return try ReadFingerprints(pg: self.pg, zone: self.zoneName, dialect: dialect).sums(query)
        }
        return try rows.compare(ranges, limits: limits) { differing in
            try rows.noteKeys(in: differing, db)
            try noteTruth()
            return try staged.renderTruth(nil)
        }
    }
}
