import TidemarkCore

/// The truth for a refused change set: a device repairs itself with it and needs no undo log.
///
/// It has every record that the change set touched: whole in `update`, or in `delete` if the server has no such record.
/// A refused deletion adds the records that refer to it, directly or through others, because the device's cascade may
/// have deleted them. A refused unique value adds the record that holds it.
extension GroupRun {
    mutating func refuse(_ index: Int, for reasons: [ConflictReason], _ turn: inout Turn) throws {
        let request = turn.request
        let envelope = request.changeSets[index]
        var changeSet = turn.incoming.changeSets[index]
        do { try identities.rename(&changeSet, requiresAll: false) { turn.ids[$0] } } catch Violation.refusal(let error)
        {
            throw error
        }
        try spell(&changeSet)
        var truth = Truth(changeSet)
        let reasons = try name(reasons, of: changeSet, in: &truth)
        try addChildren(to: &truth, max: sync.relatedMax(request))
        let text = try zone.presentRows(
            truth.names, AnswerEnvelope(id: envelope.id, reasons: reasons).members, deletions: true)
        var commit = ZoneCommit(zone: ledger.state, at: now)
        commit.refusals = [
            Refusal(
                envelope: envelope, device: request.device, base: request.maxRevision, text: text,
                sent: try sentRecords(of: changeSet, base: request.maxRevision))
        ]
        try zone.keep(commit)
        if let id = envelope.id, !planted(PlantedBug.forgetsRefusal) {
            ledger.facts.verdicts[id] = Verdict(
                device: request.device, hash: envelope.hash, revision: nil, isAsSent: false,
                owner: turn.incoming.access.caller.userID)
        }
        turn.outcomes[index] = SyncHandler.Outcome(body: text, revision: nil, verdict: .refused(reasons))
    }

    /// The records of an answer to a refused change set.
    private struct Truth {
        private(set) var names: [RecordID] = []
        private var known: Set<RecordID> = []
        /// The records whose children belong to the truth, and have not been looked for.
        var followed: [RecordID] = []
        private var hasFollowed: Set<RecordID> = []

        init(_ changeSet: PendingChangeSet) {
            for record in changeSet.records {
                add(RecordID(table: record.table, key: record.key), follows: record.operation == .delete)
            }
        }

        mutating func add(_ name: RecordID, follows: Bool) {
            if known.insert(name).inserted { names.append(name) }
            if follows, hasFollowed.insert(name).inserted { followed.append(name) }
        }
    }

    /// Returns the reasons; one about a unique value names the record that holds it.
    private func name(_ reasons: [ConflictReason], of changeSet: PendingChangeSet, in truth: inout Truth) throws
        -> [ConflictReason]
    {
        let places = schema.places
        for reason in reasons where !reason.key.isEmpty {
            if let place = places[reason.table] { truth.add(RecordID(table: place, key: reason.key), follows: false) }
        }
        return try reasons.flatMap { reason in
            guard reason.rule == ConflictRule.unique.rawValue, reason.key.isEmpty, let place = places[reason.table],
                !reason.columns.isEmpty
            else { return [reason] }
            // A record that the change set deletes, or gives another value, holds nothing any more.
            let setting = Set(reason.columns)
            let leaving = changeSet.records.filter { record in
                record.table == place
                    && (record.operation == .delete
                        || record.operation == .update
                            && changeSet.columns(of: record).contains { setting.contains($0.column.name) })
            }
            let holders = try zone.holders(of: reason.columns, in: place, changeSet).subtracting(leaving.map(\.key))
            let keys = holders.sorted { ($0.count, $0) < ($1.count, $1) }
            for key in keys { truth.add(RecordID(table: place, key: key), follows: false) }
            guard !keys.isEmpty else { return [reason] }
            return keys.map { ConflictReason(table: reason.table, key: $0, columns: reason.columns, rule: .unique) }
        }
    }

    /// Adds the children of refused deletions, level by level.
    private func addChildren(to truth: inout Truth, max: Int) throws {
        guard max > 0, !planted(PlantedBug.leavesChildrenOutOfTruth) else { return }
        while !truth.followed.isEmpty, truth.names.count <= max {
            let parents = truth.followed
            truth.followed = []
            for child in try zone.children(of: parents, max: max) { truth.add(child, follows: true) }
        }
    }

    /// Returns the records as their author sent them, JSON, for people who look at conflicts; nil if it is too long.
    private func sentRecords(of changeSet: PendingChangeSet, base: Int64) throws -> String? {
        var bytes = 0
        var records: [String] = []
        for record in changeSet.records {
            let table = schema.tables[record.table]
            var values: [(name: String, value: String)] = []
            for (place, value) in zip(schema.layouts[record.table].keyPlaces, Value.parts(ofKey: record.key)) {
                values.append((table.columns[place].name, String(decoding: value.canonicalJSON, as: UTF8.self)))
            }
            for (place, column) in changeSet.columns(of: record) where changeSet.delta(at: place) == nil {
                let value = String(decoding: try changeSet.value(at: place).canonicalJSON, as: UTF8.self)
                values.append((column.name, value))
            }
            let text = JSONText.object([
                ("table", JSONText.quote(table.name)), ("key", JSONText.quote(record.authorsKey ?? record.key)),
                ("operation", JSONText.quote(record.operation.rawValue)), ("base", String(record.base ?? base)),
                ("values", JSONText.object(values.sorted { $0.name < $1.name })),
            ])
            bytes += text.utf8.count + 1
            guard bytes <= Self.sentBytesMax else { return nil }
            records.append(text)
        }
        return JSONText.array(records)
    }

    /// The most bytes of a refused change set that the server keeps for people.
    private static var sentBytesMax: Int { 256 << 10 }
}
