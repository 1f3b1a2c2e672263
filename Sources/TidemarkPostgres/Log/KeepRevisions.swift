import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Stores revisions and verdicts, with statements that wait for the round trip of the commit.
extension PostgresTransaction {
    func keep(_ commit: ZoneCommit) throws {
        if !commit.revisions.isEmpty { try keepRevisions(of: commit) }
        for refusal in commit.refusals { try keep(refusal) }
        if !commit.exchanges.isEmpty { try keep(commit.exchanges) }
    }

    private func keepRevisions(of commit: ZoneCommit) throws {
        try appendLog(commit.revisions)
        try appendVerdicts(commit.revisions.filter { $0.envelope?.id != nil })
        try appendFingerprints(commit.revisions.compactMap { one in one.fingerprint.map { (one.revision, $0) } })
        for assigned in commit.revisions.flatMap(\.permanentIDs) {
            usedIDs[assigned.name.table, default: []].insert(assigned.id)
        }
        try appendPermanentIDs(commit.revisions)
        try retire(commit.nextIDs)
        for revision in commit.revisions {
            for note in revision.notes {
                notes += 1
                try pg.queue(
                    "INSERT INTO tidemark.overruled VALUES ($1, $2, $3::bigint, $4::bigint, $5)",
                    [zoneName, note.device, "\(notes)", "\(revision.revision)", note.records]
                )
            }
        }
        state = state.with(revision: commit.zone.revision, time: max(state.time, commit.zone.time))
        guard let last = commit.revisions.last else { return }
        beginning.head = CommitHead(
            state: state,
            chain: last.chain,
            fingerprint: last.fingerprint,
            hasOutsideChanges: false
        )
    }

    // MARK: The log

    private func appendLog(_ revisions: [CommittedRevision]) throws {
        var texts: [String] = []
        for revision in revisions { texts.append(try upload(revision)) }
        let entries = Entries(revisions, in: self)
        recordsWithUnloggedValues = []
        try pg.queue(
            """
            WITH piece AS (
                DELETE FROM tidemark.piece
                WHERE zone = $1 AND revision = ANY ($2::bigint[])
                RETURNING revision, number, text
            ), revision AS (
                INSERT INTO tidemark.revision (zone, revision, id, device, user_id, time, body, chain, committed)
                SELECT $1, sent.revision, sent.id, sent.device, sent.user_id, sent.time,
                    coalesce((SELECT string_agg(piece.text, '' ORDER BY piece.number) FROM piece
                        WHERE piece.revision = sent.revision), '') || sent.body,
                    sent.chain,
                    greatest($17::bigint, (SELECT latest.committed FROM tidemark.revision AS latest
                        WHERE latest.zone = $1 AND latest.revision = ($2::bigint[])[1] - 1))
                FROM unnest(
                    $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])
                    AS sent (revision, id, device, user_id, time, body, chain)
            ), entry AS (
                SELECT *
                FROM unnest(
                    $9::text[], $10::text[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[])
                    AS sent (tbl, key, revision, operation, columns, before, image)
            ), logged AS (
                INSERT INTO tidemark.log (zone, tbl, key, revision, operation, columns, before, unlogged)
                SELECT $1, tbl, key, revision, operation, columns, before, \(UnloggedValues.sql)
                FROM entry AS change
            )
            INSERT INTO tidemark.identity AS stored (zone, tbl, next)
            SELECT $1, tbl, max(key::bigint) + 1
            FROM entry
            WHERE CASE WHEN tbl = ANY ($16::text[]) THEN key::bigint <= \(TemporaryID.assignedMax) END
            GROUP BY tbl
            ON CONFLICT (zone, tbl) DO UPDATE SET next = greatest(stored.next, excluded.next)
            """,
            [
                zoneName, PostgresArray.numbers(revisions.map(\.revision)),
                PostgresArray.nullable(revisions.map(\.envelope?.id)),
                PostgresArray.nullable(revisions.map(\.stamp.device)),
                PostgresArray.nullable(revisions.map(\.stamp.user)), PostgresArray.numbers(revisions.map(\.stamp.time)),
                PostgresArray.quoted(texts), PostgresArray.quoted(revisions.map(\.chain)),
            ] + entries.parameters + [integerTables, "\(now)"]
        )
    }

    /// The tables with ids from the server, as an array literal of PostgreSQL.
    private var integerTables: String {
        PostgresArray.quoted(schema.tables.filter { $0.keyKind == .integer }.map(\.name))
    }

    /// Sends a long text to the database in pieces.
    ///
    /// - Returns: The rest: a short text as a whole, of a long one the end.
    private func upload(_ revision: CommittedRevision) throws -> String {
        var text = ""
        var number = 0
        for piece in revision.text {
            if text.utf8.count + piece.utf8.count > Self.pieceBytesMax, !text.isEmpty {
                try pg.query(
                    "INSERT INTO tidemark.piece VALUES ($1, $2::bigint, $3::int, $4)",
                    [zoneName, "\(revision.revision)", "\(number)", text]
                )
                text = ""
                number += 1
            }
            text += piece
        }
        return text
    }

    /// The maximum size of a piece of a long text, in bytes.
    private static let pieceBytesMax = 1 << 20

    /// The entries of the log as arrays.
    private struct Entries {
        private var tables: [String] = []
        private var keys: [String] = []
        private var revisions: [Int64] = []
        private var operations: [String] = []
        private var columns: [String?] = []
        /// A hash of each replaced value that PostgreSQL reads in several spellings.
        private var hashes: [String?] = []
        /// The rows before, of records whose values may be in no entry yet.
        private var rows: [String?] = []

        init(_ commits: [CommittedRevision], in transaction: PostgresTransaction) {
            let schema = transaction.schema
            for commit in commits {
                for entry in commit.entries {
                    let table = schema.tables[entry.name.table]
                    tables.append(table.name)
                    keys.append(entry.name.key)
                    revisions.append(commit.revision)
                    operations.append(entry.operation.rawValue)
                    let isUpdate = entry.operation == .update
                    let names = entry.columns.map { JSONText.quote(table.columns[$0].name) }
                    columns.append(isUpdate ? JSONText.array(names) : nil)
                    hashes.append(isUpdate ? transaction.hashes(of: entry) : nil)
                    let isUnlogged = transaction.recordsWithUnloggedValues.contains(entry.name)
                    rows.append(isUnlogged ? entry.before.map(schema.layouts[entry.name.table].object) : nil)
                }
            }
        }

        var parameters: [String?] {
            [
                PostgresArray.quoted(tables), PostgresArray.quoted(keys), PostgresArray.numbers(revisions),
                PostgresArray.quoted(operations), PostgresArray.nullable(columns), PostgresArray.nullable(hashes),
                PostgresArray.nullable(rows),
            ]
        }
    }

    private func hashes(of entry: CommittedRevision.Entry) -> String? {
        guard let before = entry.before else { return nil }
        let spelled = entry.columns.filter { mayRespell(column: $0, of: entry.name.table) }
        guard !spelled.isEmpty else { return nil }
        let columns = schema.tables[entry.name.table].columns
        return JSONText.object(
            spelled.map { (columns[$0].name, JSONText.quote(Fingerprint(hashOf: before[$0].canonicalJSON).hex)) }
        )
    }

    // MARK: Verdicts

    private func appendVerdicts(_ revisions: [CommittedRevision]) throws {
        guard !revisions.isEmpty else { return }
        try keep(
            revisions.compactMap { one in
                one.envelope.map {
                    StoredVerdict(
                        envelope: $0,
                        device: one.stamp.device,
                        revision: one.revision,
                        body: one.authorsCopy,
                        ids: one.ids,
                        isAsSent: one.isAsSent
                    )
                }
            }
        )
    }

    private struct StoredVerdict {
        let envelope: SyncRequest.Envelope
        let device: String?
        var revision: Int64?
        let body: String?
        var ids: String?
        var isAsSent = false
    }

    private func keep(_ verdicts: [StoredVerdict]) throws {
        try pg.queue(
            """
            INSERT INTO tidemark.verdict (zone, id, device, hash, after, revision, body, ids, as_sent)
            SELECT $1, sent.id, sent.device, sent.hash, sent.after::text[], sent.revision, sent.body, sent.ids,
                sent.as_sent
            FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
                $9::boolean[]) AS sent (id, device, hash, after, revision, body, ids, as_sent)
            """,
            [
                zoneName, PostgresArray.nullable(verdicts.map(\.envelope.id)),
                PostgresArray.nullable(verdicts.map(\.device)), PostgresArray.quoted(verdicts.map(\.envelope.hash)),
                PostgresArray.quoted(verdicts.map { PostgresArray.quoted($0.envelope.after) }),
                PostgresArray.nullable(verdicts.map { $0.revision.map(String.init) }),
                PostgresArray.nullable(verdicts.map(\.body)), PostgresArray.nullable(verdicts.map(\.ids)),
                PostgresArray.quoted(verdicts.map { $0.isAsSent ? "t" : "f" }),
            ]
        )
    }

    /// Stores the verdict, and for people the records; it forgets those of the oldest refusal beyond the maximum.
    private func keep(_ refusal: Refusal) throws {
        guard let id = refusal.envelope.id else { return }
        try keep([StoredVerdict(envelope: refusal.envelope, device: refusal.device, body: refusal.text)])
        // The transaction holds the zone's lock, so no other one takes the same number.
        try pg.queue(
            """
            WITH latest AS (
                SELECT coalesce(max(number), 0) + 1 AS number FROM tidemark.refused WHERE zone = $1
            ), kept AS (
                INSERT INTO tidemark.refused (zone, number, id, decided, base, sent)
                SELECT $1, number, $2, $3::bigint, $4::bigint, $5 FROM latest
            )
            DELETE FROM tidemark.refused AS refused
            USING latest
            WHERE refused.zone = $1 AND refused.number <= latest.number - $6::bigint
            """,
            [zoneName, id, "\(now)", "\(refusal.base)", refusal.sent, "\(Self.refusedMax)"]
        )
    }

    /// The most refused change sets of a zone that the server keeps for people.
    private static let refusedMax = 10_000

    private func keep(_ exchanges: [String: Exchange]) throws {
        let exchanges = exchanges.sorted { $0.key < $1.key }
        try pg.queue(
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
                zoneName, PostgresArray.quoted(exchanges.map(\.key)), PostgresArray.quoted(exchanges.map(\.value.lap)),
                PostgresArray.numbers(exchanges.map(\.value.revision)),
                PostgresArray.nullable(exchanges.map(\.value.user)),
            ]
        )
    }

    // MARK: Fingerprints and ids

    private func appendFingerprints(_ stored: [(revision: Int64, fingerprint: Fingerprint)]) throws {
        guard !stored.isEmpty else { return }
        for (revision, fingerprint) in stored { beginning.fingerprints[revision] = fingerprint }
        try pg.queue(
            """
            INSERT INTO tidemark.fingerprint
            SELECT $1, sent.revision, sent.fingerprint, $4
            FROM unnest($2::bigint[], $3::text[]) AS sent (revision, fingerprint)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint, shape = excluded.shape
            """,
            [
                zoneName, PostgresArray.numbers(stored.map(\.revision)),
                PostgresArray.quoted(stored.map(\.fingerprint.hex)),
                served.fingerprintLayoutHash,
            ]
        )
    }

    private func appendPermanentIDs(_ revisions: [CommittedRevision]) throws {
        var devices: [String] = []
        var assigned: [(name: TemporaryName, id: Int64)] = []
        for revision in revisions {
            guard let device = revision.stamp.device else { continue }
            devices += Array(repeating: device, count: revision.permanentIDs.count)
            assigned += revision.permanentIDs
        }
        guard !assigned.isEmpty else { return }
        try pg.queue(
            """
            INSERT INTO tidemark.idmap (zone, device, tbl, temporary, permanent)
            SELECT $1, pair.* FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS pair
            """,
            [
                zoneName, PostgresArray.quoted(devices),
                PostgresArray.quoted(assigned.map { schema.tables[$0.name.table].name }),
                PostgresArray.numbers(assigned.map(\.name.id)), PostgresArray.numbers(assigned.map(\.id)),
            ]
        )
    }

    /// Raises the next ids of tables whose ids no sequence counts.
    private func retire(_ nextIDs: [Int: Int64]) throws {
        let counted = try nextIDs.filter { try table($0.key).sequence == nil }.sorted { $0.key < $1.key }
        guard !counted.isEmpty else { return }
        try pg.queue(
            """
            INSERT INTO tidemark.identity AS stored (zone, tbl, next)
            SELECT $1, sent.* FROM unnest($2::text[], $3::bigint[]) AS sent
            ON CONFLICT (zone, tbl) DO UPDATE SET next = greatest(stored.next, excluded.next)
            """,
            [
                zoneName, PostgresArray.quoted(counted.map { schema.tables[$0.key].name }),
                PostgresArray.numbers(counted.map(\.value)),
            ]
        )
    }
}
