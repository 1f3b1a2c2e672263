/// A device goes on with another history, or under another identity, from a snapshot: its file or
/// the server's was copied, or put back.
///
/// Its bases mean nothing then, and what waits is judged by rows. Whatever its people wrote, and
/// what the server had acknowledged and has forgotten, must be true of the rows, wait, or be among
/// the conflicts.
extension HistoryChecker {
    /// What somebody wrote, in the order in which they did.
    private struct Claims {
        var byRecord: [RecordID: [RecordChange]] = [:]

        mutating func add(_ change: RecordChange) { byRecord[change.record, default: []].append(change) }

        var all: [RecordChange] { byRecord.values.flatMap { $0 } }
    }

    /// Whether a step is such a move.
    func isMove(_ step: DeviceStep, of device: DeviceModel) -> Bool {
        step.identity != device.identity || step.epoch != device.epoch
    }

    /// Takes over outbox and inbox of a device that has moved.
    mutating func move(_ step: DeviceStep, _ device: inout DeviceModel) {
        guard let zone else { return }
        let ids = step.identities.reduce(into: Identities()) { $0[$1.table, default: [:]][$1.temporary] = $1.permanent }
        let outbox = step.outbox ?? device.outbox
        let inbox = step.conflicts.map { Dictionary($0.map { ($0.id, $0) }, uniquingKeysWith: { $1 }) } ?? device.inbox
        let confirmed = zone.state(at: step.cursor)
        let waiting = waiting(ids, device, zone)
        let forgotten = device.settled.filter { zone.verdicts[$0] == nil && !offeredAgain.contains($0) }
        let kept = forgotten.map { id in
            (sets[id]?.changes ?? []).map { rules.translated(rules.translated($0, device.identities), ids) }
        }
        let places = outbox.flatMap(\.changes) + inbox.values.flatMap(\.changes)
        for (record, changes) in waiting.byRecord.sorted(by: { $0.key < $1.key })
        where !isDone(changes, confirmed[record]) { for change in changes { checkFound(change, among: places, step) } }
        for change in kept.flatMap({ $0 }) where !isDone([change], confirmed[change.record]) {
            checkFound(change, among: places, step)
        }
        checkInvented(outbox, waiting.all + kept.flatMap { $0 }, step)
        checkParked(inbox, confirmed, zone, device, step)
        offeredAgain.formUnion(forgotten)
        device.settled.removeAll { forgotten.contains($0) }
        rebase(outbox, inbox, confirmed, step, zone, &device)
    }

    /// What waits, drained or not, and has no verdict.
    private func waiting(_ ids: Identities, _ device: DeviceModel, _ zone: ZoneModel) -> Claims {
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
            claims.add(rules.translated(RecordChange(record, operation, cells), ids))
        }
        return claims
    }

    /// Whether a record is as all changes of it want it.
    private func isDone(_ changes: [RecordChange], _ row: Cells?) -> Bool {
        guard let last = changes.last else { return true }
        guard last.operation != .delete else { return row == nil }
        guard let row else { return false }
        return changes.reduce(row) { $0.merging($1.cells) { $1 } } == row
    }

    private mutating func checkFound(_ change: RecordChange, among places: [RecordChange], _ step: DeviceStep) {
        guard !places.contains(where: { isSame(change, $0) }) else { return }
        report(
            .intentKept,
            step.device,
            change.record,
            expected: "\(change.operation) \(change.cells.text) to be true of the rows, to wait,"
                + " or to be a conflict, after the history became another",
            found: "nothing about it"
        )
    }

    /// Whether two changes say the same, whatever ids the records have by now.
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

    private mutating func checkInvented(_ outbox: [OutboxSet], _ claims: [RecordChange], _ step: DeviceStep) {
        for set in outbox {
            for change in set.changes where !claims.contains(where: { isSame($0, change) }) {
                report(
                    .converged,
                    step.device,
                    change.record,
                    expected: "no change set without an edit",
                    found: "\(change.operation) \(change.cells.text) in \(set.id)"
                )
            }
        }
    }

    /// Conflicts stay, and new ones have a cause: a record of theirs, or one that it refers to, is
    /// another than the file had shown.
    private mutating func checkParked(
        _ inbox: [String: ParkedSet],
        _ confirmed: [RecordID: Cells],
        _ zone: ZoneModel,
        _ device: DeviceModel,
        _ step: DeviceStep
    ) {
        for id in device.inbox.keys.sorted() where inbox[id] == nil {
            report(
                .intentKept,
                step.device,
                "conflict \(id)",
                expected: "to stay until it is resolved",
                found: "gone after \(step.step)"
            )
        }
        let isSame = confirmed == device.confirmed && step.epoch == device.epoch
        for (id, parked) in inbox.sorted(by: { $0.key < $1.key })
        where isSame && device.inbox[id] == nil && !parked.isOverruled && !zone.hasRefused(id) {
            guard let authored = sets[id], authored.incarnation == zone.incarnation,
                !authored.after.contains(where: zone.hasRefused),
                authored.seen.allSatisfy({ record, seen in
                    let now = rules.translated(record, device.identities)
                    return zone.row(now, at: seen) == confirmed[now]
                })
            else { continue }
            report(
                .intentKept,
                step.device,
                "change set \(id)",
                expected: "to wait: no row is another than its author saw",
                found: "parked by \(step.step)"
            )
        }
    }

    /// What waits is based on the snapshot from now on, and not frozen.
    private mutating func rebase(
        _ outbox: [OutboxSet],
        _ inbox: [String: ParkedSet],
        _ confirmed: [RecordID: Cells],
        _ step: DeviceStep,
        _ zone: ZoneModel,
        _ device: inout DeviceModel
    ) {
        device.settled += device.outbox.map(\.id).filter { zone.revision(of: $0) != nil }
        device.own.formUnion(outbox.map(\.id) + inbox.keys)
        let offered = Set(outbox.filter { sets[$0.id] == nil }.flatMap { $0.changes.map(\.record) })
        for set in outbox {
            let known = sets[set.id]
            wires[step.device, default: [:]][set.id] = set.wire
            sets[set.id] = AuthoredSet(
                device: step.device,
                changes: set.changes,
                after: Set(set.after),
                seen: Dictionary(
                    set.changes.map { change in
                        let isSeen =
                            change.operation == .create || offered.contains(change.record)
                            || confirmed[change.record] == shown(change.record, to: known, zone, device)
                        return (change.record, isSeen ? step.cursor : -1)
                    },
                    uniquingKeysWith: { $1 }
                ),
                incarnation: zone.incarnation,
                own: device.own,
                time: set.time
            )
        }
        device.hold(outbox)
        device.inbox = inbox
        // What a forgotten id stood for has a temporary one again.
        let given = zone.assigned.values.map { $0.mapValues { $0.mapValues(\.permanent) } }
        for (table, pairs) in device.identities {
            device.identities[table] = pairs.filter { pair in given.contains { $0[table]?[pair.key] == pair.value } }
        }
        guard step.captured == 0 else { return }
        device.undrained = [:]
        device.deeds = []
    }

    /// The record as its author's file had shown it when they edited it.
    private func shown(_ record: RecordID, to authored: AuthoredSet?, _ zone: ZoneModel, _ device: DeviceModel)
        -> Cells?
    {
        guard let authored, authored.incarnation == zone.incarnation,
            let seen = authored.seen.first(where: { rules.translated($0.key, device.identities) == record })
        else { return device.confirmed[record] }
        return zone.row(record, at: seen.value)
    }
}
