package import TidemarkCore

/// Renders the verdict on writes for a client without rows, with the records as they are now.
package struct AnswerWrites {
    private let changeSet: RecordChangeSet
    private let reader: (any ZoneReader)?
    /// The state that the writes became.
    private let committed: StateTag?

    /// Wraps a change set with a verdict; the answers have the records as they are now.
    package init(_ changeSet: RecordChangeSet, _ reader: any ZoneReader) {
        self.changeSet = changeSet
        self.reader = reader
        committed = nil
    }

    /// Wraps a change set that became a state; the answers have no records.
    package init(_ changeSet: RecordChangeSet, committed: StateTag) {
        self.changeSet = changeSet
        reader = nil
        self.committed = committed
    }

    // MARK: Done

    /// Returns an answer for each write, in order.
    ///
    /// The record and its tag are of one state: the present one, which other writes may have followed. Without the
    /// record, the tag is of the revision that the writes became, and is left out where the client cannot know all
    /// columns of that state. So a client never gets the tag of a state that it has not seen.
    ///
    /// - Throws: ``Problem`` if the writes were refused, or an error of the store.
    package func answers(_ verdict: WriteVerdict) throws -> [WriteAnswer] {
        switch verdict {
        case .refused(let reasons): throw try problem(reasons)
        case .committed(_, let keys):
            let names = changeSet.writes.indices.map { index in
                let name = WriteVerdict.Name(table: changeSet.writes[index].table.name, key: changeSet.keys[index])
                return WriteVerdict.Name(table: name.table, key: keys[name] ?? name.key)
            }
            let rows = try reader.map { try self.rows(names, in: $0) }
            let tags = try reader?.tags(of: Set((rows ?? [:]).values.map(\.revision))) ?? [:]
            return changeSet.writes.enumerated().map { index, write in
                answer(write, names[index], rows: rows, tags: tags)
            }
        }
    }

    private func answer(
        _ write: RecordWrite,
        _ name: WriteVerdict.Name,
        rows: [WriteVerdict.Name: RowText]?,
        tags: [Int64: StateTag]
    ) -> WriteAnswer {
        let location =
            "tables/\(RecordPath.text([JSONText.quote(name.table)]))/\(RecordPath.text(canonical: name.key, of: write.table))"
        var answer = WriteAnswer(operation: write.operation, location: location)
        guard write.operation != .delete else { return answer }
        guard let rows else {
            guard changeSet.isKnownAfterwards(write) else { return answer }
            answer.entityTag = committed.map { RecordTag($0).entityTag }
            return answer
        }
        guard let row = rows[name] else { return answer }
        answer.entityTag = tags[row.revision].map { RecordTag($0).entityTag }
        answer.record = RecordText.object(row, columns: write.table.columns)
        return answer
    }

    /// Returns the rows of records, by the name under which each is asked for.
    private func rows(_ names: [WriteVerdict.Name], in reader: any ZoneReader) throws -> [WriteVerdict.Name: RowText] {
        var found: [WriteVerdict.Name: RowText] = [:]
        for (table, indices) in Dictionary(grouping: names.indices, by: { changeSet.writes[$0].table }) {
            let wanted = indices.filter { changeSet.writes[$0].operation != .delete }
            guard !wanted.isEmpty else { continue }
            var query = RowQuery(table, limit: wanted.count, bytesMax: ZoneReaderLimits.wholeBytesMax)
            query.keys = wanted.map { names[$0].key }
            let rows = try reader.rows(query).rows
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
            reasons: reasons.map { $0.json(reader?.schema) },
            current: try first.flatMap(current),
            index: first
        )
    }

    private static let preconditionRules: Set<String> = [ConflictRule.changed.rawValue, ConflictRule.deleted.rawValue]

    private static func preconditionFailed(_ place: TidemarkError.Place?) -> TidemarkError {
        TidemarkError(
            .preconditionFailed,
            "The record is not in the state that the write has seen.",
            fix: "Decide again by `current`, the present record, and send its tag with a new Idempotency-Key.",
            place: place ?? .init()
        )
    }

    private static func conflict(_ place: TidemarkError.Place?, isDeletion: Bool) -> TidemarkError {
        let cure =
            isDeletion
            ? "After a look at records that the deletion takes along, send Tidemark-Seen with their revision."
            : "Send other values with a new Idempotency-Key, or change the record that is in the way."
        return TidemarkError(
            .conflict,
            "The write breaks a rule of the zone, so nothing was done.",
            fix: "The reasons name the rule and the record. \(cure)",
            place: place ?? .init()
        )
    }

    private func current(_ index: Int) throws -> String? {
        guard let reader else { return nil }
        var query = RowQuery(changeSet.writes[index].table, limit: 1, bytesMax: ZoneReaderLimits.bytesMax)
        query.keys = [changeSet.keys[index]]
        return try reader.rows(query).rows.first.map { RecordText.object($0, columns: query.columns) }
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

    /// Creates an answer.
    package init(operation: Operation, location: String) {
        self.operation = operation
        self.location = location
    }

    /// The HTTP status.
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
