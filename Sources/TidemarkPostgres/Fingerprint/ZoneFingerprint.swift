import TidemarkCore
import TidemarkEngine
import TidemarkSQL

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

    /// Computes the fingerprint of all rows.
    ///
    /// - Throws: ``Overtaken`` if another program's rows are in no revision yet.
    func computeFingerprint() throws -> Fingerprint { try pg.scanning { try sumOfRows() } }

    private func sumOfRows() throws -> Fingerprint {
        var sum = Fingerprint.none
        for table in try schema.tables.map({ try table($0.name) }) {
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
        beginning.fingerprints[revision] = fingerprint
        if revision == state.revision { beginning.head?.fingerprint = fingerprint }
        try pg.queue(
            """
            INSERT INTO tidemark.fingerprint VALUES ($1, $2::bigint, $3, $4)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                shape = excluded.shape
            """,
            [zoneName, "\(revision)", fingerprint.hex, served.fingerprintLayoutHash]
        )
    }

    func storedFingerprint(at revision: Int64) throws -> Fingerprint? {
        if let fingerprint = beginning.fingerprints[revision] { return fingerprint }
        return try pg.text(
            """
            SELECT fingerprint
            FROM tidemark.fingerprint
            WHERE zone = $1 AND revision = $2::bigint AND shape = $3
            """,
            [zoneName, "\(revision)", served.fingerprintLayoutHash]
        ).flatMap(Fingerprint.init(hex:))
    }

    // MARK: Ranges

    func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] {
        let question = RowQuery(query.table, limit: 0, bytesMax: 0)
        let dialect = PostgresDialect(table: try table(query.table.name), query: question, adopted: adopted)
        return try ReadFingerprints(pg: pg, zone: zoneName, dialect: dialect).sums(query)
    }
}
