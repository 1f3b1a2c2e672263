/// Checks change sets that a device makes again, because another record has the id that it drew.
///
/// The app hears of the new ids. The new change sets must do what the refused ones did, and their authors have seen no
/// more than before.
extension HistoryChecker {
    /// The new ids of a step, and the change sets that were made again under them.
    struct Remade {
        /// The new id of each former one.
        var ids: Identities = [:]
        /// The new change set for each refused one.
        var sets: [String: String] = [:]
        /// The refused change sets, and all that depend on them.
        var depending: Set<String> = []

        /// The ids for a change set: the server's, and also the new ones if it depends on a refused one.
        func ids(for set: String, _ ids: Identities) -> Identities {
            depending.contains(set) ? ids.adding(self.ids) : ids
        }
    }

    /// Takes over the change sets that were made again: in the model they wait in place of the refused ones.
    mutating func takeRemade(_ step: DeviceStep, _ device: inout DeviceModel) -> Remade {
        var remade = Remade()
        guard !step.renumbered.isEmpty, let outbox = step.outbox else { return remade }
        remade.ids = Identities(step.renumbered)
        let gone = gone(in: step, outbox: outbox, device: device)
        checkRenumbered(step, gone: gone, device: device)
        var fresh = outbox.filter { !device.own.contains($0.id) }
        let ids = Identities(step.identities).adding(remade.ids)
        for old in gone {
            let changes = old.changes.map { rules.translated($0, ids) }
            let place = fresh.firstIndex { hasEffect(of: changes, $0, in: outbox, step: step, device: device) }
            // Without one, the refused change set is missing, and later checks report it.
            guard let place else { continue }
            let new = fresh.remove(at: place)
            remade.sets[old.id] = new.id
            sets[new.id] = author(of: new, insteadOf: old, ids: ids, outbox: outbox, step: step, device: device)
            device.own.insert(new.id)
            device.inbox[old.id] = nil
            device.hold(device.outbox.filter { $0.id != old.id } + [new])
        }
        remade.depending = depending(on: Set(gone.map(\.id)), device: device, step: step)
        return remade
    }

    /// The refused change sets that are neither in the outbox nor among the conflicts any more.
    private func gone(in step: DeviceStep, outbox: [OutboxSet], device: DeviceModel) -> [OutboxSet] {
        let conflicts = step.conflicts?.map(\.id) ?? Array(device.inbox.keys)
        let left = Set(outbox.map(\.id)).union(conflicts).union(step.resolved)
        let parked = device.inbox.values.filter { !$0.isOverruled && !left.contains($0.id) }.sorted { $0.id < $1.id }
        let queued = device.outbox.filter { !left.contains($0.id) && zone?.revision(of: $0.id) == nil }
        return parked.map { OutboxSet(id: $0.id, changes: $0.changes) } + queued
    }

    /// Whether a change set leads to the same rows as changes, on top of the rows before it.
    private func hasEffect(
        of changes: [RecordChange], _ set: OutboxSet, in outbox: [OutboxSet], step: DeviceStep, device: DeviceModel
    ) -> Bool {
        let earlier = outbox.prefix { $0.id != set.id }.flatMap(\.changes)
        let records = Set(changes.map(\.record)).union(set.changes.map(\.record))
        return records.allSatisfy { record in
            let result = { (changes: [RecordChange], row: Cells?) in
                let after = changes.filter { $0.record == record }.reduce(row) { rules.applied($1, to: $0) }
                return device.shared.fitted(after, of: record.table)
            }
            let row = earlier.filter { $0.record == record }.reduce(zone?.row(record, at: step.cursor)) {
                rules.applied($1, to: $0)
            }
            return result(changes, row) == result(set.changes, row)
        }
    }

    /// The author of a change set that was made again has seen what the refused one's author had seen.
    private func author(
        of new: OutboxSet, insteadOf old: OutboxSet, ids: Identities, outbox: [OutboxSet], step: DeviceStep,
        device: DeviceModel
    ) -> AuthoredSet {
        var bases: [RecordID: Int64] = [:]
        let author = sets[old.id]
        if let author, author.incarnation == zone?.incarnation {
            for (record, base) in author.baseRevisions {
                bases[rules.translated(rules.translated(record, device.identities), ids)] = base
            }
        }
        let seen = new.changes.map { change -> (RecordID, Int64) in
            let base = bases[change.record] ?? author?.oldestBase ?? step.cursor
            return (change.record, seenRevision(of: change.record, since: base, step))
        }
        return AuthoredSet(
            device: step.device, changes: new.changes,
            after: Set(new.after).union(predecessors(of: new, among: outbox.prefix { $0.id != new.id })),
            baseRevisions: Dictionary(seen, uniquingKeysWith: { $1 }), incarnation: zone?.incarnation ?? 0,
            own: device.own.union([new.id]), time: new.time)
    }

    /// The revision up to which an author has seen a record in effect: the present one, if its row is the same.
    func seenRevision(of record: RecordID, since base: Int64, _ step: DeviceStep) -> Int64 {
        zone?.row(record, at: base) == zone?.row(record, at: step.cursor) ? step.cursor : base
    }

    private func depending(on gone: Set<String>, device: DeviceModel, step: DeviceStep) -> Set<String> {
        var depending = gone
        let others = device.outbox.map(\.id) + device.inbox.keys + (step.conflicts ?? []).map(\.id)
        var count = 0
        while count != depending.count {
            count = depending.count
            depending.formUnion(others.filter { !(sets[$0]?.after.isDisjoint(with: depending) ?? true) })
        }
        return depending
    }

    // MARK: The new ids

    /// Checks that only new records get other ids, only if another record has theirs, and only free ones.
    private mutating func checkRenumbered(_ step: DeviceStep, gone: [OutboxSet], device: DeviceModel) {
        let created = Set(gone.flatMap(\.changes).filter { $0.operation == .create }.map(\.record))
            .union(device.undrained.filter { $0.value.before == nil }.keys)
        for pair in step.renumbered {
            let former = RecordID(pair.table, String(pair.temporary))
            let isTaken = zone?.versions[former]?.contains { $0.changeSet.map { !device.own.contains($0) } ?? true }
            if !created.contains(former) || isTaken != true {
                let expected = "the id that it has, since no other record has it"
                reportRenumbered(former, step: step, expected: expected, found: pair)
            }
            let new = RecordID(pair.table, String(pair.permanent))
            let isUsed = zone?.versions[new]?.contains { $0.revision <= step.cursor } ?? false
            if isUsed || device.rows[new] != nil {
                reportRenumbered(former, step: step, expected: "an id that no record has", found: pair)
            }
            let owners = lendings[step.epoch ?? "", default: []].filter {
                $0.places.table == pair.table && $0.places.contains(pair.permanent)
            }
            guard !KeyText.isTemporary(new.key), !owners.contains(where: { $0.identity == step.identity }) else {
                continue
            }
            let expected = "an id that was lent to \(step.identity)"
            reportRenumbered(former, step: step, expected: expected, found: pair)
        }
    }

    private mutating func reportRenumbered(
        _ record: RecordID, step: DeviceStep, expected: String, found pair: IdentityPair
    ) { report(.references, actor: step.device, subject: record, expected: expected, found: "\(pair.permanent)") }
}

extension Identities {
    /// The ids of pairs.
    init(_ pairs: [IdentityPair]) {
        self = pairs.reduce(into: [:]) { $0[$1.table, default: [:]][$1.temporary] = $1.permanent }
    }

    /// These ids, and others.
    func adding(_ others: Identities) -> Identities { merging(others) { $0.merging($1) { $1 } } }
}
