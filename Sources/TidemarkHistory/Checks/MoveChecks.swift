/// Checks a device that goes on with another history, or under another identity, from a snapshot.
///
/// Its file or the server's was copied or restored.
///
/// Its bases mean nothing then, and rows judge the waiting changes. Every edit, and every
/// acknowledged change set that the server has forgotten, must be true of the rows, wait, or be
/// among the conflicts.
extension HistoryChecker {
    /// The edits of a device, in their order.
    private struct Claims {
        var byRecord: [RecordID: [RecordChange]] = [:]

        mutating func add(_ change: RecordChange) { byRecord[change.record, default: []].append(change) }

        var all: [RecordChange] { byRecord.values.flatMap { $0 } }
    }

    /// Whether a step is such a move.
    func isMove(_ step: DeviceStep, of device: DeviceModel) -> Bool {
        step.identity != device.identity || step.epoch != device.epoch
    }

    /// Takes over the outbox and inbox of a moved device.
    mutating func move(_ step: DeviceStep, _ device: inout DeviceModel) {
        guard let zone else { return }
        let ids = Identities(step.identities)
        let newIDs = Identities(step.renumbered)
        let outbox = step.outbox ?? device.outbox
        let inbox = step.conflicts.map { Dictionary($0.map { ($0.id, $0) }, uniquingKeysWith: { $1 }) } ?? device.inbox
        let confirmed = zone.state(at: step.cursor)
        let waiting = waiting(ids, device: device, zone: zone)
        let forgottenSets = device.settled.filter { zone.verdicts[$0] == nil }
        let lostSets = forgottenSets.filter { !offeredAgain.contains($0) }
        let changes = Dictionary(
            uniqueKeysWithValues: forgottenSets.map { id in
                let own = (sets[id]?.changes ?? []).map {
                    rules.translated(rules.translated($0, device.identities), ids)
                }
                return (id, own)
            })
        let places = outbox.flatMap(\.changes) + inbox.values.flatMap(\.changes)
        for (record, changes) in waiting.byRecord.sorted(by: { $0.key < $1.key })
        where !isDone(changes, confirmed[record]) {
            for change in changes { checkFound(change, or: newIDs, among: places, step: step) }
        }
        for change in lostSets.flatMap({ changes[$0] ?? [] }) where !isDone([change], confirmed[change.record]) {
            checkFound(change, or: newIDs, among: places, step: step)
        }
        // A copy of the device may have offered a set again to a server that has lost it since.
        let claims = waiting.all + forgottenSets.flatMap { changes[$0] ?? [] }
        checkInvented(outbox, claims: claims + claims.map { rules.translated($0, newIDs) }, step: step)
        checkParked(inbox, confirmed: confirmed, zone: zone, device: device, step: step)
        offeredAgain.formUnion(lostSets)
        device.settled.removeAll { lostSets.contains($0) }
        rebase(outbox, inbox: inbox, confirmed: confirmed, step: step, zone: zone, device: &device)
    }

    /// The changes without a verdict, drained or not.
    private func waiting(_ ids: Identities, device: DeviceModel, zone: ZoneModel) -> Claims {
        var claims = Claims()
        for set in device.outbox where zone.revision(of: set.id) == nil {
            for change in set.changes { claims.add(rules.translated(change, ids)) }
        }
        for (record, edit) in device.undrained {
            let after = device.rows[record].map { withoutKey($0, of: record) }
            let cells = (after ?? [:]).filter { edit.before?[$0.key] != $0.value }
            let operation: RecordChange.Operation? =
                switch (edit.before, after) {
                case (nil, nil): nil
                case (nil, _?): .create
                case (_?, nil): .delete
                case (_?, _?): cells.isEmpty ? nil : .update
                }
            guard let operation else { continue }
            claims.add(rules.translated(RecordChange(record, operation: operation, cells: cells), ids))
        }
        return claims
    }

    /// Whether a record has the values of all changes to it.
    private func isDone(_ changes: [RecordChange], _ row: Cells?) -> Bool {
        guard let last = changes.last else { return true }
        guard last.operation != .delete else { return row == nil }
        guard let row else { return false }
        return changes.reduce(row) { $0.merging($1.cells) { $1 } } == row
    }

    private mutating func checkFound(
        _ change: RecordChange, or newIDs: Identities, among places: [RecordChange], step: DeviceStep
    ) {
        // The device may have drained an update as several, with the changes of other records in between.
        let parts = change.cells.map { RecordChange(change.record, operation: .update, cells: [$0.key: $0.value]) }
        guard !isFound(change, or: newIDs, among: places),
            change.operation != .update || !parts.allSatisfy({ isFound($0, or: newIDs, among: places) })
        else { return }
        report(
            .intentKept, actor: step.device, subject: change.record,
            expected: "\(change.operation) \(change.cells.text) to be true of the rows, to wait,"
                + " or to be a conflict, after the history became another", found: "nothing about it")
    }

    private func isFound(_ change: RecordChange, or newIDs: Identities, among places: [RecordChange]) -> Bool {
        let renumbered = rules.translated(change, newIDs)
        return places.contains { isSame(change, $0) || isSame(renumbered, $0) }
    }

    /// Whether two changes are equal, whatever ids their records have by now.
    private func isSame(_ change: RecordChange, _ other: RecordChange) -> Bool {
        guard change.record.table == other.record.table, change.operation == other.operation,
            let table = rules.table(change.record.table)
        else { return false }
        let ids = Set(table.references.flatMap(\.columns))
        let isNamed =
            change.record == other.record || table.hasAssignedKeys && change.operation == .create
            || !KeyText.split(other.record.key, count: table.key.count).allSatisfy { !KeyText.isTemporary($0) }
        return isNamed && change.cells.allSatisfy { ids.contains($0.key) || other.cells[$0.key] == $0.value }
    }

    private mutating func checkInvented(_ outbox: [OutboxSet], claims: [RecordChange], step: DeviceStep) {
        for set in outbox {
            for change in set.changes
            where !claims.contains(where: { isSame($0, change) || change.operation == .update && isSame(change, $0) }) {
                report(
                    .converged, actor: step.device, subject: change.record, expected: "no change set without an edit",
                    found: "\(change.operation) \(change.cells.text) in \(set.id)")
            }
        }
    }

    /// Checks that conflicts stay, and that new ones have a cause: one of their records, or a
    /// parent of one, differs from the file's earlier row.
    private mutating func checkParked(
        _ inbox: [String: ParkedSet], confirmed: [RecordID: Cells], zone: ZoneModel, device: DeviceModel,
        step: DeviceStep
    ) {
        for id in device.inbox.keys.sorted() where inbox[id] == nil {
            report(
                .intentKept, actor: step.device, subject: "conflict \(id)", expected: "to stay until it is resolved",
                found: "gone after \(step.step)")
        }
        let isSame = confirmed == device.confirmed && step.epoch == device.epoch
        let rows = Rows(confirmed, rules: rules)
        for (id, parked) in inbox.sorted(by: { $0.key < $1.key })
        where isSame && device.inbox[id] == nil && !parked.isOverruled && !zone.hasRefused(id) {
            guard let authored = sets[id], authored.incarnation == zone.incarnation,
                !hasUnseenChild(authored, among: rows, device),
                !authored.after.contains(where: { zone.hasRefused($0) || inbox[$0]?.isOverruled == false }),
                authored.baseRevisions.allSatisfy({ record, base in
                    let now = rules.translated(record, device.identities)
                    return zone.row(now, at: base) == confirmed[now]
                })
            else { continue }
            report(
                .intentKept, actor: step.device, subject: "change set \(id)",
                expected: "to wait: no row is another than its author saw", found: "parked by \(step.step)")
        }
    }

    /// Whether a deletion would also delete a child that no waiting change of its device names.
    private func hasUnseenChild(_ set: AuthoredSet, among rows: Rows, _ device: DeviceModel) -> Bool {
        let changes = device.outbox.flatMap(\.changes) + set.changes
        let named = Set(changes.map { rules.translated($0.record, device.identities) })
        return set.changes.contains { change in
            let record = rules.translated(change.record, device.identities)
            return change.operation == .delete && !rows.children(of: record).isSubset(of: named)
        }
    }

    /// Bases waiting changes on the snapshot, no longer frozen.
    private mutating func rebase(
        _ outbox: [OutboxSet], inbox: [String: ParkedSet], confirmed: [RecordID: Cells], step: DeviceStep,
        zone: ZoneModel, device: inout DeviceModel
    ) {
        device.settled += device.outbox.map(\.id).filter { zone.revision(of: $0) != nil }
        device.own.formUnion(outbox.map(\.id) + inbox.keys)
        // A change set that was made again under another id has seen no more than the one before.
        let newRecords = step.renumbered.map { RecordID($0.table, String($0.permanent)) }
        let isAgain = { (set: OutboxSet) in set.changes.contains { newRecords.contains($0.record) } }
        let offered = Set(outbox.filter { sets[$0.id] == nil && !isAgain($0) }.flatMap { $0.changes.map(\.record) })
        for set in outbox {
            let author = sets[set.id]
            wires[step.device, default: [:]][set.id] = set.wire
            sets[set.id] = AuthoredSet(
                device: step.device,
                changes: set.changes,
                after: Set(set.after),
                baseRevisions: Dictionary(
                    set.changes.map { change in
                        let isSeen =
                            change.operation == .create || offered.contains(change.record)
                            || confirmed[change.record]
                                == rowAtEdit(change.record, by: author, zone: zone, device: device)
                        let base = baseRevision(of: change.record, by: author, zone: zone, device: device)
                        return (change.record, isSeen ? step.cursor : base ?? -1)
                    },
                    uniquingKeysWith: { $1 }
                ),
                incarnation: zone.incarnation,
                own: device.own,
                time: set.time)
        }
        device.hold(outbox)
        device.inbox = inbox
        // The record of a forgotten id has a temporary one again.
        let assignments = zone.assigned.values.map { $0.mapValues { $0.mapValues(\.permanent) } }
        for (table, pairs) in device.identities {
            let known = pairs.filter { pair in assignments.contains { $0[table]?[pair.key] == pair.value } }
            device.identities[table] = known
            device.formerIDs[table, default: []].formUnion(Set(pairs.keys).subtracting(known.keys))
        }
        guard step.captured == 0 else { return }
        device.undrained = [:]
        device.deeds = []
    }

    /// The record as its author's file had it at the time of the edit.
    private func rowAtEdit(_ record: RecordID, by authored: AuthoredSet?, zone: ZoneModel, device: DeviceModel)
        -> Cells?
    {
        let base = baseRevision(of: record, by: authored, zone: zone, device: device)
        return base.map { zone.row(record, at: $0) } ?? device.confirmed[record]
    }

    /// The file's revision at the time of the edit; nil if it means nothing in the zone's present history.
    private func baseRevision(of record: RecordID, by authored: AuthoredSet?, zone: ZoneModel, device: DeviceModel)
        -> Int64?
    {
        let base = authored?.baseRevisions.first { rules.translated($0.key, device.identities) == record }?.value
        guard let authored, let base, zone.isCommon(base, since: authored.incarnation) else { return nil }
        return base
    }
}
