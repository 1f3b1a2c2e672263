import TidemarkCore
import TidemarkEngine

extension PostgresTransaction {
    func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String] {
        let copies = try pg.query(
            """
            SELECT verdict.id,
                verdict.body, verdict.ids, entry.body
            FROM tidemark.verdict AS verdict
            LEFT JOIN tidemark.revision AS entry
                ON entry.zone = verdict.zone AND entry.revision = verdict.revision
                    AND NOT (verdict.as_sent AND $3::boolean)
            WHERE verdict.zone = $1 AND verdict.id = ANY ($2::text[])
            """,
            [zoneName, PostgresArray.quoted(ids), "\(extent == .ids)"]
        ).map { ($0.text(0), try AuthorsCopy(whole: $0[1], ids: $0[2], logged: $0[3]).render()) }
        return Dictionary(uniqueKeysWithValues: copies)
    }

    func ancestry(of ids: [String]) throws -> Ancestry {
        guard !ids.isEmpty else { return Ancestry(revisions: [], isRefused: false) }
        let list = PostgresArray.quoted(ids)
        let missing = try pg.text(
            """
            SELECT wanted.id
            FROM unnest($2::text[]) WITH ORDINALITY AS wanted (id, place)
            WHERE NOT EXISTS (
                SELECT 1 FROM tidemark.verdict AS verdict WHERE verdict.zone = $1 AND verdict.id = wanted.id)
            ORDER BY wanted.place
            LIMIT 1
            """,
            [zoneName, list]
        )
        if let missing {
            throw TidemarkError(
                .predecessorMissing,
                "The change set depends on \(missing), which has not arrived.",
                fix: "Send \(missing) first, or in the same request before this one."
            )
        }
        let rows = try pg.query(
            """
            WITH RECURSIVE ancestor (id) AS (
                SELECT unnest($2::text[])
                UNION
                SELECT unnest(verdict.after)
                FROM ancestor
                JOIN tidemark.verdict AS verdict ON verdict.zone = $1 AND verdict.id = ancestor.id
            )
            SELECT verdict.revision, verdict.revision IS NULL AND verdict.id = ANY ($2::text[])
            FROM ancestor
            JOIN tidemark.verdict AS verdict ON verdict.zone = $1 AND verdict.id = ancestor.id
            """,
            [zoneName, list]
        )
        return Ancestry(
            revisions: rows.map { $0.integer(0) }.compactMap { $0 },
            isRefused: rows.map { $0.isTrue(1) }.contains(true)
        )
    }

    func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws -> [String] {
        guard notes > 0 else { return [] }
        if cursor > 0 {
            try pg.query(
                """
                DELETE FROM tidemark.overruled
                WHERE zone = $1 AND device = $2 AND number <= $3::bigint
                """,
                [zoneName, device, "\(cursor)"]
            )
        }
        return try pg.query(
            """
            SELECT '{"number":' || number || ',"revision":' || revision || ',"records":' || records || '}'
            FROM tidemark.overruled
            WHERE zone = $1 AND device = $2 AND revision <= $3::bigint
            ORDER BY number
            LIMIT $4::bigint
            """,
            [zoneName, device, "\(revision)", "\(limit)"]
        ).map { $0.text(0) }
    }
}

extension Verdict {
    /// The stored verdicts of zone `$1`, with the owners of their devices.
    static let sql = """
        SELECT verdict.id, verdict.device, hash, verdict.revision, as_sent, lap.user_id
        FROM tidemark.verdict AS verdict
        LEFT JOIN tidemark.lap AS lap ON lap.zone = verdict.zone AND lap.device = verdict.device
        WHERE verdict.zone = $1
        """

    /// Reads a row of ``sql``.
    init(_ row: PostgresRows.Row) {
        self.init(
            device: row[1],
            hash: row.text(2),
            revision: row.integer(3),
            isAsSent: row.isTrue(4),
            owner: row[5]
        )
    }
}

extension ZoneState {
    /// Reads a row that begins with epoch, revision, horizon and time.
    init(_ row: PostgresRows.Row, schema: String) {
        self.init(
            epoch: row.text(0),
            revision: row.integer(1) ?? 0,
            horizon: row.integer(2) ?? 0,
            schema: schema,
            time: row.integer(3) ?? 0
        )
    }
}
