import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Logs the effect of a commit, as JSON ready to send.
extension PostgresTransaction {
    func log(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> LoggedChangeSet {
        var answer = answerEnvelope(envelope.id, revision: revision, stamp: stamp)
        answer.overruled = try takeOverruled(revision: revision, author: stamp.device)
        _ = try reduce(.own)
        try logReduced(id: envelope.id, stamp: stamp, revision: revision)
        let logged = try staged.makeLoggedChangeSet(answer, revision: revision, ord: envelope.ord)
        try keep(envelope, device: stamp.device, revision: revision, logged)
        return logged
    }

    func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String {
        try staged.renderEffect(
            answerEnvelope(envelope.id, revision: revision, stamp: stamp),
            revision: revision,
            authorOf: envelope.ord
        )
    }

    /// Returns the envelope of an accepted change set, with the time if a policy needs it.
    func answerEnvelope(_ id: String?, revision: Int64, stamp: Stamp) -> AnswerEnvelope {
        AnswerEnvelope(id: id, revision: revision, time: schema.needsTimes ? stamp.time : nil)
    }

    /// Logs the coalesced changes.
    func logReduced(id: String?, stamp: Stamp, revision: Int64) throws {
        let end = try uploadBody(answerEnvelope(id, revision: revision, stamp: stamp), at: revision)
        let entries = try logEntries(at: revision)
        try pg.query(
            """
            WITH piece AS (
                DELETE FROM tidemark.piece
                WHERE zone = $1 AND revision = $2::bigint
                RETURNING number, text
            ), whole (body) AS MATERIALIZED (
                SELECT coalesce((SELECT string_agg(text, '' ORDER BY number) FROM piece), '') || $6
            ), revision AS (
                INSERT INTO tidemark.revision (zone, revision, id, device, time, user_id, committed, body, chain)
                SELECT $1, $2::bigint, $3, $4, $5::bigint, $9, \(Self.committed(10, revision: "$2::bigint")), body, encode(sha256(convert_to(
                    coalesce((SELECT previous.chain FROM tidemark.revision AS previous
                            WHERE previous.zone = $1 AND previous.revision = $2::bigint - 1), '')
                        || E'\\n' || $2 || E'\\n' || body || E'\\n' || coalesce($4, ''), 'UTF8')), 'hex')
                FROM whole
            ), entry AS (
                SELECT *
                FROM \(Self.entries(7))
            ), \(Self.insertEntries(integerTables: 8))
            """,
            [
                zoneName, "\(revision)", id, stamp.device, "\(stamp.time)", end, entries, integerTables, stamp.user,
                "\(now)",
            ]
        )
        updateState(time: max(state.time, stamp.time))
        try carryFingerprint(to: revision, adding: RowFingerprints(db, schema: schema).reducedImageDifference())
    }

    /// The maximum size of a piece of a long text, in bytes.
    private static let pieceBytesMax = 1 << 20

    /// Renders the coalesced changes, and sends a long text to the database in pieces.
    ///
    /// - Returns: The unsent rest: a short text as a whole, of a long one the end.
    private func uploadBody(_ envelope: AnswerEnvelope, at revision: Int64) throws -> String {
        let pg = pg
        let zone = zoneName
        var text = ""
        var number = 0
        try staged.renderEffect(envelope, revision: revision) { _, piece in
            if text.utf8.count + piece.utf8.count > Self.pieceBytesMax, !text.isEmpty {
                try pg.query(
                    "INSERT INTO tidemark.piece VALUES ($1, $2::bigint, $3::int, $4)",
                    [zone, "\(revision)", "\(number)", text]
                )
                text = ""
                number = number + 1
            }
            text += piece
        }
        return text
    }

    /// Returns the log's entries for the coalesced changes, a JSON array.
    private func logEntries(at revision: Int64) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(\(Self.entry(revision: "?")))
                    FROM temp.tidemark_reduced AS change
                    """
            ),
            arguments: [revision]
        ) ?? "[]"
    }

    /// The log's entry of the coalesced change `change`, a JSON object.
    ///
    /// `before` has a hash of each replaced value that PostgreSQL reads in several spellings.
    static func entry(revision: String) -> String {
        """
        json_object('tbl', change.tbl, 'key', change.key, 'revision', \(revision), 'operation', change.operation,
            'columns', CASE change.operation WHEN 'update' THEN (
                SELECT json_group_array(\(MemberSQL.name(of: "name.key")))
                FROM json_each(change.attributes) AS name) END,
            'before', CASE change.operation WHEN 'update' THEN (
                SELECT nullif(json_group_object(type.col, tidemark_hash(change.before -> type.spelled_path)), '{}')
                FROM temp.tidemark_postgres_type AS type
                WHERE type.tbl = change.tbl AND type.spelled_path IS NOT NULL
                    AND json_type(change.attributes, type.spelled_path) IS NOT NULL) END,
            'unlogged', change.unlogged)
        """
    }

    /// The server's time of a commit, which is never before the time of the previous revision.
    static func committed(_ now: Int, revision: String) -> String {
        """
        greatest($\(now)::bigint, (SELECT latest.committed FROM tidemark.revision AS latest
            WHERE latest.zone = $1 AND latest.revision = \(revision) - 1))
        """
    }

    /// A derived table of log entries in a parameter.
    static func entries(_ parameter: Int) -> String {
        """
        jsonb_to_recordset($\(parameter)::jsonb)
            AS sent (tbl text, key text, revision bigint, operation text, columns text, before text,
                unlogged text)
        """
    }

    /// The end of a statement that logs the entries of its common table `entry`, and counts their ids.
    static func insertEntries(integerTables: Int) -> String {
        """
        logged AS (
            INSERT INTO tidemark.log (zone, tbl, key, revision, operation, columns, before, unlogged)
            SELECT $1, tbl, key, revision, operation, columns, before, unlogged
            FROM entry
        )
        INSERT INTO tidemark.identity AS stored (zone, tbl, next)
        SELECT $1, tbl, max(key::bigint) + 1
        FROM entry
        WHERE CASE WHEN tbl = ANY ($\(integerTables)::text[]) THEN key::bigint <= \(TemporaryID.assignedMax) END
        GROUP BY tbl
        ON CONFLICT (zone, tbl) DO UPDATE SET next = greatest(stored.next, excluded.next)
        """
    }

    /// The tables with ids from the server, as an array literal of PostgreSQL.
    var integerTables: String { PostgresArray.quoted(schema.tables.filter { $0.keyKind == .integer }.map(\.name)) }

    func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        try pg.query(
            """
            SELECT EXISTS (SELECT 1 FROM tidemark.revision WHERE zone = $1
                AND revision > $2::bigint AND revision <= $3::bigint AND device = $4)
            """,
            [zoneName, "\(revision)", "\(last)", device]
        )[0].isTrue(0)
    }

    func catchUp(_ missed: MissedRevisions) throws -> CatchUp {
        guard missed.after < missed.through else { return CatchUp(bodies: [], revision: missed.after, hasMore: false) }
        // One row beyond the limit tells whether more revisions follow. The sum of the lengths may end
        // the list earlier, and a body beyond it is not read.
        let rows = try pg.query(
            """
            SELECT revision, bytes, whole, ids,
                CASE WHEN bytes <= $6::bigint OR $7::boolean AND bytes = octet_length(body) THEN body END,
                device, chain, previous
            FROM (
                SELECT *, sum(octet_length(body)) OVER (ORDER BY revision) AS bytes
                FROM (
                    SELECT entry.revision, own.body AS whole, own.ids, entry.body, entry.device, entry.chain,
                        coalesce(nullif(before.chain, ''),
                            CASE WHEN entry.revision - 1 <= zone.adopted THEN '' END) AS previous
                    FROM tidemark.revision AS entry
                    JOIN tidemark.zone AS zone ON zone.zone = entry.zone
                    LEFT JOIN tidemark.revision AS before
                        ON before.zone = entry.zone AND before.revision = entry.revision - 1
                    LEFT JOIN tidemark.verdict AS own
                        ON own.zone = entry.zone AND own.id = entry.id AND own.device = $4
                    WHERE entry.zone = $1 AND entry.revision > $2::bigint AND entry.revision <= $3::bigint
                    ORDER BY entry.revision
                    LIMIT $5::int
                ) AS page
            ) AS measured
            WHERE bytes - octet_length(body) <= $6::bigint
            ORDER BY revision
            """,
            [
                zoneName, "\(missed.after)", "\(missed.through)", missed.device, "\(missed.limit + 1)",
                "\(missed.bytesMax)", "\(missed.bringsFirst)",
            ]
        )
        var bodies = [String]()
        var reached = missed.after
        for row in rows.map({ $0 }) {
            let fits = bodies.count < missed.limit && row.integer(1) ?? 0 <= missed.bytesMax
            guard bodies.isEmpty && missed.bringsFirst || fits else {
                return CatchUp(bodies: bodies, revision: reached, hasMore: true)
            }
            guard row.integer(0) == reached + 1, Self.isAuthentic(row) else { throw DamagedLog(revision: reached + 1) }
            let copy = AuthorsCopy(whole: row[2], ids: row[3], logged: row[4])
            bodies.append(try copy.render())
            reached += 1
        }
        // A first body above the limit is the only row.
        let isCut = rows.count == 1 && rows[0].integer(1) ?? 0 > missed.bytesMax
        guard reached == missed.through || isCut else { throw DamagedLog(revision: reached + 1) }
        return CatchUp(bodies: bodies, revision: reached, hasMore: reached < missed.through)
    }

    /// Checks by its hash that a row of ``catchUp(_:)`` has the change set as it was committed.
    private static func isAuthentic(_ row: PostgresRows.Row) -> Bool {
        guard let body = row[4], let previous = row[7] else { return row[4]?.isEmpty == false }
        return row.text(6)
            == RecentChangeSet.chain(after: previous, revision: row.integer(0) ?? 0, device: row[5], body: body)
    }
}
