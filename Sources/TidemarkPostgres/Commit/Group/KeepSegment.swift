import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Logs the change sets of a segment, in the round trip of the commit.
extension PostgresTransaction {
    func fingerprints(of segment: StagedSets) throws -> [Int: Fingerprint] {
        try RowFingerprints(db, schema: schema).reducedImageDifferences(in: segment)
    }

    func keep(_ sets: [PlannedRevision], of segment: StagedSets) throws {
        let setsWithFingerprint = sets.filter { $0.fingerprint != nil }
        tail += try [revisions(sets, entries(of: segment)), verdicts(sets)]
        if !setsWithFingerprint.isEmpty { tail.append(fingerprints(setsWithFingerprint)) }
    }

    func keep(_ laps: [String: Exchange], zone: ZoneState) throws {
        updateState(revision: zone.revision, time: zone.time)
        guard !laps.isEmpty else { return }
        let laps = laps.sorted { $0.key < $1.key }
        tail.append(
            PostgresStatement(
                """
                INSERT INTO tidemark.lap AS known (zone, device, lap, revision, user_id)
                SELECT $1, exchange.*
                FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) AS exchange
                ON CONFLICT (zone, device) DO UPDATE SET
                    lap = excluded.lap,
                    revision = excluded.revision,
                    user_id = coalesce(known.user_id, excluded.user_id)
                """,
                [
                    zoneName, PostgresArray.quoted(laps.map(\.key)), PostgresArray.quoted(laps.map(\.value.lap)),
                    Self.array(laps.map(\.value.revision)), PostgresArray.nullable(laps.map(\.value.user)),
                ]
            )
        )
    }

    /// Returns the log's entries of a segment, a JSON array.
    private func entries(of segment: StagedSets) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(\(Self.entry(revision: "planned.revision")))
                    FROM temp.tidemark_planned AS planned
                    JOIN temp.tidemark_staged AS staged USING (ord)
                    JOIN temp.tidemark_reduced AS change
                        ON change.tbl = staged.tbl AND change.key = staged.key
                    WHERE planned.segment = ?
                    """
            ),
            arguments: [segment.number]
        ) ?? "[]"
    }

    private func revisions(_ sets: [PlannedRevision], _ entries: String) -> PostgresStatement {
        PostgresStatement(
            """
            WITH revision AS (
                INSERT INTO tidemark.revision (zone, revision, id, device, user_id, time, body, chain, committed)
                SELECT $1, sent.*, \(Self.committed(11, revision: "($2::bigint[])[1]"))
                FROM unnest(
                    $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[]) AS sent
            ), entry AS (
                SELECT *
                FROM \(Self.entries(9))
            ), \(Self.insertEntries(integerTables: 10))
            """,
            [
                zoneName, Self.array(sets.map(\.changeSet.revision)),
                PostgresArray.nullable(sets.map(\.changeSet.envelope.id)),
                PostgresArray.nullable(sets.map(\.changeSet.stamp.device)),
                PostgresArray.nullable(sets.map(\.changeSet.stamp.user)),
                Self.array(sets.map(\.changeSet.stamp.time)),
                PostgresArray.quoted(sets.map(\.body.all)), PostgresArray.quoted(sets.map(\.chain)), entries,
                integerTables, "\(now)",
            ]
        )
    }

    private func verdicts(_ sets: [PlannedRevision]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO tidemark.verdict (zone, id, device, hash, revision, after, ids, as_sent)
            SELECT $1, sent.id, sent.device, sent.hash, sent.revision, sent.after::text[], sent.ids, sent.as_sent
            FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::boolean[])
                AS sent (id, device, hash, revision, after, ids, as_sent)
            WHERE sent.id IS NOT NULL
            """,
            [
                zoneName, PostgresArray.nullable(sets.map(\.changeSet.envelope.id)),
                PostgresArray.nullable(sets.map(\.changeSet.stamp.device)),
                PostgresArray.quoted(sets.map(\.changeSet.envelope.hash)), Self.array(sets.map(\.changeSet.revision)),
                PostgresArray.quoted(sets.map { Self.array($0.changeSet.envelope.after) }),
                PostgresArray.quoted(sets.map(\.body.ids)), Self.array(sets.map { "\($0.body.isAsSent)" }),
            ]
        )
    }

    private func fingerprints(_ sets: [PlannedRevision]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO tidemark.fingerprint
            SELECT $1, sent.revision, sent.fingerprint, $4
            FROM unnest($2::bigint[], $3::text[]) AS sent (revision, fingerprint)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                shape = excluded.shape
            """,
            [
                zoneName, Self.array(sets.map(\.changeSet.revision)),
                Self.array(sets.compactMap { $0.fingerprint?.hex }),
                fingerprintLayoutHash,
            ]
        )
    }
}
