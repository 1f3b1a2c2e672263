import TidemarkCore

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
                    .malformedRequest,
                    "The batch writes a record twice.",
                    fix: "Write each record once, with all its columns.",
                    place: .init(table: write.table.name, key: write.key)
                ),
                index: index
            )
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
                .preconditionRequired,
                "The write does not say which state of the record its author has seen.",
                fix: "Send If-Match: \(tag.entityTag) after a look at the record, or If-Match: * for any state.",
                place: place
            )
        case .tags(let tags):
            // The latest tag is the base of the judgement.
            let latest = tags.max { $0.revision < $1.revision }
            if let latest, try zone.has(latest.state, in: state) { return }
            throw Problem(
                TidemarkError(
                    .preconditionFailed,
                    "The tag in If-Match belongs to no state of this zone's history; the zone may have been restored.",
                    fix: "Look at the record again, decide again, and send its tag.",
                    place: place
                ),
                current: try zone.record(row.key, in: write.table)
            )
        }
    }

    private static func ahead(_ seen: Int64, _ zone: ZoneState) -> TidemarkError {
        TidemarkError(
            .revisionAhead,
            "Tidemark-Seen is \(seen), but the zone has only reached \(zone.revision).",
            fix: "Send the revision of an answer, or leave the header out."
        )
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
