import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkStoreSupport

extension PostgresTransaction {
    func verdict(of id: String) throws -> Verdict? {
        if facts.queriedIDs.contains(id) { return facts.verdicts[id] }
        return try pg.query("\(StoredVerdict.sql) AND id = $2", [zoneName, id]).map { StoredVerdict($0).verdict }.first
    }

    func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String] {
        let copies = try pg.query(
            """
            SELECT verdict.id,
                CASE WHEN $4::boolean AND verdict.ids IS NOT NULL THEN NULL ELSE verdict.body END,
                verdict.ids, entry.body
            FROM tidemark.verdict AS verdict
            LEFT JOIN tidemark.revision AS entry
                ON entry.zone = verdict.zone AND entry.revision = verdict.revision
                    AND NOT (verdict.as_sent AND $3::boolean OR $4::boolean)
            WHERE verdict.zone = $1 AND verdict.id = ANY ($2::text[])
            """,
            [zoneName, PostgresArray.quoted(ids), "\(extent == .ids)", "\(extent == .verdicts)"]
        ).map { ($0.text(0), try AuthorsCopy(whole: $0[1], ids: $0[2], logged: $0[3]).render()) }
        return Dictionary(uniqueKeysWithValues: copies)
    }

    func idsWithVerdict(_ ids: [String]) throws -> [String] {
        try pg.query(
            """
            SELECT id
            FROM tidemark.verdict
            WHERE zone = $1 AND id = ANY ($2::text[])
            ORDER BY id
            """,
            [zoneName, Self.array(ids)]
        ).map { $0.text(0) }
    }

    func lastExchange(with device: String) throws -> Exchange? {
        if facts.queriedIDs.contains(device) { return facts.laps[device] }
        return try pg.query(
            "SELECT lap, revision, user_id FROM tidemark.lap WHERE zone = $1 AND device = $2",
            [zoneName, device]
        ).map { Exchange(lap: $0.text(0), revision: $0.integer(1) ?? 0, user: $0[2]) }.first
    }

    func keep(_ exchange: Exchange, with device: String) throws {
        facts.queriedIDs.remove(device)
        try pg.query(
            """
            INSERT INTO tidemark.lap AS known (zone, device, lap, revision, user_id) VALUES ($1, $2, $3, $4::bigint, $5)
            ON CONFLICT (zone, device) DO UPDATE SET
                lap = excluded.lap,
                revision = excluded.revision,
                user_id = coalesce(known.user_id, excluded.user_id)
            """,
            [zoneName, device, exchange.lap, "\(exchange.revision)", exchange.user]
        )
    }

    func ancestry(of ids: [String]) throws -> Ancestry {
        guard !ids.isEmpty else { return Ancestry(revisions: [], isRefused: false) }
        let list = Self.array(ids)
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

    /// Stores the verdict of an accepted change set; the log has its effect.
    func keep(_ envelope: SyncRequest.Envelope, device: String?, revision: Int64, _ logged: LoggedChangeSet) throws {
        try keep(envelope, device: device, verdict: ["\(revision)", logged.whole, logged.ids, "\(logged.isAsSent)"])
    }

    /// Stores the verdict of a refused change set.
    func keep(_ envelope: SyncRequest.Envelope, device: String?, refusal: String) throws {
        try keep(envelope, device: device, verdict: [nil, refusal, nil, "false"])
    }

    private func keep(_ envelope: SyncRequest.Envelope, device: String?, verdict: [String?]) throws {
        guard let id = envelope.id else { return }
        facts.queriedIDs.remove(id)
        try pg.query(
            """
            INSERT INTO tidemark.verdict (zone, id, device, hash, after, revision, body, ids, as_sent)
            VALUES ($1, $2, $3, $4, $5::text[], $6::bigint, $7, $8, $9::boolean)
            """,
            [zoneName, id, device, envelope.hash, Self.array(envelope.after)] + verdict
        )
    }
}
