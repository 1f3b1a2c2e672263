import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// What became of change sets that were written together, in the round trip of the commit.
extension PostgresTransaction {
    func fingerprints(of segment: StagedSets) throws -> [Int: Fingerprint] {
        try RowFingerprints(db, schema: schema).reducedImages(in: segment)
    }

    func keep(_ sets: [PlannedRevision], of segment: StagedSets) throws {
        let known = sets.filter { $0.fingerprint != nil }
        tail += try [revisions(sets, entries(of: segment)), verdicts(sets)]
        if !known.isEmpty { tail.append(fingerprints(known)) }
    }

    func keep(_ laps: [String: Exchange], zone: ZoneState) throws {
        change(revision: zone.revision, time: zone.time)
        guard !laps.isEmpty else { return }
        let laps = laps.sorted { $0.key < $1.key }
        tail.append(
            PostgresStatement(
                """
                INSERT INTO tidemark.lap SELECT $1, l.* FROM unnest($2::text[], $3::text[], $4::bigint[]) AS l
                ON CONFLICT (zone, device) DO UPDATE SET lap = excluded.lap, revision = excluded.revision
                """,
                [
                    zoneName, PostgresArray.quoted(laps.map(\.key)), PostgresArray.quoted(laps.map(\.value.lap)),
                    Self.array(laps.map(\.value.revision)),
                ]
            )
        )
    }

    /// The log's entries of a segment, a JSON array.
    private func entries(of segment: StagedSets) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('tbl', r.tbl, 'key', r.key, 'revision', p.revision,
                        'operation', r.operation, 'columns', CASE r.operation WHEN 'update'
                            THEN (SELECT json_group_array(j.key) FROM json_each(r.attributes) AS j) END))
                    FROM temp.tidemark_planned AS p JOIN temp.tidemark_staged AS s USING (ord)
                        JOIN temp.tidemark_reduced AS r ON r.tbl = s.tbl AND r.key = s.key
                    WHERE p.segment = ?
                    """
            ),
            arguments: [segment.number]
        ) ?? "[]"
    }

    private func revisions(_ sets: [PlannedRevision], _ entries: String) -> PostgresStatement {
        PostgresStatement(
            """
            WITH revision AS (
                INSERT INTO tidemark.revision (zone, revision, id, device, time, body, chain)
                SELECT $1, r.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[],
                    $6::text[], $7::text[]) AS r
            ), entry AS (
                SELECT * FROM jsonb_to_recordset($8::jsonb)
                    AS e (tbl text, key text, revision bigint, operation text, columns text)
            ), logged AS (
                INSERT INTO tidemark.log (zone, tbl, key, revision, operation, columns)
                SELECT $1, tbl, key, revision, operation, columns FROM entry
            )
            INSERT INTO tidemark.identity AS i (zone, tbl, next)
            SELECT $1, tbl, max(key::bigint) + 1 FROM entry WHERE tbl = ANY ($9::text[]) GROUP BY tbl
            ON CONFLICT (zone, tbl) DO UPDATE SET next = greatest(i.next, excluded.next)
            """,
            [
                zoneName, Self.array(sets.map(\.planned.revision)),
                PostgresArray.nullable(sets.map(\.planned.envelope.id)),
                PostgresArray.nullable(sets.map(\.planned.stamp.device)), Self.array(sets.map(\.planned.stamp.time)),
                PostgresArray.quoted(sets.map(\.body.all)), PostgresArray.quoted(sets.map(\.chain)), entries,
                integerTables,
            ]
        )
    }

    private func verdicts(_ sets: [PlannedRevision]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO tidemark.verdict (zone, id, device, hash, revision, after, ids, as_sent)
            SELECT $1, v.id, v.device, v.hash, v.revision, v.after::text[], v.ids, v.as_sent
            FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::boolean[])
                AS v (id, device, hash, revision, after, ids, as_sent) WHERE v.id IS NOT NULL
            """,
            [
                zoneName, PostgresArray.nullable(sets.map(\.planned.envelope.id)),
                PostgresArray.nullable(sets.map(\.planned.stamp.device)),
                PostgresArray.quoted(sets.map(\.planned.envelope.hash)), Self.array(sets.map(\.planned.revision)),
                PostgresArray.quoted(sets.map { Self.array($0.planned.envelope.after) }),
                PostgresArray.quoted(sets.map(\.body.ids)), Self.array(sets.map { "\($0.body.isAsSent)" }),
            ]
        )
    }

    private func fingerprints(_ sets: [PlannedRevision]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO tidemark.fingerprint
            SELECT $1, f.revision, f.fingerprint, $4 FROM unnest($2::bigint[], $3::text[]) AS f (revision, fingerprint)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                shape = excluded.shape
            """,
            [
                zoneName, Self.array(sets.map(\.planned.revision)), Self.array(sets.compactMap { $0.fingerprint?.hex }),
                shape,
            ]
        )
    }
}
