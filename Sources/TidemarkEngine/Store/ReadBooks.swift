package import TidemarkCore

extension BookDatabase {
    /// Reads the zone's state, and what belongs to its latest revision; nil without a zone.
    ///
    /// `schema` is the hash of its schema, and `layout` identifies the columns of fingerprints.
    package func head(schema: String, layout: String) throws -> CommitHead? {
        try rows(HeadSQL.head, [.text(layout), .null]).first.map { try CommitHead($0, schema: schema) }
    }

    /// Reads the zone's head for a device, in one round trip; nil if changes of other programs are not logged yet.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownZone`` without a zone.
    package func zoneHead(for device: String?, schema: String, layout: String) throws -> ZoneHead? {
        let device = device.map(Value.text) ?? .null
        let answers = try answers([
            BookQuestion(HeadSQL.head, [.text(layout), .null]),
            BookQuestion(HeadSQL.messages, [device, .text(Exchange.forgottenLap)]),
        ])
        guard let row = answers[0].first else { throw TidemarkError.unknownZone }
        let head = try CommitHead(row, schema: schema)
        guard !head.hasOutsideChanges else { return nil }
        return ZoneHead(
            state: head.state, fingerprint: head.fingerprint, chain: head.chain,
            hasMessages: answers[1].first?.isTrue(0) ?? false, lastNoteRevision: row.integer(10))
    }

    /// Whether notes of overruled values wait for a device, or the server has forgotten it.
    package func hasMessages(for device: String) throws -> Bool {
        try rows(HeadSQL.messages, [.text(device), .text(Exchange.forgottenLap)]).first?.isTrue(0) ?? false
    }
}

extension CommitHead {
    fileprivate init(_ row: BookRow, schema: String) throws {
        self.init(
            state: ZoneState(
                epoch: try row.text(0), revision: try row.number(1), horizon: try row.number(2), schema: schema,
                time: try row.number(3)), chain: row[6] ?? "", fingerprint: row[7].flatMap(Fingerprint.init(hex:)),
            hasOutsideChanges: row.isTrue(8), adopted: try row.number(4), notes: try row.number(5))
    }
}

extension CommitTransaction {
    /// Returns the zone's state.
    package func head() throws -> CommitHead {
        if let head = books.head { return head }
        guard let head = try head(schema: books.schema, layout: schema.fingerprintLayout) else {
            throw TidemarkError.unknownZone
        }
        books.head = head
        return head
    }

    /// Reads what the books say about several requests, in one round trip; the first question of a transaction.
    package func facts(_ query: FactsQuery) throws -> Facts {
        let layout = schema.fingerprintLayout
        // A revision far ahead is refused; the sum with it must not overflow.
        let oldest = query.oldest.map { min($0, 1 << 60) }
        var questions = [BookQuestion(HeadSQL.head, [.text(layout), oldest.map(Value.integer) ?? .null])]
        if let oldest {
            questions += [
                BookQuestion(FactsSQL.devices, about: query.devices.sorted().map { [.text($0)] }),
                BookQuestion(FactsSQL.verdicts, about: query.changeSets.map { [.text($0)] }),
                BookQuestion(FactsSQL.permanentIDs, about: temporaryIDs(query)),
            ]
            if !ways.isLocal { questions.append(BookState.recent(after: oldest, layout: layout)) }
        }
        let answers = try answers(questions)
        guard let row = answers[0].first else { throw TidemarkError.unknownZone }
        let head = try CommitHead(row, schema: books.schema)
        books.head = head
        books.fingerprints[head.state.revision] = head.fingerprint
        guard let oldest else { return Facts() }
        if oldest != head.state.revision { books.fingerprints[oldest] = row[9].flatMap(Fingerprint.init(hex:)) }
        if !ways.isLocal { try books.take(recent: answers[4]) }
        return try facts(devices: answers[1], verdicts: answers[2], permanentIDs: answers[3])
    }

    private func facts(devices: [BookRow], verdicts: [BookRow], permanentIDs: [BookRow]) throws -> Facts {
        var facts = Facts()
        for row in devices {
            let device = try row.text(0)
            if row.isTrue(4) { facts.devicesWithNotes.insert(device) }
            guard let lap = row[1] else { continue }
            facts.exchanges[device] = Exchange(lap: lap, revision: try row.number(2), user: row[3])
        }
        for row in verdicts {
            facts.verdicts[try row.text(0)] = Verdict(
                device: row[1], hash: try row.text(2), revision: row.integer(3), isAsSent: row.isTrue(4), owner: row[5])
        }
        for row in permanentIDs {
            guard let table = schema.places[try row.text(1)] else { continue }
            let name = TemporaryName(table: table, id: try row.number(2))
            facts.permanentIDs[try row.text(0), default: [:]][name] = try row.number(3)
        }
        return facts
    }

    /// The temporary ids of a query as rows of device, table and id.
    private func temporaryIDs(_ query: FactsQuery) -> [[Value]] {
        var wanted = query.temporaryIDs.mapValues(Array.init)
        if !ways.isLocal { wanted.merge(query.newTemporaryIDs, uniquingKeysWith: +) }
        return wanted.flatMap { device, names in
            names.map { [.text(device), .text(schema.tables[$0.table].name), .integer($0.id)] }
        }
    }

    /// Returns the permanent id that a device got for a temporary one; nil if it has none.
    func permanentID(of name: TemporaryName, device: String) throws -> Int64? {
        let name = [Value.text(device), .text(schema.tables[name.table].name), .integer(name.id)]
        return try rows(BookQuestion(FactsSQL.permanentIDs, about: [name])).first?.integer(3)
    }

    /// Returns the last revision of each record; for a record without one, that of the zone's first rows.
    ///
    /// - Throws: ``Overtaken`` if another program has committed a change of one of them that no revision has: its row
    ///   would not match the revision.
    package func revisions(of names: [RecordID]) throws -> [RecordID: Int64] {
        let records = names.map { [Value.text(schema.tables[$0.table].name), .text($0.key)] }
        let adopted = try head().adopted
        var revisions: [RecordID: Int64] = [:]
        for row in try rows(BookQuestion(FactsSQL.lastRevisions, about: records)) {
            if row.isTrue(2) { throw Overtaken() }
            revisions[names[Int(try row.number(0)) - 1]] = row.integer(1) ?? adopted
        }
        return revisions
    }

    /// Returns the records about which the author of a change does not know everything, with their changes since.
    package func contended(_ changes: [Int: BasedChange]) throws -> [Int: ContendedRecord] {
        let found = try changes.isEmpty ? [:] : records(.contended(changes)).contended
        let indexes = found.keys.sorted()
        let entries = try laterEntries(indexes.compactMap { changes[$0] })
        return zip(indexes, entries).reduce(into: [:]) { contended, one in
            guard let (exists, row) = found[one.0] else { return }
            contended[one.0] = ContendedRecord(exists: exists, row: row, changes: one.1)
        }
    }

    /// Returns those of changed records that have changed after a base, without their rows, by the change's index.
    func laterChanges(_ changes: [BasedChange]) throws -> [Int: ContendedRecord] {
        try laterEntries(changes).enumerated().reduce(into: [:]) { later, one in
            guard !one.element.isEmpty else { return }
            later[one.offset] = ContendedRecord(exists: true, row: nil, changes: one.element)
        }
    }

    /// Returns the log's entries of the record of each change after its base, oldest first.
    private func laterEntries(_ changes: [BasedChange]) throws -> [[LoggedChange]] {
        var entries: [[LoggedChange]] = changes.map { _ in [] }
        let records = changes.map { change in
            let isSpelled = !ways.tables[change.name.table].spelledColumns.isEmpty
            return [
                Value.text(schema.tables[change.name.table].name), .text(change.name.key), .integer(change.base),
                .integer(isSpelled ? 1 : 0),
            ]
        }
        for row in try rows(BookQuestion(FactsSQL.laterEntries, about: records)) {
            let index = Int(try row.number(0)) - 1
            let operation = Operation(rawValue: try row.text(2)) ?? .update
            let columns = Set(row[3].map { Value.parts(ofKey: $0).compactMap(\.text) } ?? [])
            // The first values of a computed column arrive when it is added.
            let computed = ways.tables[changes[index].name.table].computedColumns
            guard operation != .update || computed.isEmpty || !columns.isSubset(of: computed) else { continue }
            entries[index].append(
                LoggedChange(
                    revision: try row.number(1), isMerged: row.isTrue(4),
                    hidesOthers: row.isTrue(4) && row.integer(8) ?? .max > changes[index].base,
                    change: UnseenChange(
                        operation: operation, columns: columns,
                        stamp: Stamp(time: row.integer(5) ?? 0, device: row[6])),
                    replacedHashes: LogRecord.values(row[7]).mapValues(JSONText.unquote)))
        }
        return entries
    }

    /// Whether devices create records under ids from the range in which the server assigns its own.
    var lendsOwnIDs: Bool { get throws { try ways.isLocal && rows(FactsSQL.lendsOwnIDs).first?.isTrue(0) ?? false } }

    /// Whether a record that does not exist has existed.
    ///
    /// Compaction removes the entries of deleted records, but an id below the next one was a record's.
    package func wasDeleted(_ table: String, _ key: String) throws -> Bool {
        let head = try head()
        let isAssigned = schema.byName[table]?.keyKind == .integer && head.state.horizon > head.adopted
        let id = isAssigned ? Int64(key).map(Value.integer) ?? .null : .null
        return try rows(FactsSQL.wasDeleted, [.text(table), .text(key), id]).first?.isTrue(0) ?? false
    }

    /// Returns the last revision of an earlier epoch; nil if the zone never had this epoch.
    package func end(of epoch: String) throws -> Int64? {
        try rows(FactsSQL.endOfEpoch, [.text(epoch)]).first?.integer(0)
    }

    /// Whether a change set of a device is among these revisions.
    package func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        try rows(FactsSQL.hasRevision, [.integer(revision), .integer(last), .text(device)]).first?.isTrue(0) ?? false
    }

    /// Returns the fingerprint of the zone's rows at a revision; nil when it is no longer stored.
    ///
    /// The fingerprint of the latest revision is always available. The adoption of the tables computes it from the
    /// rows, and each commit updates it by the commit's changes. It is valid for one layout of columns: with others,
    /// rows have other hashes, and the first request for it computes it again.
    package func fingerprint(at revision: Int64) throws -> Fingerprint? {
        if let known = books.fingerprints[revision] { return known }
        if let stored = try storedFingerprint(at: revision) { return stored }
        guard try head().state.revision == revision else { return nil }
        return try recomputeFingerprint()
    }

    /// Computes the fingerprint of the latest revision from all rows, and stores it.
    @discardableResult package func recomputeFingerprint() throws -> Fingerprint {
        // Log and tables differ only if a program wrote without the triggers. Devices get the rows
        // of the tables, so the fingerprint covers the tables.
        let computed = try fingerprintOfRows()
        try keep(computed, at: head().state.revision)
        return computed
    }

    private func fingerprintOfRows() throws -> Fingerprint {
        var sum = Fingerprint.none
        for table in schema.tables {
            let query = FingerprintQuery(table, where: nil, in: [KeyRange(table: table.name)])
            sum = try fingerprints(query).reduce(sum) { $0 + $1.fingerprint }
        }
        // Rows that no revision has are not in the fingerprint of one.
        guard !ways.isLocal, let head = try head(schema: books.schema, layout: schema.fingerprintLayout),
            head.hasOutsideChanges
        else { return sum }
        throw Overtaken()
    }

    /// Returns the stored fingerprint of a revision, if there is one.
    package func storedFingerprint(at revision: Int64) throws -> Fingerprint? {
        try rows(FactsSQL.fingerprint, [.text(schema.fingerprintLayout), .integer(revision)]).first?[0]
            .flatMap(Fingerprint.init(hex:))
    }

    /// Returns the author's copies of change sets with a verdict: JSON by id.
    ///
    /// With the extent `ids`, a change set committed as sent has only the ids of new records.
    package func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String] {
        let verdicts = try rows(BookQuestion(FactsSQL.copies, about: ids.map { [.text($0)] }))
        let revisions = verdicts.compactMap { row in
            row[2] != nil || extent == .ids && row.isTrue(4) ? nil : row.integer(1)
        }
        let texts = try revisions.isEmpty ? [:] : changeSets(of: revisions)
        return try verdicts.reduce(into: [:]) { copies, row in
            let copy = AuthorsCopy(whole: row[2], ids: row[3], logged: row.integer(1).flatMap { texts[$0] })
            copies[try row.text(0)] = try copy.render()
        }
    }

    /// Returns the revisions of change sets and of all their ancestors.
    ///
    /// - Throws: `predecessorMissing` when one is unknown.
    package func ancestry(of ids: [String]) throws -> Ancestry {
        guard !ids.isEmpty, !planted(PlantedBug.ignoresAfter) else { return Ancestry() }
        let list = JSONText.array(ids.map { JSONText.quote($0) })
        var revisions: [Int64] = []
        var isRefused = false
        var missing = Set(ids)
        for row in try rows(FactsSQL.ancestry, [.text(list)]) {
            let isDirect = missing.remove(try row.text(0)) != nil
            if let revision = row.integer(1) { revisions.append(revision) } else if isDirect { isRefused = true }
        }
        if let missing = ids.first(where: missing.contains) {
            throw TidemarkError(
                .predecessorMissing, "The change set depends on \(missing), which has not arrived.",
                fix: "Send \(missing) first, or in the same request before this one.")
        }
        // In their order each is put at the end.
        return Ancestry(revisions: RangeSet(revisions.sorted().map { $0..<$0 + 1 }), isRefused: isRefused)
    }

    /// Returns the notes of a device's overruled values up to a revision, oldest first, JSON each.
    ///
    /// Deletes the notes up to the number `cursor`, which the device has applied.
    package func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws
        -> [String]
    {
        guard try head().notes > 0 else { return [] }
        if cursor > 0 { try write(FactsSQL.deleteNotes, [.text(device), .integer(cursor)]) }
        let limits = [Value.integer(revision), .integer(Int64(limit))]
        return try rows(FactsSQL.notes, [.text(device)] + limits).map { row in
            JSONText.object([
                ("number", String(try row.number(0))), ("revision", String(try row.number(1))),
                ("records", try row.text(2)),
            ])
        }
    }
}

private enum HeadSQL {
    private static let lastNote = """
        {SELECT revision FROM main.tidemark_overruled
            WHERE number = (SELECT max(number) FROM main.tidemark_overruled)
        |SELECT max(revision) FROM tidemark.overruled WHERE zone = $1}
        """
    static let head = BookStatement(
        """
        SELECT zone.epoch, zone.revision, zone.horizon, zone.time, zone.adopted, zone.notes,
            (SELECT latest.chain FROM {revision} AS latest WHERE {here latest} AND latest.revision = zone.revision),
            (SELECT stored.fingerprint
                FROM {fingerprint} AS stored
                WHERE {here stored} AND stored.revision = zone.revision AND stored.shape = $2),
            EXISTS (SELECT 1 FROM {main.tidemark_capture|tidemark.outside AS outside WHERE outside.zone = $1}),
            (SELECT stored.fingerprint
                FROM {fingerprint} AS stored
                WHERE {here stored} AND stored.revision = $3 AND stored.shape = $2),
            CASE WHEN zone.notes > 0 THEN (\(lastNote)) END
        FROM {zone} AS zone
        WHERE {here zone}
        """)
    static let messages = BookStatement(
        """
        SELECT EXISTS (SELECT 1 FROM {overruled} WHERE {here} AND device = $2)
            OR EXISTS (SELECT 1 FROM {lap} WHERE {here} AND device = $2 AND lap = $3)
        """)
}

private enum FactsSQL {
    static let devices = BookStatement(
        """
        SELECT asked.device, lap.lap, lap.revision, lap.user_id,
            EXISTS (SELECT 1 FROM {overruled} AS note WHERE {here note} AND note.device = asked.device)
        FROM {asked}
        LEFT JOIN {lap} AS lap ON {here lap} AND lap.device = asked.device
        """,
        about: ["device": "text"])
    static let verdicts = BookStatement(
        """
        SELECT verdict.id, verdict.device, verdict.hash, verdict.revision, verdict.as_sent, lap.user_id
        FROM {each verdict AS verdict: verdict.id = asked.id}
        LEFT JOIN {lap} AS lap ON {here lap} AND lap.device = verdict.device
        """,
        about: ["id": "text"])
    static let permanentIDs = BookStatement(
        """
        SELECT known.device, known.tbl, known.temporary, known.permanent
        FROM {each idmap AS known: known.device = asked.device AND known.tbl = asked.tbl
            AND known.temporary = asked.temporary}
        """,
        about: ["device": "text", "tbl": "text", "temporary": "bigint"])
    static let lastRevisions = BookStatement(
        """
        SELECT asked.n,
            (SELECT max(entry.revision)
                FROM {log} AS entry
                WHERE {here entry} AND entry.tbl = asked.tbl AND entry.key = asked.key),
            {false|EXISTS (
                SELECT 1
                FROM tidemark.capture AS other
                WHERE other.zone = $1 AND other.xid <> pg_current_xact_id() AND other.tbl = asked.tbl
                    AND other.key = asked.key)}
        FROM {asked}
        """,
        about: ["tbl": "text", "key": "text"])
    static let laterEntries = BookStatement(
        sqlite: laterEntries(replaced: "NULL"),
        postgres: laterEntries(
            replaced: """
                CASE WHEN asked.is_spelled THEN (
                    SELECT '{' || string_agg(
                        tidemark.quote(member.key) || ':"'
                            || left(encode(sha256(convert_to(member.value::text, 'UTF8')), 'hex'), 32) || '"',
                        ',') || '}'
                    FROM json_each(entry.replaced::json) AS member) END
                """),
        about: ["tbl": "text", "key": "text", "base": "bigint", "is_spelled": "boolean"])
    private static func laterEntries(replaced: String) -> String {
        """
        SELECT asked.n, entry.revision, entry.operation, entry.columns, entry.merged, origin.time, origin.device,
            \(replaced), entry.absorbed
        FROM {each log AS entry: entry.tbl = asked.tbl AND entry.key = asked.key AND entry.revision > asked.base}
        LEFT JOIN {revision} AS origin ON {here origin} AND origin.revision = entry.revision
        ORDER BY asked.n, entry.revision
        """
    }
    static let lendsOwnIDs = BookStatement("SELECT number > 0 FROM main.tidemark_lent WHERE id = 1")
    static let wasDeleted = BookStatement(
        """
        SELECT EXISTS (SELECT 1 FROM {log} WHERE {here} AND tbl = $2 AND key = $3)
            OR EXISTS (
                SELECT 1 FROM {identity}
                WHERE {here} AND tbl = $2 AND CAST($4 AS bigint) BETWEEN 1 AND next - 1)
        """)
    static let endOfEpoch = BookStatement("SELECT ended FROM {lineage} WHERE {here} AND epoch = $2")
    static let hasRevision = BookStatement(
        """
        SELECT EXISTS (SELECT 1 FROM {revision} WHERE {here} AND revision > $2 AND revision <= $3 AND device = $4)
        """)

    static let fingerprint = BookStatement(
        "SELECT fingerprint FROM {fingerprint} WHERE {here} AND revision = $3 AND shape = $2")
    static let copies = BookStatement(
        """
        SELECT verdict.id, verdict.revision, verdict.body, verdict.ids, verdict.as_sent
        FROM {each verdict AS verdict: verdict.id = asked.id}
        """,
        about: ["id": "text"])
    static let ancestry = BookStatement(
        sqlite: """
            WITH RECURSIVE ancestor (id) AS (
                SELECT value FROM json_each($2)
                UNION
                SELECT predecessor.value
                FROM ancestor
                JOIN {verdict} AS verdict USING (id), json_each(verdict.after) AS predecessor
            )
            SELECT verdict.id, verdict.revision FROM ancestor JOIN {verdict} AS verdict USING (id)
            """,
        postgres: """
            WITH RECURSIVE ancestor (id) AS (
                SELECT json_array_elements_text($2::json)
                UNION
                SELECT unnest(verdict.after)
                FROM ancestor
                JOIN {verdict} AS verdict ON {here verdict} AND verdict.id = ancestor.id
            )
            SELECT verdict.id, verdict.revision
            FROM ancestor
            JOIN {verdict} AS verdict ON {here verdict} AND verdict.id = ancestor.id
            """)
    static let deleteNotes = BookStatement("DELETE FROM {overruled} WHERE {here} AND device = $2 AND number <= $3")
    static let notes = BookStatement(
        """
        SELECT number, revision, records
        FROM {overruled}
        WHERE {here} AND device = $2 AND revision <= $3
        ORDER BY number
        LIMIT $4
        """)
}
