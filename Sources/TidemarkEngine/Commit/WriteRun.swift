import TidemarkCore

/// Writes decided change sets, and turns the effects into revisions.
extension GroupRun {
    /// What became of a written change set.
    struct Written {
        let revision: CommittedRevision
        /// Makes the author's copy of the whole change set.
        let authorsCopy: () -> String
        /// Makes the verdict for a client without rows.
        let verdict: () -> WriteVerdict
    }

    /// Writes change sets that are separate from each other, and stores their revisions.
    ///
    /// - Throws: ``Violation``, or ``NotSeparate`` if one of several changes unnamed records; the caller undoes it.
    mutating func write(_ changeSets: [BuildRevision.Decided]) throws -> [Written] {
        var changeSets = changeSets
        var overruling: Overruling.Images?
        if changeSets.count == 1, !changeSets[0].overrulings.isEmpty {
            overruling = try Overruling.Images(&changeSets[0], schema, in: zone)
        }
        var builders = changeSets.map { BuildRevision($0, schema) }
        var owners = Owners(of: changeSets)
        let mayLookAgain = !ledger.foreseen.isEmpty
        var changed: Set<RecordID> = []
        try zone.write(changeSets.map(\.changeSet)) { effect in
            if mayLookAgain { changed.insert(RecordID(table: effect.table, key: effect.key)) }
            if let owner = owners.owner(of: RecordID(table: effect.table, key: effect.key)) {
                try builders[owner.changeSet].take(effect, of: owner.record)
            } else {
                guard builders.count == 1 else { throw NotSeparate() }
                try builders[0].take(effect, of: nil)
            }
        }
        ledger.changed.formUnion(changed)
        if builders.count == 1 { try judgeCascades(of: builders[0]) }
        return try append(builders, overruling)
    }

    /// Refuses a change set whose foreign key actions change records that others changed since its base.
    ///
    /// The author of a deletion saw which children its cascade deletes. A child that another device added or edited
    /// meanwhile was not among them, so `ON DELETE CASCADE` must not delete it: no change overwrites unseen changes.
    private func judgeCascades(of builder: BuildRevision) throws {
        if planted(PlantedBug.takesUnseenChildren) { return }
        let records = builder.decided.changeSet.records
        let changed = Set(records.filter { $0.operation != .create }.map { schema.tables[$0.table].name })
        guard !changed.isEmpty,
            schema.tables.contains(where: { $0.references.contains { changed.contains($0.parent) } })
        else { return }
        try refuseLost(builder)
        let base = min(builder.decided.base, records.compactMap(\.base).min() ?? .max)
        let changes = builder.cascaded.filter {
            $0.operation != .create && !schema.tables[$0.name.table].references.isEmpty
        }
        .map { BasedChange(name: $0.name, operation: $0.operation, base: base) }
        guard !changes.isEmpty else { return }
        let unseen = try zone.laterChanges(changes)
        guard !unseen.isEmpty else { return }
        let contentions = FindContentions(schema: schema, seen: builder.decided.seen).cascades(changes, unseen)
        _ = try judgeAll(contentions, by: policies(of:))
    }

    /// Refuses a change set whose own deletions cascade to records that it creates or updates.
    private func refuseLost(_ builder: BuildRevision) throws {
        let records = builder.decided.changeSet.records
        let suspects = (builder.untouched + builder.vanished).filter {
            records[$0].operation != .delete && !schema.tables[records[$0].table].references.isEmpty
        }
        guard !suspects.isEmpty else { return }
        let names = suspects.map { RecordID(table: records[$0].table, key: records[$0].key) }
        let rows = try zone.rows(names)
        guard let lost = names.first(where: { rows[$0] == nil }) else { return }
        let table = schema.tables[lost.table].name
        throw Violation.conflict([ConflictReason(table: table, key: lost.key, columns: [], rule: .parentDeleted)])
    }

    private mutating func append(_ builders: [BuildRevision], _ overruling: Overruling.Images?) throws -> [Written] {
        var written: [Written] = []
        var fingerprint = ledger.fingerprints[ledger.state.revision]
        var chain = ledger.chain
        for builder in builders {
            let overruled = try overruling?.values(of: builder.decided, schema, in: zone) ?? OverruledValues()
            let (revision, copy) = builder.finish(after: chain, fingerprint: fingerprint, overruled: overruled)
            written.append(Written(revision: revision, authorsCopy: copy) { builder.verdict })
            chain = revision.chain
            fingerprint = revision.fingerprint
        }
        let last = builders.reduce(ledger.state.time) { max($0, $1.decided.stamp.time) }
        let state = ledger.state.with(revision: ledger.state.revision + Int64(builders.count), time: last)
        var commit = ZoneCommit(zone: state, at: now)
        commit.revisions = written.map(\.revision)
        commit.nextIDs = ledger.assigner.nextIDs
        try zone.keep(commit)
        ledger.state = state
        ledger.chain = chain
        for builder in builders {
            // A program's trigger takes ids of its own.
            for record in builder.cascaded where record.operation == .create {
                ledger.assigner.forget(record.name.table)
            }
        }
        for revision in commit.revisions {
            if let fingerprint = revision.fingerprint { ledger.fingerprints[revision.revision] = fingerprint }
            if group.count > 1 { ledger.texts[revision.revision] = revision.text }
            for note in revision.notes { ledger.facts.devicesWithNotes.insert(note.device) }
            guard let id = revision.envelope?.id, !planted(PlantedBug.forgetsAcceptedVerdict) else { continue }
            ledger.facts.verdicts[id] = Verdict(
                device: revision.stamp.device, hash: revision.envelope?.hash ?? "", revision: revision.revision,
                isAsSent: revision.isAsSent, owner: revision.stamp.user)
            guard let device = revision.stamp.device else { continue }
            for assigned in revision.permanentIDs {
                ledger.facts.permanentIDs[device, default: [:]][assigned.name] = assigned.id
            }
        }
        return written
    }

    /// Keeps the outcome of a written change set, as its author will get it.
    func record(_ written: Written, of index: Int, _ turn: inout Turn) {
        let revision = written.revision
        let outcome: SyncHandler.Outcome
        if turn.echo == nil {
            outcome = SyncHandler.Outcome(body: nil, revision: revision.revision, verdict: written.verdict())
        } else if turn.echo == .ids, revision.envelope?.id != nil, revision.isAsSent {
            outcome = SyncHandler.Outcome(body: nil, revision: revision.revision, ids: revision.ids)
        } else {
            let copy = revision.authorsCopy ?? written.authorsCopy()
            outcome = SyncHandler.Outcome(body: copy, revision: revision.revision)
        }
        turn.outcomes[index] = outcome
    }
}

extension Overruling {
    /// The overruled values of a change set, and the rows before its write.
    struct Images {
        private let mine: [RecordID: [String: String]]
        private let before: [RecordID: [Value]]
        private let names: [RecordID]

        /// Reads the rows, and takes the losing values out of the change set.
        init(_ decided: inout BuildRevision.Decided, _ schema: SyncSchema, in zone: some CommitTransaction) throws {
            names = decided.overrulings.compactMap { overruling in
                schema.places[overruling.contention.table].map { RecordID(table: $0, key: overruling.contention.key) }
            }
            before = try zone.rows(names)
            mine = try OverruledValues.drop(decided.overrulings, from: &decided.changeSet, schema)
        }

        func values(of decided: BuildRevision.Decided, _ schema: SyncSchema, in zone: some CommitTransaction) throws
            -> OverruledValues
        {
            OverruledValues(
                decided.overrulings, mine: mine, before: before, after: try zone.rows(names),
                author: decided.stamp.device, schema)
        }
    }
}

/// The change set and the record that each name is of.
///
/// Effects mostly come in the order of the records, so the next one is tried first.
private struct Owners {
    typealias Owner = (changeSet: Int, record: Int)

    private let changeSets: [BuildRevision.Decided]
    private var next: Owner = (0, 0)
    private var byName: [RecordID: Owner]?

    init(of changeSets: [BuildRevision.Decided]) { self.changeSets = changeSets }

    /// Returns the record with a name; nil if no change set has it.
    mutating func owner(of name: RecordID) -> Owner? {
        while next.changeSet < changeSets.count, next.record >= records(next.changeSet).count {
            next = (next.changeSet + 1, 0)
        }
        if next.changeSet < changeSets.count {
            let record = records(next.changeSet)[next.record]
            if RecordID(table: record.table, key: record.key) == name {
                defer { next.record += 1 }
                return next
            }
        }
        if byName == nil { byName = index() }
        return byName?[name]
    }

    private func records(_ changeSet: Int) -> [PendingChangeSet.Record] { changeSets[changeSet].changeSet.records }

    private func index() -> [RecordID: Owner] {
        var owners: [RecordID: Owner] = [:]
        owners.reserveCapacity(changeSets.reduce(0) { $0 + $1.changeSet.records.count })
        for (place, decided) in changeSets.enumerated() {
            for (index, record) in decided.changeSet.records.enumerated() {
                owners[RecordID(table: record.table, key: record.key)] = (place, index)
            }
        }
        return owners
    }
}
