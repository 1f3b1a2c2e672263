import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Stores revisions: their entries and texts, the verdicts on their change sets, and the ids that they use up.
extension ZoneTransaction {
    package func keep(_ commit: ZoneCommit) throws {
        if !commit.revisions.isEmpty { try keepRevisions(of: commit) }
        for refusal in commit.refusals { try keep(refusal) }
        try keep(commit.exchanges)
    }

    private func keepRevisions(of commit: ZoneCommit) throws {
        for revision in commit.revisions {
            try keepPermanentIDs(of: revision)
            try insert(revision.entries.filter { $0.before == nil }, of: revision.revision)
            for entry in revision.entries where entry.before != nil { try insert(entry, of: revision.revision) }
            try insert(revision)
            if let fingerprint = revision.fingerprint { try keepFingerprint(fingerprint, at: revision.revision) }
            for note in revision.notes {
                try BoundStatement(
                    "INSERT INTO tidemark_overruled (device, revision, records) VALUES (?, ?, ?)",
                    in: db
                ).run { row in
                    row.bind(note.device, at: 1)
                    row.bind(revision.revision, at: 2)
                    row.bind(note.records, at: 3)
                }
            }
            try keepVerdict(on: revision)
        }
        try retireIDs(commit)
        try BoundStatement("UPDATE tidemark_zone SET revision = ?, time = max(time, ?)", in: db).run { row in
            row.bind(commit.zone.revision, at: 1)
            row.bind(commit.zone.time, at: 2)
        }
    }

    private func keepPermanentIDs(of revision: CommittedRevision) throws {
        guard let device = revision.stamp.device, !revision.permanentIDs.isEmpty else { return }
        let ids = revision.permanentIDs
        do {
            try InsertRows("tidemark_idmap (device, tbl, temporary, permanent)", columns: 4, in: db).run(ids.count) {
                index,
                row in
                row.bind(device, at: 0)
                row.bind(schema.tables[ids[index].name.table].name, at: 1)
                row.bind(ids[index].name.id, at: 2)
                row.bind(ids[index].id, at: 3)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            let used = try ids.first {
                try permanentID(of: $0.name, device: device).map { [id = $0.id] in $0 != id } ?? false
            }
            throw Identities.usedTemporaryID(schema.tables[(used ?? ids[0]).name.table])
        }
    }

    // MARK: The log

    /// Adds the entries of new records.
    private func insert(_ created: [CommittedRevision.Entry], of revision: Int64) throws {
        try InsertRows("tidemark_log (tbl, key, revision, operation)", columns: 4, in: db).run(created.count) {
            index,
            row in
            row.bind(schema.tables[created[index].name.table].name, at: 0)
            row.bind(created[index].name.key, at: 1)
            row.bind(revision, at: 2)
            row.bind(Operation.create.rawValue, at: 3)
        }
    }

    /// Adds the entry of an updated or deleted record.
    private func insert(_ entry: CommittedRevision.Entry, of revision: Int64) throws {
        let table = schema.tables[entry.name.table]
        let columns = entry.columns.map { JSONText.quote(table.columns[$0].name) }
        try BoundStatement(
            """
            INSERT INTO tidemark_log (tbl, key, revision, operation, columns, unlogged)
            SELECT change.tbl, change.key, ?3, change.operation, ?5, \(UnloggedValues.sql)
            FROM (SELECT ?1 AS tbl, ?2 AS key, ?4 AS operation, ?5 AS columns, ?6 AS before) AS change
            """,
            in: db
        ).run { row in
            row.bind(table.name, at: 1)
            row.bind(entry.name.key, at: 2)
            row.bind(revision, at: 3)
            row.bind(entry.operation.rawValue, at: 4)
            if entry.operation == .update { row.bind(JSONText.array(columns), at: 5) }
            row.bind(entry.before.map(schema.layouts[entry.name.table].object), at: 6)
        }
    }

    /// Adds a revision with its text, the hash of the history up to it, and the server's time.
    ///
    /// The server's time of a revision is never before that of the previous one, also when the clock goes back.
    private func insert(_ revision: CommittedRevision) throws {
        try BoundStatement(
            """
            INSERT INTO tidemark_revision (revision, id, device, time, body, chain, user_id, committed)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
                max(?8, coalesce((SELECT committed FROM tidemark_revision WHERE revision = ?1 - 1), 0)))
            """,
            in: db
        ).run { row in
            row.bind(revision.revision, at: 1)
            row.bind(revision.envelope?.id, at: 2)
            row.bind(revision.stamp.device, at: 3)
            row.bind(revision.stamp.time, at: 4)
            row.bind(revision.text.first ?? "", at: 5)
            row.bind(revision.chain, at: 6)
            row.bind(revision.stamp.user, at: 7)
            row.bind(now, at: 8)
        }
        for (number, piece) in revision.text.enumerated().dropFirst() {
            try RevisionText.keep(number, piece, of: revision.revision, in: db)
        }
    }

    // MARK: Verdicts

    /// Stores the verdict on an accepted change set; the log holds the rest of its text.
    private func keepVerdict(on revision: CommittedRevision) throws {
        guard let envelope = revision.envelope, !planted(PlantedBug.forgetsAcceptedVerdict) else { return }
        try keep(envelope) { row in
            row.bind(revision.stamp.device, at: 4)
            row.bind(revision.revision, at: 5)
            row.bind(revision.authorsCopy, at: 6)
            row.bind(revision.ids, at: 7)
            row.bind(revision.isAsSent ? 1 : 0, at: 8)
        }
    }

    private func keep(_ refusal: Refusal) throws {
        if !planted(PlantedBug.forgetsRefusal) {
            try keep(refusal.envelope) { row in
                row.bind(refusal.device, at: 4)
                row.bind(refusal.text, at: 6)
                row.bind(0, at: 8)
            }
        }
        try keepSent(refusal)
        try runPlanted(PlantedBug.skipsRevision, in: db)
    }

    private func keep(_ envelope: SyncRequest.Envelope, _ bind: (BoundStatement) -> Void) throws {
        guard let id = envelope.id else { return }
        let conflict = planted(PlantedBug.forgetsVerdictOfSums) ? "OR REPLACE" : ""
        try BoundStatement(
            """
            INSERT \(conflict) INTO tidemark_verdict (id, hash, after, device, revision, body, ids, as_sent)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            in: db
        ).run { row in
            row.bind(id, at: 1)
            row.bind(envelope.hash, at: 2)
            row.bind(JSONText.array(envelope.after.map { "\"\($0)\"" }), at: 3)
            bind(row)
        }
    }

    /// Keeps the records of a refused change set for people, and forgets those of the oldest one beyond the maximum.
    private func keepSent(_ refusal: Refusal) throws {
        guard let id = refusal.envelope.id else { return }
        try BoundStatement("INSERT INTO tidemark_refused (id, decided, base, sent) VALUES (?, ?, ?, ?)", in: db).run {
            row in
            row.bind(id, at: 1)
            row.bind(now, at: 2)
            row.bind(refusal.base, at: 3)
            row.bind(refusal.sent, at: 4)
        }
        let oldest = db.lastInsertedRowID - Int64(Self.refusedMax)
        guard oldest > 0 else { return }
        try BoundStatement("DELETE FROM tidemark_refused WHERE number <= ?", in: db).run { $0.bind(oldest, at: 1) }
    }

    /// The most refused change sets of a zone that the server keeps for people.
    private static let refusedMax = 10_000

    private func keep(_ exchanges: [String: Exchange]) throws {
        for (device, exchange) in exchanges.sorted(by: { $0.key < $1.key }) {
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_lap (device, lap, revision, user_id) VALUES (?, ?, ?, ?)
                    ON CONFLICT (device) DO UPDATE SET
                        lap = excluded.lap,
                        revision = excluded.revision,
                        user_id = coalesce(user_id, excluded.user_id)
                    """
            ).execute(arguments: [device, exchange.lap, exchange.revision, exchange.user])
        }
    }

    // MARK: Ids

    /// Raises the next id of each table above the assigned ids and above all changed records.
    ///
    /// Ids that the store never assigns do not count.
    private func retireIDs(_ commit: ZoneCommit) throws {
        var next = commit.nextIDs
        lazy var lends = Result { try lendsIDs }
        for revision in commit.revisions {
            for entry in revision.entries where schema.tables[entry.name.table].keyKind == .integer {
                guard let id = Int64(entry.name.key), id <= TemporaryID.assignedMax,
                    id >= next[entry.name.table] ?? .min,
                    try !lends.get() || IDLayout.isOwn(id)
                else { continue }
                next[entry.name.table] = id + 1
            }
        }
        let known = next.sorted { $0.key < $1.key }
        let raise = "ON CONFLICT (tbl) DO UPDATE SET next = max(next, excluded.next)"
        try InsertRows("tidemark_identity (tbl, next)", columns: 2, raise, in: db).run(known.count) { index, row in
            row.bind(schema.tables[known[index].key].name, at: 0)
            row.bind(known[index].value, at: 1)
        }
    }
}
