import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// What requests that only ask need of a zone: read without a lock, beside whoever commits.
extension ZoneConnections {
    /// What a zone is at for a device, in one round trip, whatever the number of revisions.
    ///
    /// Asked for every request: another node may have committed a moment ago.
    ///
    /// - Returns: nil when another program has written what no revision has, or altered the tables.
    func head(of zone: String, for device: String?) async throws -> ZoneHead? {
        try await reading { pg, served in
            let results = try pg.run([
                CataloguePosition.statement(of: served.namespace, zone: zone),
                PostgresStatement(Self.headSQL, [zone, served.shape, device]),
            ])
            guard CataloguePosition(results[0]) == served.position else { return nil }
            let rows = results[1]
            guard !rows.isEmpty else { throw PostgresTransaction.unknownZone }
            let row = rows[0]
            guard !row.isTrue(6) else { return nil }
            return ZoneHead(
                state: ZoneState(
                    epoch: row.text(0),
                    revision: row.integer(1) ?? 0,
                    horizon: row.integer(2) ?? 0,
                    schema: served.hash,
                    time: row.integer(3) ?? 0
                ),
                fingerprint: row[5].flatMap(Fingerprint.init(hex:)),
                chain: row[4] ?? "",
                hasNotes: row.isTrue(7),
                lastNoted: row.integer(8)
            )
        }
    }

    private static let headSQL = """
        SELECT z.epoch, z.revision, z.horizon, z.time,
            (SELECT r.chain FROM tidemark.revision AS r
                WHERE r.zone = $1 AND r.revision = z.revision),
            (SELECT f.fingerprint FROM tidemark.fingerprint AS f
                WHERE f.zone = $1 AND f.revision = z.revision AND f.shape = $2),
            EXISTS (SELECT 1 FROM tidemark.outside AS o WHERE o.zone = $1),
            z.notes > 0 AND EXISTS (
                SELECT 1 FROM tidemark.overruled AS n WHERE n.zone = $1 AND n.device = $3),
            CASE WHEN z.notes > 0 THEN (
                SELECT max(n.revision) FROM tidemark.overruled AS n WHERE n.zone = $1) END
        FROM tidemark.zone AS z WHERE z.zone = $1
        """

    /// Consecutive change sets that end with the last of a range, oldest first; of the first
    /// revision, which devices are at, at least what it was.
    func recent(_ zone: String, _ range: ClosedRange<Int64>, bytesMax: Int) async throws -> [RecentChangeSet] {
        try await reading { pg, served in
            let rows = try pg.query(
                """
                SELECT b.revision, b.device, b.chain, b.body, f.fingerprint FROM (
                    SELECT r.*, sum(octet_length(body)) OVER (ORDER BY revision DESC) AS bytes
                    FROM tidemark.revision AS r
                    WHERE r.zone = $1 AND r.revision BETWEEN $2::bigint AND $3::bigint
                ) AS b
                LEFT JOIN tidemark.fingerprint AS f
                    ON f.zone = $1 AND f.revision = b.revision AND f.shape = $5
                WHERE b.bytes <= $4::bigint ORDER BY b.revision DESC
                """,
                [zone, "\(range.lowerBound)", "\(range.upperBound)", "\(bytesMax)", served.shape]
            )
            let sets = rows.map { row in
                RecentChangeSet(
                    revision: row.integer(0) ?? 0,
                    device: row[1],
                    fingerprint: row[4].flatMap(Fingerprint.init(hex:)),
                    chain: row.text(2),
                    body: row.text(3)
                )
            }
            // Compaction has taken older bodies away.
            var run = Array(sets.prefix { $0.hasBody })
            if run.count == range.count - 1 { run.append(try Self.start(range.lowerBound, of: zone, served, pg)) }
            return run.reversed()
        }
    }

    /// A revision of which there is no change set: the rows were there before, or compaction has
    /// taken it away.
    private static func start(_ revision: Int64, of zone: String, _ served: PostgresSchema, _ pg: PostgresConnection)
        throws -> RecentChangeSet
    {
        let row = try pg.query(
            """
            SELECT
                (SELECT r.chain FROM tidemark.revision AS r
                    WHERE r.zone = $1 AND r.revision = $2::bigint),
                (SELECT f.fingerprint FROM tidemark.fingerprint AS f
                    WHERE f.zone = $1 AND f.revision = $2::bigint AND f.shape = $3)
            """,
            [zone, "\(revision)", ContentHash.of(served.schema.shape)]
        )[0]
        return RecentChangeSet(startingAt: revision, fingerprint: row[1].flatMap(Fingerprint.init(hex:)), chain: row[0])
    }
}
