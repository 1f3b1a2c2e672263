import TidemarkCore

/// The decision about a change set, before anything is written.
enum Decision {
    case accept(BuildRevision.Decided)
    case refuse([ConflictReason])
}

extension GroupRun {
    /// Decides a change set by the rules, the rows and the log.
    ///
    /// - Throws: ``NotSeparate`` if the run would change the facts; ``TidemarkCore/TidemarkError`` or ``Violation``
    ///   when the change set is invalid.
    mutating func decide(_ index: Int, _ turn: Turn) throws -> Decision {
        if planted(PlantedBug.refusesEverything) { throw TidemarkError(.constraintViolated, "No.", fix: "Give up.") }
        let assigner = ledger.assigner
        do {
            let decision = try judged(index, turn)
            if case .refuse = decision { ledger.assigner = assigner }
            return decision
        } catch {
            ledger.assigner = assigner
            if case Violation.refusal(let refusal) = error { throw refusal }
            throw error
        }
    }

    private mutating func judged(_ index: Int, _ turn: Turn) throws -> Decision {
        let request = turn.request
        let envelope = request.changeSets[index]
        let ancestry = try ancestry(of: envelope.after, turn)
        guard turn.incoming.access.role >= .writer else {
            return .refuse([ConflictReason(table: "", key: "", columns: [], rule: .forbidden)])
        }
        // Check this first: the change set may use temporary ids of the refused one.
        guard !ancestry.isRefused else {
            return .refuse([ConflictReason(table: "", key: "", columns: [], rule: .predecessor)])
        }
        var changeSet = turn.incoming.changeSets[index]
        let permanentIDs = try identities.assign(to: changeSet, known: turn.ids) { try takeID(of: $0) }
        var ids = turn.ids
        for assigned in permanentIDs { ids[assigned.name] = assigned.id }
        try identities.rename(&changeSet, ids, requiresAll: true)
        guard run.footprint.isSeparate(changeSet) else { throw NotSeparate() }
        try spell(&changeSet)
        let own = ancestry.revisions + turn.accepted
        let seen = planted(PlantedBug.forgetsOwnCommits) ? [] : Set(own)
        let stamp = turn.stamps[index]
        let overrulings: [Overruling]
        do {
            let contentions = try contentions(of: changeSet, base: request.base, seen: seen, stamp: stamp)
            overrulings = try judgeAll(contentions, by: policies(of:))
        } catch Violation.conflict(let reasons) { return .refuse(reasons) }
        return .accept(
            BuildRevision.Decided(
                envelope: envelope,
                changeSet: changeSet,
                revision: ledger.state.revision + Int64(run.elements.count) + 1,
                stamp: stamp,
                permanentIDs: permanentIDs,
                overrulings: overrulings,
                base: request.base,
                seen: seen,
                ancestors: ancestry.revisions
            )
        )
    }

    /// Returns the conflict policies of a table and of its columns that have their own.
    func policies(of table: String) -> (table: ConflictPolicy, columns: [String: ConflictPolicy]) {
        (schema.policy(of: table), schema.columnPolicies(of: table))
    }

    /// Returns the ancestors of a change set; some may not be written yet.
    private func ancestry(of after: [String], _ turn: Turn) throws -> Ancestry {
        guard !after.isEmpty, !planted(PlantedBug.ignoresAfter) else {
            return Ancestry(revisions: [], isRefused: false)
        }
        let written = after.filter { turn.ancestors[$0] == nil }
        let older = written.isEmpty ? Ancestry(revisions: [], isRefused: false) : try zone.ancestry(of: written)
        return Ancestry(
            revisions: after.flatMap { turn.ancestors[$0] ?? [] } + older.revisions,
            isRefused: older.isRefused
        )
    }

    private mutating func takeID(of table: Int) throws -> Int64 {
        let chosen = ledger.assigner.knows(table) ? [] : chosenIDs(of: table)
        return try ledger.assigner.take(of: table, chosen: chosen, in: zone)
    }

    /// Returns the ids that change sets of the group choose for new records of a table.
    private func chosenIDs(of table: Int) -> Set<Int64> {
        var chosen: Set<Int64> = []
        for incoming in requests {
            for changeSet in incoming.changeSets {
                for record in changeSet.records where record.table == table && record.operation == .create {
                    if let id = Int64(record.key), id > 0 { chosen.insert(id) }
                }
            }
        }
        return chosen
    }

    /// Replaces the keys of updates and deletions by the stored spelling.
    ///
    /// A database converts values before it compares keys: 9 finds the row 9.0 of a REAL key, and 'ABC' the row 'abc'
    /// of a key that ignores case. But the log is searched by the key's text. With another spelling, the server would
    /// miss other devices' changes. A creation keeps its key; the database finds a conflicting row by value.
    func spell(_ changeSet: inout PendingChangeSet) throws {
        let names = changeSet.records.filter { rules.respelling.contains($0.table) && $0.operation != .create }.map {
            RecordID(table: $0.table, key: $0.key)
        }
        guard !names.isEmpty else { return }
        let stored = try zone.storedKeys(names)
        guard !stored.isEmpty else { return }
        for index in changeSet.records.indices where changeSet.records[index].operation != .create {
            let record = changeSet.records[index]
            guard let key = stored[RecordID(table: record.table, key: record.key)] else { continue }
            if zone.tellsSpelling { changeSet.records[index].authorsKey = record.authorsKey ?? record.key }
            changeSet.records[index].key = key
        }
        var seen: Set<RecordID> = []
        for record in changeSet.records where record.operation != .create && rules.respelling.contains(record.table) {
            guard !seen.insert(RecordID(table: record.table, key: record.key)).inserted else { continue }
            throw TidemarkError(
                .malformedRequest,
                "A record appears twice in one change set, its key spelled in two ways.",
                fix: "List each key once, in one of create, update and delete.",
                place: .init(table: schema.tables[record.table].name, key: record.key)
            )
        }
    }

    private func contentions(
        of changeSet: PendingChangeSet,
        base: Int64,
        seen: Set<Int64>,
        stamp: Stamp
    ) throws -> [Contention] {
        if planted(PlantedBug.skipsBaseCheck) { return [] }
        var contended = try zone.contended(FindContentions.based(changeSet, base: base, in: schema))
        guard !contended.isEmpty else { return [] }
        for (index, present) in contended where present.exists && changeSet.records[index].operation == .create {
            if try isReplaced(changeSet.records[index], by: changeSet) { contended[index] = nil }
        }
        return try FindContentions(schema: schema, seen: seen).contentions(of: changeSet, contended, stamp: stamp)
    }

    /// Whether a change set deletes the record that stands in the way of a new one, under another spelling of its key.
    private func isReplaced(_ record: PendingChangeSet.Record, by changeSet: PendingChangeSet) throws -> Bool {
        guard rules.respelling.contains(record.table) else { return false }
        let name = RecordID(table: record.table, key: record.key)
        guard let stored = try zone.storedKeys([name])[name] else { return false }
        return changeSet.records.contains {
            $0.table == record.table && $0.operation == .delete && $0.key.utf8.elementsEqual(stored.utf8)
        }
    }
}

extension PendingChangeSet {
    /// Whether a change adds to a value.
    var hasSums: Bool { records.contains { record in record.values.contains { delta(at: $0) != nil } } }
}
