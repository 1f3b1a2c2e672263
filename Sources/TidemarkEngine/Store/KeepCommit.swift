package import TidemarkCore

/// Stores what a commit decides: revisions with their entries and texts, verdicts, exchanges, and used ids.
///
/// The capture triggers have told what changed, and the commit has decided what it means; this only writes it down.
/// Over a network all statements wait for the round trip of the commit.
extension CommitTransaction {
    /// Stores revisions and their verdicts, refusals, and the last exchanges with devices.
    ///
    /// No new record gets the id of one that the revisions have changed: a device that still refers to a deleted record
    /// must not reach another one.
    ///
    /// - Throws: ``Violation`` when a temporary id was used before.
    package func keep(_ commit: ZoneCommit) throws {
        if !commit.revisions.isEmpty { try keepRevisions(of: commit) }
        for refusal in commit.refusals { try keep(refusal, at: commit.committed) }
        let exchanges = commit.exchanges.sorted { $0.key < $1.key }
        try write(KeepSQL.exchanges, count: exchanges.count) { index in
            let (device, exchange) = exchanges[index]
            return [.text(device), .text(exchange.lap), .integer(exchange.revision), Value(ifAny: exchange.user)]
        }
    }

    private func keepRevisions(of commit: ZoneCommit) throws {
        let revisions = commit.revisions
        try keepPermanentIDs(of: revisions)
        try keepEntries(of: revisions)
        try keepTexts(of: revisions, at: commit.committed)
        try keep(revisions.compactMap { one in one.fingerprint.map { (one.revision, $0) } })
        let notes = try keepNotes(of: revisions)
        try keepVerdicts(on: revisions)
        try retireIDs(commit)
        var head = try head()
        guard let last = revisions.last else { return }
        head.state = head.state.with(revision: commit.zone.revision, time: max(head.state.time, commit.zone.time))
        head.chain = last.chain
        head.fingerprint = last.fingerprint
        head.notes = notes
        try keep(head)
    }

    /// Stores the zone's state.
    func keep(_ head: CommitHead) throws {
        books.head = head
        let state = head.state
        let numbers = [state.revision, state.horizon, state.time, head.notes].map { Value.integer($0) }
        try write(KeepSQL.zone, numbers)
    }

    // MARK: The log

    private func keepEntries(of revisions: [CommittedRevision]) throws {
        var created: [(place: Int, index: Int)] = []
        var changed: [(place: Int, index: Int)] = []
        for (place, revision) in revisions.enumerated() {
            for index in revision.entries.indices {
                if revision.entries[index].before == nil {
                    created.append((place, index))
                } else {
                    changed.append((place, index))
                }
            }
        }
        try write(KeepSQL.creations, count: created.count) { index in
            let revision = revisions[created[index].place]
            let entry = revision.entries[created[index].index]
            return [
                .text(schema.tables[entry.name.table].name), .text(entry.name.key), .integer(revision.revision),
                .text(Operation.create.rawValue),
            ]
        }
        try write(KeepSQL.changes, count: changed.count) { index in
            let revision = revisions[changed[index].place]
            let entry = revision.entries[changed[index].index]
            return values(of: entry, entry.before ?? [], in: revision.revision)
        }
    }

    /// The most bytes of a replaced value that the log keeps.
    private static var replacedBytesMax: Int { 1 << 20 }

    private func values(of entry: CommittedRevision.Entry, _ before: [Value], in revision: Int64) -> [Value] {
        let table = schema.tables[entry.name.table]
        let layout = schema.layouts[entry.name.table]
        let isUpdate = entry.operation == .update
        let columns = JSONText.array(entry.columns.map { JSONText.quote(table.columns[$0].name) })
        let places = isUpdate ? entry.columns : layout.valuePlaces
        return [
            .text(table.name), .text(entry.name.key), .integer(revision), .text(entry.operation.rawValue),
            isUpdate ? .text(columns) : .null,
            Value(ifAny: layout.object(before, of: places, bytesMax: Self.replacedBytesMax)),
        ]
    }

    /// Stores all pieces of a revision's text but the first, which it returns; some 1 MiB at once.
    private func keepRest(of revision: CommittedRevision) throws -> String {
        var first: String?
        var pieces: [String] = []
        var next: Int64 = 1
        func flush() throws {
            try write(KeepSQL.pieces, count: pieces.count) { index in
                [.integer(revision.revision), .integer(next + Int64(index)), .text(pieces[index])]
            }
            next += Int64(pieces.count)
            pieces = []
        }
        try revision.text.render { piece in
            guard first != nil else {
                first = piece
                return
            }
            pieces.append(piece)
            if pieces.count == 16 { try flush() }
        }
        try flush()
        return first ?? ""
    }

    /// Stores revisions with their texts, the hash of the history up to each, and the server's time.
    ///
    /// The server's time of a revision is never before that of the previous one, also when the clock goes back.
    private func keepTexts(of revisions: [CommittedRevision], at time: Int64) throws {
        let firsts = try revisions.map { try keepRest(of: $0) }
        try write(
            BookQuestion(
                KeepSQL.revisions,
                [.integer(time)],
                about: zip(revisions, firsts).map { revision, first in
                    [
                        .integer(revision.revision), Value(ifAny: revision.envelope?.id),
                        Value(ifAny: revision.stamp.device), .integer(revision.stamp.time),
                        .text(first), .text(revision.chain), Value(ifAny: revision.stamp.user),
                    ]
                }
            ))
    }

    /// Stores the notes for devices whose values other change sets overruled, and returns the number of the last one.
    private func keepNotes(of revisions: [CommittedRevision]) throws -> Int64 {
        let first = try head().notes
        let notes = revisions.flatMap { revision in revision.notes.map { (revision: revision.revision, note: $0) } }
        try write(KeepSQL.notes, count: notes.count) { index in
            let (revision, note) = notes[index]
            return [
                .text(note.device), .integer(first + Int64(index) + 1), .integer(revision), .text(note.records),
            ]
        }
        return first + Int64(notes.count)
    }

    // MARK: Fingerprints

    package func keep(_ fingerprint: Fingerprint, at revision: Int64) throws {
        if books.head?.state.revision == revision { books.head?.fingerprint = fingerprint }
        try keep([(revision, fingerprint)])
    }

    func keep(_ fingerprints: [(revision: Int64, fingerprint: Fingerprint)]) throws {
        for (revision, fingerprint) in fingerprints { books.fingerprints[revision] = fingerprint }
        try keep(fingerprints, layout: schema.fingerprintLayout)
    }

    // MARK: Verdicts

    private func keepVerdicts(on revisions: [CommittedRevision]) throws {
        guard !planted(PlantedBug.forgetsAcceptedVerdict) else { return }
        let verdicts = revisions.compactMap { revision in
            revision.envelope.flatMap { envelope in
                verdict(envelope, of: revision.stamp.device, text: revision.authorsCopy, revision: revision)
            }
        }
        let rows = planted(PlantedBug.forgetsVerdictOfSums) ? KeepSQL.laterVerdicts : KeepSQL.verdicts
        try write(rows, count: verdicts.count) { verdicts[$0] }
    }

    /// The row of a verdict; the log holds the rest of the text of an accepted change set.
    private func verdict(
        _ envelope: SyncRequest.Envelope, of device: String?, text: String?, revision: CommittedRevision? = nil
    ) -> [Value]? {
        guard let id = envelope.id else { return nil }
        return [
            .text(id), .text(envelope.hash), .text(JSONText.array(envelope.after.map { JSONText.quote($0) })),
            Value(ifAny: device), revision.map { .integer($0.revision) } ?? .null, Value(ifAny: text),
            Value(ifAny: revision?.ids), .integer(revision?.isAsSent == true ? 1 : 0),
        ]
    }

    /// Stores a refusal, and its records for people.
    private func keep(_ refusal: Refusal, at time: Int64) throws {
        if let verdict = verdict(refusal.envelope, of: refusal.device, text: refusal.text),
            !planted(PlantedBug.forgetsRefusal)
        {
            try write(KeepSQL.verdicts, count: 1) { _ in verdict }
        }
        guard let id = refusal.envelope.id else { return }
        try write(KeepSQL.refusal, [.text(id), .integer(time), .integer(refusal.base), Value(ifAny: refusal.sent)])
        // Those of devices go with the contacts of devices.
        if refusal.device == nil { try forgetOldRefusals() }
        if planted(PlantedBug.skipsRevision) {
            var head = try head()
            head.state = head.state.with(revision: head.state.revision + 1)
            try keep(head)
        }
    }

    // MARK: Ids

    private func keepPermanentIDs(of revisions: [CommittedRevision]) throws {
        let ids = revisions.flatMap { revision in
            revision.permanentIDs.compactMap { assigned in
                revision.stamp.device.map { (device: $0, name: assigned.name, id: assigned.id) }
            }
        }
        for assigned in ids { books.assigned[assigned.name.table, default: []].insert(assigned.id) }
        do {
            try write(KeepSQL.permanentIDs, count: ids.count) { index in
                let assigned = ids[index]
                let table = schema.tables[assigned.name.table].name
                return [.text(assigned.device), .text(table), .integer(assigned.name.id), .integer(assigned.id)]
            }
        } catch is DuplicateRow {
            let used = try ids.first { assigned in
                try permanentID(of: assigned.name, device: assigned.device).map { $0 != assigned.id } ?? false
            }
            throw Identities.usedTemporaryID(schema.tables[(used ?? ids[0]).name.table])
        }
    }

    /// Raises the next id of each table above the assigned ids and above all changed records.
    ///
    /// Ids that the server never assigns do not count.
    private func retireIDs(_ commit: ZoneCommit) throws {
        var next = commit.nextIDs
        lazy var lends = Result { try lendsOwnIDs }
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
        try write(KeepSQL.nextIDs, count: known.count) { index in
            [.text(schema.tables[known[index].key].name), .integer(known[index].value)]
        }
    }
}

extension BookDatabase {
    package func keep(_ fingerprints: [(revision: Int64, fingerprint: Fingerprint)], layout: String) throws {
        try write(KeepSQL.keepFingerprints, count: fingerprints.count) { index in
            [.integer(fingerprints[index].revision), .text(fingerprints[index].fingerprint.hex), .text(layout)]
        }
    }
}

extension Value {
    /// A text, or NULL.
    fileprivate init(ifAny text: String?) { self = text.map(Value.text) ?? .null }
}

private enum KeepSQL {
    static let zone = BookStatement("UPDATE {zone} SET revision = $2, horizon = $3, time = $4, notes = $5 WHERE {here}")

    static let creations = BookStatement(
        into: "{log}", ["tbl": "text", "key": "text", "revision": "bigint", "operation": "text"])
    static let changes = BookStatement(
        into: "{log}",
        [
            "tbl": "text", "key": "text", "revision": "bigint", "operation": "text", "columns": "text",
            "replaced": "text",
        ])

    static let pieces = BookStatement(
        into: "{main.tidemark_revision_rest|tidemark.piece}",
        ["revision": "bigint", "number": "integer", "text": "text"])
    /// PostgreSQL gets a long text in pieces, so that no program holds it whole; its row holds all of them.
    static let revisions = BookStatement(
        sqlite: """
            INSERT INTO {revision} (revision, id, device, time, body, chain, user_id, committed)
            SELECT asked.revision, asked.id, asked.device, asked.time, asked.body, asked.chain, asked.user_id,
                max($2, coalesce((SELECT committed FROM {revision} WHERE revision = asked.revision - 1), 0))
            FROM {asked}
            """,
        postgres: """
            WITH piece AS (
                DELETE FROM tidemark.piece WHERE zone = $1 RETURNING revision, number, text
            )
            INSERT INTO {revision} (zone, revision, id, device, time, body, chain, user_id, committed)
            SELECT $1, asked.revision, asked.id, asked.device, asked.time,
                asked.body || coalesce((
                    SELECT string_agg(piece.text, '' ORDER BY piece.number)
                    FROM piece
                    WHERE piece.revision = asked.revision), ''),
                asked.chain, asked.user_id,
                greatest($2::bigint, (
                    SELECT latest.committed
                    FROM {revision} AS latest
                    WHERE latest.zone = $1 AND latest.revision < asked.revision
                    ORDER BY latest.revision DESC
                    LIMIT 1))
            FROM {asked}
            """,
        about: [
            "revision": "bigint", "id": "text", "device": "text", "time": "bigint", "body": "text", "chain": "text",
            "user_id": "text",
        ])
    static let keepFingerprints = BookStatement(
        into: "{fingerprint}", ["revision": "bigint", "fingerprint": "text", "shape": "text"], key: "revision",
        update: "fingerprint = excluded.fingerprint, shape = excluded.shape")

    static let notes = BookStatement(
        into: "{overruled}", ["device": "text", "number": "bigint", "revision": "bigint", "records": "text"])

    private static let verdict: KeyValuePairs = [
        "id": "text", "hash": "text", "after": "text[]", "device": "text", "revision": "bigint", "body": "text",
        "ids": "text", "as_sent": "boolean",
    ]
    static let verdicts = BookStatement(into: "{verdict}", verdict)
    static let laterVerdicts = BookStatement(
        into: "{verdict}", verdict, key: "id",
        update: "hash = excluded.hash, revision = excluded.revision, body = excluded.body, ids = excluded.ids")

    // The transaction holds the zone's lock, so no other one takes the same number.
    static let refusal = BookStatement(
        """
        INSERT INTO {refused} ({|zone, }number, id, decided, base, sent)
        SELECT {|$1, }coalesce(max(number), 0) + 1, CAST($2 AS text), CAST($3 AS bigint), CAST($4 AS bigint),
            CAST($5 AS text)
        FROM {refused}
        WHERE {here}
        """)

    static let exchanges = BookStatement(
        into: "{lap}",
        ["device": "text", "lap": "text", "revision": "bigint", "user_id": "text"],
        key: "device",
        update: """
            lap = excluded.lap, revision = excluded.revision,
            user_id = coalesce(stored.user_id, excluded.user_id)
            """)
    static let permanentIDs = BookStatement(
        into: "{idmap}", ["device": "text", "tbl": "text", "temporary": "bigint", "permanent": "bigint"])
    static let nextIDs = BookStatement(
        into: "{identity}", ["tbl": "text", "next": "bigint"], key: "tbl",
        update: "next = {max|greatest}(stored.next, excluded.next)")
}
