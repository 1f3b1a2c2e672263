import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// The log: each commit's changes as JSON ready to send. SQLite renders the JSON once, from the rows.
extension ZoneTransaction {
    package func log(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> LoggedChangeSet {
        var answer = answerEnvelope(envelope.id, revision: revision, stamp: stamp)
        answer.overruled = try takeOverruled(revision: revision, author: stamp.device)
        if let range = try ReduceCapture.collectPending(schema, in: db) {
            try ReduceCapture.reduce(range, schema: schema, in: db)
            try logReduced(id: envelope.id, stamp: stamp, revision: revision)
            try ReduceCapture.deleteCaptures(range, schema: schema, in: db)
        } else {
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
            let members = answerEnvelope(envelope.id, revision: revision, stamp: stamp).members
            try insertRevision(revision, id: envelope.id, stamp: stamp) { take in
                try ChangeSetJSON.render(envelope: members, [], in: db, take: take)
            }
            try carryFingerprint(to: revision, adding: .none)
        }
        let loggedChangeSet = try staged.makeLoggedChangeSet(answer, revision: revision, ord: envelope.ord)
        try keep(envelope, device: stamp.device, revision: revision, loggedChangeSet)
        return loggedChangeSet
    }

    package func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String {
        try staged.renderEffect(
            answerEnvelope(envelope.id, revision: revision, stamp: stamp),
            revision: revision,
            authorOf: envelope.ord
        )
    }

    /// Builds the envelope of an accepted change set, with the time only if a policy needs it.
    private func answerEnvelope(_ id: String?, revision: Int64, stamp: Stamp) -> AnswerEnvelope {
        AnswerEnvelope(id: id, revision: revision, time: schema.needsTimes ? stamp.time : nil)
    }

    /// Logs the coalesced changes as a revision.
    func logReduced(id: String?, stamp: Stamp, revision: Int64) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_log (tbl, key, revision, operation, columns, unlogged)
                SELECT change.tbl, change.key, ?, change.operation,
                    CASE change.operation WHEN 'update' THEN (
                        SELECT json_group_array(\(MemberSQL.name(of: "attribute.key")))
                        FROM json_each(change.attributes) AS attribute) END,
                    \(UnloggedValues.sql)
                FROM temp.tidemark_reduced AS change
                """
        ).execute(arguments: [revision])
        try retireIds()
        try insertRevision(revision, id: id, stamp: stamp) { take in
            let envelope = answerEnvelope(id, revision: revision, stamp: stamp)
            try staged.renderEffect(envelope, revision: revision, take: take)
        }
        try carryFingerprint(to: revision, adding: RowFingerprints(db, schema: schema).reducedDifference())
    }

    /// Raises the next id of each table above all changed records, so that no id is used twice.
    ///
    /// A device that still refers to a deleted record must not reach another record. Ids that the store
    /// never assigns do not count.
    func retireIds() throws {
        let isAssigned = try lendsIDs ? IDLayout.isOwnSQL("CAST(change.key AS INTEGER)") : "true"
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_identity (tbl, next)
                SELECT change.tbl, max(CAST(change.key AS INTEGER)) + 1
                FROM temp.tidemark_reduced AS change
                JOIN temp.tidemark_table AS synced_table
                    ON synced_table.tbl = change.tbl AND synced_table.kind = 'integer'
                WHERE CAST(change.key AS INTEGER) <= \(TemporaryID.assignedMax) AND \(isAssigned)
                GROUP BY change.tbl
                ON CONFLICT (tbl) DO UPDATE SET next = max(next, excluded.next)
                """
        ).execute()
    }

    /// Adds a change set to the log; `render` delivers its text in ``TextPieces``.
    private func insertRevision(
        _ revision: Int64,
        id: String?,
        stamp: Stamp,
        render: (_ take: @escaping (_ number: Int, _ piece: String) throws -> Void) throws -> Void
    ) throws {
        var chain = Chain(after: try chain(at: revision - 1), revision: revision)
        var beginning = ""
        try render { number, piece in
            chain.take(piece)
            if number == 0 { beginning = piece } else { try RevisionText.keep(number, piece, of: revision, in: db) }
        }
        let text = chain.text(device: stamp.device)
        try insertRevision(revision, id: id, stamp: stamp, body: beginning, chain: text)
        try db.cachedStatement(sql: "UPDATE tidemark_zone SET time = max(time, ?)").execute(arguments: [stamp.time])
    }

    /// Adds a change set to the log, with the hash of the history up to it and the server's time.
    ///
    /// The server's time of a revision is never before that of the previous one, also when the clock goes back.
    func insertRevision(_ revision: Int64, id: String?, stamp: Stamp, body: String, chain: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_revision (revision, id, device, time, body, chain, user_id, committed)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
                    max(?8, coalesce((SELECT committed FROM tidemark_revision WHERE revision = ?1 - 1), 0)))
                """
        ).executeAndClearBindings(arguments: [revision, id, stamp.device, stamp.time, body, chain, stamp.user, now])
    }

    package func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1
                        FROM tidemark_revision
                        WHERE revision > ? AND revision <= ? AND device = ?)
                    """
            ),
            arguments: [revision, last, device]
        ) ?? false
    }

    package func catchUp(_ request: MissedRevisions) throws -> CatchUp {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns), verdict.body AS whole, verdict.ids
                    FROM tidemark_revision AS log_entry
                    \(LogEntry.previousEntry)
                    LEFT JOIN tidemark_verdict AS verdict
                        ON verdict.id = log_entry.id AND verdict.device = ?
                    WHERE log_entry.revision > ? AND log_entry.revision <= ?
                    ORDER BY log_entry.revision
                    """
            ),
            arguments: [request.device, request.after, request.through]
        )
        var bodies = [String]()
        var bytes = 0
        var lastRevision = request.after
        while let row = try rows.next() {
            let beginning = try row.value("body") as String?
            let rest = try row.value("rest") as Int?
            if !request.bringsFirst, (beginning?.utf8.count ?? 0) + (rest ?? 0) > request.bytesMax {
                return CatchUp(bodies: bodies, revision: lastRevision, hasMore: true)
            }
            let entry = try LogEntry(row, in: db)
            guard entry.revision == lastRevision + 1, entry.isAuthentic else {
                throw DamagedLog(revision: lastRevision + 1)
            }
            let copy = AuthorsCopy(whole: try row.value("whole"), ids: try row.value("ids"), logged: entry.body)
            let body = try copy.render()
            bytes += body.utf8.count
            if planted(PlantedBug.countsRevisionThatDidNotFit) { lastRevision = try row.value("revision") }
            guard bodies.isEmpty || bodies.count < request.limit && bytes <= request.bytesMax else {
                return CatchUp(bodies: bodies, revision: lastRevision, hasMore: true)
            }
            bodies.append(body)
            lastRevision = try row.value("revision")
        }
        guard lastRevision >= request.through else { throw DamagedLog(revision: lastRevision + 1) }
        return CatchUp(bodies: bodies, revision: lastRevision, hasMore: false)
    }
}
