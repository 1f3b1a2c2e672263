package import TidemarkCore

/// Fits writes of a client without rows to the zone's tables.
extension RecordChangeSet {
    /// Makes the change set of writes that stand or fall together.
    ///
    /// - Throws: ``Problem`` with the position of the faulty write.
    init(_ sent: ClientWrites, in schema: SyncSchema) throws {
        let isOnly = sent.requests.count == 1
        let writes = try sent.requests.enumerated().map { index, request in
            try Self.placing(index) {
                let table = try schema.table(request.table)
                // The ids that a client writes into a batch are hardly below those that a table may have.
                let temporaryID = isOnly ? table.lowestID - 1 : TemporaryID.adoptedMin - 1 - Int64(index)
                return try RecordWrite(request, to: table, temporaryID: temporaryID, seen: sent.seen)
            }
        }
        try Self.refuseRepeatedRecords(writes)
        let merging = Set(writes.map(\.table.name)).filter { name in
            schema.policy(of: name) != .reject || !schema.columnPolicies(of: name).isEmpty
        }
        self.init(sent, writes: writes, merging: merging)
    }

    /// Adds the position of a write to its error.
    fileprivate static func placing<Result>(_ index: Int, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch { throw Problem(refusal: error, index: index) ?? error }
    }

    private static func refuseRepeatedRecords(_ writes: [RecordWrite]) throws(Problem) {
        var seen: Set<[String]> = []
        for (index, write) in writes.enumerated() where !seen.insert([write.table.name, write.key]).inserted {
            throw Problem(
                TidemarkError(
                    .malformedRequest, "The batch writes a record twice.",
                    fix: "Write each record once, with all its columns.",
                    place: .init(table: write.table.name, key: write.key)), index: index)
        }
    }
}

/// Looks at the records that writes change, in the transaction that writes.
///
/// It refuses writes that cannot be judged: to a record that is not there, without a precondition, or with the tag of
/// another history. It does not compare tags with records. That is for the judge.
struct PlanWrites {
    let zone: any RowReader
    let state: ZoneState

    /// Gives the writes the keys of their records as the zone spells them.
    ///
    /// A change set that has a verdict already gets the same one, whatever has become of its records.
    ///
    /// - Throws: ``Problem`` with the position of the faulty write, or an error of the store.
    func find(_ changeSet: inout RecordChangeSet, hasVerdict: Bool) throws {
        if let seen = changeSet.sent.seen, seen > state.revision { throw Problem(Self.ahead(seen, state)) }
        let writes = changeSet.writes
        let current = try present(writes)
        changeSet.keys = zip(writes, current).map { $1?.key ?? $0.key }
        for (index, write) in writes.enumerated() where write.operation != .create {
            // A write that says nothing has no verdict that a repetition could have.
            guard !hasVerdict || write.precondition == .missing else { continue }
            try RecordChangeSet.placing(index) { try check(write, current[index]) }
        }
    }

    // MARK: Records

    /// Returns the rows that the writes change, without their columns; nil for a write of an absent record.
    private func present(_ writes: [RecordWrite]) throws -> [RowText?] {
        var found: [RowText?] = Array(repeating: nil, count: writes.count)
        for (table, indices) in Dictionary(grouping: writes.indices, by: { writes[$0].table }) {
            let changes = indices.filter { writes[$0].operation != .create }
            guard !changes.isEmpty else { continue }
            var query = RowQuery(table, limit: changes.count, bytesMax: .max)
            query.columns = []
            query.keys = changes.map { writes[$0].key }
            let rows = try zone.rows(query).rows
            let byKey = Dictionary(rows.map { ($0.key, $0) }) { first, _ in first }
            for index in changes { found[index] = byKey[writes[index].key] }
            // A key column may compare several spellings as equal, such as 9 and 9.0.
            let spelled = changes.filter { found[$0] == nil }
            let names = Set(changes.map { writes[$0].key })
            let others = rows.filter { !names.contains($0.key) }
            if spelled.count == others.count { for (index, row) in zip(spelled, others) { found[index] = row } }
        }
        return found
    }

    private func check(_ write: RecordWrite, _ row: RowText?) throws {
        guard let row else { throw ListRecords.unknownRecord(write.key, write.table) }
        let place = TidemarkError.Place(table: write.table.name, key: row.key)
        switch write.precondition {
        case .present, .absent: return
        case .missing:
            let tag = RecordTag(try zone.tag(of: row.revision, in: state))
            throw TidemarkError(
                .preconditionRequired, "The write does not say which state of the record its author has seen.",
                fix: "Send If-Match: \(tag.entityTag) after a look at the record, or If-Match: * for any state.",
                place: place)
        case .tags(let tags):
            // The latest tag is the base of the judgement.
            let latest = tags.max { $0.revision < $1.revision }
            if let latest, try zone.has(latest.state, in: state) { return }
            throw Problem(
                TidemarkError(
                    .preconditionFailed,
                    "The tag in If-Match belongs to no state of this zone's history; the zone may have been restored.",
                    fix: "Look at the record again, decide again, and send its tag.", place: place),
                current: try zone.record(row.key, in: write.table))
        }
    }

    private static func ahead(_ seen: Int64, _ zone: ZoneState) -> TidemarkError {
        TidemarkError(
            .revisionAhead, "Tidemark-Seen is \(seen), but the zone has only reached \(zone.revision).",
            fix: "Send the revision of an answer, or leave the header out.")
    }
}

extension RowReader {
    /// Returns a record as it is now, JSON; nil if there is none.
    func record(_ key: String, in table: SyncedTable) throws -> String? {
        var query = RowQuery(table, limit: 1, bytesMax: ZoneReaderLimits.bytesMax)
        query.keys = [key]
        return try rows(query).rows.first.map { RecordText.object($0, columns: query.columns) }
    }
}

/// Renders the verdict on writes for a client without rows, with the records as they are now.
struct AnswerWrites {
    let changeSet: RecordChangeSet
    let zone: any RowReader
    let state: ZoneState

    // MARK: Done

    /// Returns an answer for each write, in order.
    ///
    /// The record and its tag are of one state: the present one, which other writes may have followed. Without the
    /// record, the tag is of the revision that the writes became, and is left out where the client cannot know all
    /// columns of that state. So a client never gets the tag of a state that it has not seen.
    ///
    /// - Returns: The answers, or why the writes were refused.
    /// - Throws: An error of the store.
    func answers(_ verdict: WriteVerdict) throws -> Result<[WriteAnswer], Problem> {
        switch verdict {
        case .refused(let reasons): return .failure(try problem(reasons))
        case .committed(let revision, let keys):
            if changeSet.sent.isMinimal {
                let tag = RecordTag(try zone.tag(of: revision, in: state))
                let names = changeSet.writes.indices.map { name($0, keys) }
                return .success(zip(changeSet.writes, names).map { minimal($0, $1, tag: tag) })
            }
            let names = changeSet.writes.indices.map { name($0, keys) }
            let rows = try rows(names)
            let tags = try zone.tags(of: Set(rows.values.map(\.revision)), in: state)
            return .success(
                zip(changeSet.writes, names).map { write, name in answer(write, name, row: rows[name], tags: tags) })
        }
    }

    /// Returns the name of a written record as the zone has it.
    private func name(_ index: Int, _ keys: [WriteVerdict.Name: String]) -> WriteVerdict.Name {
        let name = WriteVerdict.Name(table: changeSet.writes[index].table.name, key: changeSet.keys[index])
        return WriteVerdict.Name(table: name.table, key: keys[name] ?? name.key)
    }

    private func empty(_ write: RecordWrite, _ name: WriteVerdict.Name) -> WriteAnswer {
        let table = RecordPath.text([JSONText.quote(name.table)])
        let location = "tables/\(table)/\(RecordPath.text(canonical: name.key, of: write.table))"
        return WriteAnswer(operation: write.operation, location: location)
    }

    /// Returns the answer without the record; `tag` is that of the state that the writes became.
    private func minimal(_ write: RecordWrite, _ name: WriteVerdict.Name, tag: RecordTag) -> WriteAnswer {
        var answer = empty(write, name)
        if write.operation != .delete, changeSet.isKnownAfterwards(write) { answer.entityTag = tag.entityTag }
        return answer
    }

    private func answer(_ write: RecordWrite, _ name: WriteVerdict.Name, row: RowText?, tags: [Int64: StateTag])
        -> WriteAnswer
    {
        var answer = empty(write, name)
        guard write.operation != .delete, let row else { return answer }
        answer.entityTag = tags[row.revision].map { RecordTag($0).entityTag }
        answer.record = RecordText.object(row, columns: write.table.columns)
        return answer
    }

    /// Returns the rows of records, by the name under which each is asked for.
    private func rows(_ names: [WriteVerdict.Name]) throws -> [WriteVerdict.Name: RowText] {
        var found: [WriteVerdict.Name: RowText] = [:]
        for (table, indices) in Dictionary(grouping: names.indices, by: { changeSet.writes[$0].table }) {
            let wanted = indices.filter { changeSet.writes[$0].operation != .delete }
            guard !wanted.isEmpty else { continue }
            var query = RowQuery(table, limit: wanted.count, bytesMax: ZoneReaderLimits.wholeBytesMax)
            query.keys = wanted.map { names[$0].key }
            let rows = try zone.rows(query).rows
            for row in rows { found[WriteVerdict.Name(table: table.name, key: row.key)] = row }
            // A client may spell the key of a new record in another way than the zone.
            if let index = wanted.first, wanted.count == 1, let row = rows.first { found[names[index]] = row }
        }
        return found
    }

    // MARK: Refused

    /// Makes the problem of refused writes.
    ///
    /// It is about the precondition if the judge names nothing but the written records, changed or deleted since. A
    /// record that a deletion would take along unseen is another conflict: the same tag would be refused again.
    private func problem(_ reasons: [ConflictReason]) throws -> Problem {
        let indices = reasons.map { changeSet.index(of: $0.table, $0.key) }
        let isPrecondition = zip(reasons, indices).allSatisfy { reason, index in
            guard let index else { return false }
            let write = changeSet.writes[index]
            return Self.preconditionRules.contains(reason.rule)
                || write.precondition == .absent && reason.rule == ConflictRule.exists.rawValue
        }
        let first = indices.compactMap(\.self).first ?? (changeSet.writes.count == 1 ? 0 : nil)
        let place = first.map(changeSet.place)
        let isDeletion = first.map { changeSet.writes[$0].operation == .delete } ?? false
        return Problem(
            isPrecondition ? Self.preconditionFailed(place) : Self.conflict(place, isDeletion: isDeletion),
            reasons: reasons.map { $0.json(zone.schema) },
            current: try first.flatMap { try zone.record(changeSet.keys[$0], in: changeSet.writes[$0].table) },
            index: first)
    }

    private static let preconditionRules: Set<String> = [ConflictRule.changed.rawValue, ConflictRule.deleted.rawValue]

    private static func preconditionFailed(_ place: TidemarkError.Place?) -> TidemarkError {
        TidemarkError(
            .preconditionFailed, "The record is not in the state that the write has seen.",
            fix: "Decide again by `current`, the present record, and send its tag with a new Idempotency-Key.",
            place: place ?? .init())
    }

    private static func conflict(_ place: TidemarkError.Place?, isDeletion: Bool) -> TidemarkError {
        let cure =
            isDeletion
            ? "After a look at records that the deletion takes along, send Tidemark-Seen with their revision."
            : "Send other values with a new Idempotency-Key, or change the record that is in the way."
        return TidemarkError(
            .conflict, "The write breaks a rule of the zone, so nothing was done.",
            fix: "The reasons name the rule and the record. \(cure)", place: place ?? .init())
    }
}

/// The answer to a write that is done.
package struct WriteAnswer: Hashable, Sendable {
    /// The kind of change.
    package let operation: Operation
    /// The record's path beneath the zone's, percent-encoded.
    package let location: String
    /// The tag of the record, or of the revision that the write became; nil for a record that is gone.
    package var entityTag: String?
    /// The record, JSON; nil if the client does not want it, or if it is gone.
    package var record: String?

    package var status: Int {
        guard record != nil else { return 204 }
        return operation == .create ? 201 : 200
    }

    /// The answer as an entry of a batch, JSON.
    package var json: String {
        var members = [("status", "\(status)")]
        if let entityTag { members.append(("etag", JSONText.quote(entityTag))) }
        if operation != .delete { members.append(("location", JSONText.quote(location))) }
        if let record { members.append(("record", record)) }
        return JSONText.object(members)
    }
}
