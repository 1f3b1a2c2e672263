import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Reads for requests without change sets: they take no lock, and run beside commits.
extension ZoneConnections {
    /// Reads a zone's head for a device in one round trip, for any number of revisions.
    ///
    /// Every request needs it, because another node may have just committed.
    ///
    /// - Returns: The head; nil if another program's changes wait to be absorbed, or the tables were
    ///   altered.
    func head(of zone: String, for device: String?) async throws -> ZoneHead? {
        try await reading { pg, served in
            let results = try pg.run([
                CataloguePosition.statement(of: served.namespace, zone: zone),
                PostgresStatement(Self.headSQL, [zone, served.fingerprintLayoutHash, device, Exchange.forgottenLap]),
            ])
            guard CataloguePosition(results[0]) == served.position else { return nil }
            let rows = results[1]
            guard !rows.isEmpty else { throw TidemarkError.unknownZone }
            let row = rows[0]
            guard !row.isTrue(6) else { return nil }
            return ZoneHead(
                state: ZoneState(row, schema: served.hash),
                fingerprint: row[5].flatMap(Fingerprint.init(hex:)),
                chain: row[4] ?? "",
                hasMessages: row.isTrue(7),
                lastNoteRevision: row.integer(8)
            )
        }
    }

    private static let headSQL = """
        SELECT zone.epoch, zone.revision, zone.horizon, zone.time,
            (SELECT latest.chain FROM tidemark.revision AS latest
                WHERE latest.zone = $1 AND latest.revision = zone.revision),
            (SELECT stored.fingerprint FROM tidemark.fingerprint AS stored
                WHERE stored.zone = $1 AND stored.revision = zone.revision AND stored.shape = $2),
            EXISTS (SELECT 1 FROM tidemark.outside AS outside WHERE outside.zone = $1),
            zone.notes > 0 AND EXISTS (
                SELECT 1 FROM tidemark.overruled AS note WHERE note.zone = $1 AND note.device = $3)
                OR EXISTS (SELECT 1 FROM tidemark.lap AS lap WHERE lap.zone = $1 AND lap.device = $3 AND lap.lap = $4),
            CASE WHEN zone.notes > 0 THEN (
                SELECT max(note.revision) FROM tidemark.overruled AS note WHERE note.zone = $1) END
        FROM tidemark.zone AS zone
        WHERE zone.zone = $1
        """

    /// Reads consecutive change sets that end with the last of a range, oldest first.
    ///
    /// If compaction has deleted the body of the range's first revision, its entry has no body.
    func recent(_ zone: String, _ range: ClosedRange<Int64>, bytesMax: Int) async throws -> [RecentChangeSet] {
        try await reading { pg, served in
            let rows = try pg.query(
                """
                SELECT measured.revision, measured.device, measured.chain, measured.body, stored.fingerprint
                FROM (
                    SELECT entry.*, sum(octet_length(body)) OVER (ORDER BY revision DESC) AS bytes
                    FROM tidemark.revision AS entry
                    WHERE entry.zone = $1 AND entry.revision BETWEEN $2::bigint AND $3::bigint
                ) AS measured
                LEFT JOIN tidemark.fingerprint AS stored
                    ON stored.zone = $1 AND stored.revision = measured.revision AND stored.shape = $5
                WHERE measured.bytes <= $4::bigint
                ORDER BY measured.revision DESC
                """,
                [zone, "\(range.lowerBound)", "\(range.upperBound)", "\(bytesMax)", served.fingerprintLayoutHash]
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
            // Compaction has deleted older bodies.
            var run = Array(sets.prefix { $0.hasBody })
            if run.count == range.count - 1 {
                run.append(try Self.start(range.lowerBound, of: zone, served: served, pg: pg))
            }
            return run.reversed()
        }
    }

    /// Reads a revision without a body: it was adopted with existing rows, or compacted.
    private static func start(_ revision: Int64, of zone: String, served: PostgresSchema, pg: PostgresConnection)
        throws -> RecentChangeSet
    {
        let row = try pg.query(
            """
            SELECT
                (SELECT entry.chain FROM tidemark.revision AS entry
                    WHERE entry.zone = $1 AND entry.revision = $2::bigint),
                (SELECT stored.fingerprint FROM tidemark.fingerprint AS stored
                    WHERE stored.zone = $1 AND stored.revision = $2::bigint AND stored.shape = $3)
            """,
            [zone, "\(revision)", served.fingerprintLayoutHash]
        )[0]
        return RecentChangeSet(startingAt: revision, fingerprint: row[1].flatMap(Fingerprint.init(hex:)), chain: row[0])
    }
}
