import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// The log: what a commit changed, as JSON ready to send, made once from the rows by the database.
extension ZoneTransaction {
    package func log(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> LoggedChangeSet {
        var answer = answerEnvelope(envelope.id, revision, stamp)
        answer.overruled = try takeOverruled(revision: revision, author: stamp.device)
        if let range = try ReduceCapture.settled(schema, in: db) {
            try ReduceCapture.reduce(range, schema: schema, in: db)
            try logReduced(id: envelope.id, stamp: stamp, revision: revision)
            try ReduceCapture.forget(range, schema: schema, in: db)
        } else {
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
            let members = answerEnvelope(envelope.id, revision, stamp).members
            try insertRevision(revision, envelope.id, stamp) { take in
                try ChangeSetJSON.render(envelope: members, [], in: db, take: take)
            }
            try carryFingerprint(to: revision, adding: .none)
        }
        let logged = try staged.logged(answer, revision: revision, ord: envelope.ord)
        try keep(envelope, device: stamp.device, revision: revision, logged)
        return logged
    }

    package func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String {
        try staged.renderReduced(
            answerEnvelope(envelope.id, revision, stamp),
            revision: revision,
            authorOf: envelope.ord
        )
    }

    /// The envelope of an accepted change set; the time travels where somebody needs it.
    private func answerEnvelope(_ id: String?, _ revision: Int64, _ stamp: Stamp) -> AnswerEnvelope {
        AnswerEnvelope(id: id, revision: revision, time: schema.needsTimes ? stamp.time : nil)
    }

    /// Logs the reduced changes.
    func logReduced(id: String?, stamp: Stamp, revision: Int64) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_log (tbl, key, revision, operation, columns)
                SELECT tbl, key, ?, operation, CASE operation WHEN 'update'
                    THEN (SELECT json_group_array(j.key) FROM json_each(attributes) AS j) END
                FROM temp.tidemark_reduced
                """
        ).execute(arguments: [revision])
        try retireIds()
        try insertRevision(revision, id, stamp) { take in
            let envelope = answerEnvelope(id, revision, stamp)
            try staged.renderReduced(envelope, revision: revision, take: take)
        }
        try carryFingerprint(to: revision, adding: RowFingerprints(db, schema: schema).reduced())
    }

    /// Keeps the ids that records have, or had, from ever being given again: whoever still refers
    /// to a deleted record must not find another in its place.
    func retireIds() throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_identity (tbl, next)
                SELECT r.tbl, max(CAST(r.key AS INTEGER)) + 1 FROM temp.tidemark_reduced AS r
                JOIN temp.tidemark_table AS t ON t.tbl = r.tbl AND t.kind = 'integer'
                WHERE true GROUP BY r.tbl
                ON CONFLICT (tbl) DO UPDATE SET next = max(next, excluded.next)
                """
        ).execute()
    }

    /// Adds a change set, whose text `render` hands over in ``TextPieces``.
    private func insertRevision(
        _ revision: Int64,
        _ id: String?,
        _ stamp: Stamp,
        render: (_ take: @escaping (_ number: Int, _ piece: String) throws -> Void) throws -> Void
    ) throws {
        var chain = Chain(after: try chain(at: revision - 1), revision: revision)
        var beginning = ""
        try render { number, piece in
            chain.take(piece)
            if number == 0 { beginning = piece } else { try RevisionText.keep(number, piece, of: revision, in: db) }
        }
        let text = chain.text(device: stamp.device)
        try insertRevision(revision, id, stamp, beginning, chain: text)
        try db.cachedStatement(sql: "UPDATE tidemark_zone SET time = max(time, ?)").execute(arguments: [stamp.time])
    }

    /// Adds a change set to the log, with the hash of the history up to it.
    func insertRevision(_ revision: Int64, _ id: String?, _ stamp: Stamp, _ body: String, chain: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_revision (revision, id, device, time, body, chain)
                VALUES (?, ?, ?, ?, ?, ?)
                """
        ).executeLettingGo(arguments: [revision, id, stamp.device, stamp.time, body, chain])
    }

    package func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM tidemark_revision
                        WHERE revision > ? AND revision <= ? AND device = ?)
                    """
            ),
            arguments: [revision, last, device]
        ) ?? false
    }

    package func catchUp(_ missed: MissedRevisions) throws -> CatchUp {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns), v.body AS whole, v.ids
                    FROM tidemark_revision AS r \(LogEntry.previousEntry) LEFT JOIN tidemark_verdict AS v ON v.id = r.id AND v.device = ?
                    WHERE r.revision > ? AND r.revision <= ? ORDER BY r.revision
                    """
            ),
            arguments: [missed.device, missed.after, missed.through]
        )
        var bodies = [String]()
        var bytes = 0
        var reached = missed.after
        while let row = try rows.next() {
            let beginning = try row.value("body") as String?
            let rest = try row.value("rest") as Int?
            if !missed.bringsFirst, (beginning?.utf8.count ?? 0) + (rest ?? 0) > missed.bytesMax {
                return CatchUp(bodies: bodies, revision: reached, hasMore: true)
            }
            let entry = try LogEntry(row, in: db)
            guard entry.revision == reached + 1, entry.isAuthentic else { throw DamagedLog(revision: reached + 1) }
            let copy = AuthorsCopy(whole: try row.value("whole"), ids: try row.value("ids"), logged: entry.body)
            let body = try copy.render()
            bytes += body.utf8.count
            if planted(PlantedBug.countsRevisionThatDidNotFit) { reached = try row.value("revision") }
            guard bodies.isEmpty || bodies.count < missed.limit && bytes <= missed.bytesMax else {
                return CatchUp(bodies: bodies, revision: reached, hasMore: true)
            }
            bodies.append(body)
            reached = try row.value("revision")
        }
        guard reached >= missed.through else { throw DamagedLog(revision: reached + 1) }
        return CatchUp(bodies: bodies, revision: reached, hasMore: false)
    }
}
