/// Checks a device's file after each transaction: its rows are the server's at its cursor, with the
/// waiting changes on top.
///
/// The cursor never goes back, and is never ahead of the rows.
extension HistoryChecker {
    mutating func join(_ name: String, identity: String, epoch: String?, cursor: Int64, _ changes: [RowChange]) {
        var rows: [RecordID: Cells] = [:]
        for change in changes { rows[change.record] = change.after }
        if let zone {
            compare(
                rows, expected: zone.state(at: cursor), invariant: .dense, actor: name,
                what: "the file as joined at \(cursor)")
        }
        var device = DeviceModel(
            name: name, identity: identity, epoch: epoch, incarnation: zone?.incarnation ?? 0, cursor: cursor,
            rows: Rows(rows, rules: rules))
        device.layout = layouts[name]?.last
        // A device that joins gets the zone's tables with its rows.
        device.shared = device.layout
        devices[name] = device
    }

    mutating func edit(_ name: String, _ changes: [RowChange]) {
        counters.edits += 1
        guard var device = devices.removeValue(forKey: name) else { return }
        for change in changes {
            checkBefore(change, device)
            if change.before == nil { checkDrawn(change.record, in: device) }
            device.rows.set(change.record, change.after, rules: rules)
            // The server may refuse the deletion.
            if change.after == nil { device.removedRows[change.record] = change.before }
            guard device.shared.has(change.record.table) else {
                device.hasOwnEdits = true
                continue
            }
            if device.undrained[change.record] == nil {
                device.undrained[change.record] = DeviceModel.Undrained(before: change.before, cursor: device.cursor)
            }
        }
        let deed = changes.filter { device.shared.has($0.record.table) }.map { ($0.record, $0) }
        if !deed.isEmpty { device.deeds?.append(Dictionary(deed, uniquingKeysWith: { $1 })) }
        devices[name] = device
    }

    mutating func replace(_ name: String, by copy: String) {
        guard let model = copies[copy] ?? devices[copy] else { return }
        var replaced = DeviceModel(
            name: name, identity: model.identity, epoch: model.epoch, incarnation: model.incarnation,
            cursor: model.cursor, rows: model.rows)
        replaced.confirmed = model.confirmed
        replaced.hold(model.outbox)
        replaced.inbox = model.inbox
        replaced.undrained = model.undrained
        replaced.deeds = model.deeds
        replaced.identities = model.identities
        replaced.formerIDs = model.formerIDs
        replaced.own = model.own
        replaced.captured = model.captured
        replaced.layout = model.layout
        replaced.shared = model.shared
        replaced.settled = model.settled
        wires[name] = wires[copy] ?? wires[model.name]
        replaced.removedRows = model.removedRows
        replaced.lastTime = model.lastTime
        devices[name] = replaced
    }

    mutating func take(_ step: DeviceStep) {
        // Takes the model out of the dictionary while it changes, or every change would copy it.
        guard var device = devices.removeValue(forKey: step.device) else { return }
        checkIdentities(step, &device)
        let waiting = device.pending
        let fitting = fit(&device, step)
        var touched: Set<RecordID> = []
        if isMove(step, of: device) {
            touched = Set(device.undrained.keys)
            move(step, &device)
        } else {
            let remade = takeRemade(step, &device)
            touched = checkOutbox(step, fitting: fitting, remade: remade, device: &device)
        }
        let isApplied = step.cursor != device.cursor || !step.rows.isEmpty || step.conflicts != nil
        touched.formUnion(advance(&device, step))
        for change in step.rows {
            checkBefore(change, device)
            device.rows.set(change.record, change.after, rules: rules)
            touched.insert(change.record)
        }
        // The device replays waiting changes only when it applies an answer. Until then an edit
        // that does not fit may be hidden.
        for record in Set(waiting.keys).union(device.pending.keys)
        where isApplied || waiting[record] != device.pending[record] { touched.insert(record) }
        if let fitting { touched.formUnion(fitting.touched(device)) }
        device.identity = step.identity
        device.captured = step.captured
        checkRows(around: touched, of: &device)
        checkOwnColumns(step, fitting: fitting, device: &device)
        if let broken = device.rows.brokenReference(around: touched.sorted(), rules: rules) {
            report(
                .references, actor: step.device, subject: broken.child,
                expected: "a reference to a row that exists, after \(step.step)", found: "\(broken.parent)")
        }
        devices[step.device] = device
    }

    private mutating func checkBefore(_ change: RowChange, _ device: DeviceModel) {
        let modelRow = device.rows[change.record]
        guard modelRow != change.before else { return }
        report(
            .intentKept, actor: device.name, subject: change.record,
            expected: modelRow.text + " to stay until it is changed", found: change.before.text)
    }

    /// Checks that pairs are the server's, and that each id stands for one record.
    private mutating func checkIdentities(_ step: DeviceStep, _ device: inout DeviceModel) {
        for pair in step.identities {
            let subject = RecordID(pair.table, String(pair.temporary))
            let serverPairs = zone?.assigned.values.compactMap { $0[pair.table]?[pair.temporary] } ?? []
            let formerIDs = device.formerIDs[pair.table] ?? []
            let isUsed = device.identities[pair.table]?.contains {
                $0.value == pair.permanent && $0.key != pair.temporary && !formerIDs.contains($0.key)
            }
            // The device offers a forgotten record again, under another temporary id.
            if KeyText.isTemporary(String(pair.permanent)), isForgotten(pair, by: device) { continue }
            // Its first temporary id leads to its new permanent one, too.
            if formerIDs.contains(pair.temporary), isGiven(pair, in: step) {
                device.identities[pair.table, default: [:]][pair.temporary] = pair.permanent
                continue
            }
            if !serverPairs.contains(where: { $0.permanent == pair.permanent }) || isUsed == true {
                report(
                    .references, actor: step.device, subject: subject,
                    expected: "the id that the server gave, "
                        + serverPairs.map { "\($0.permanent)" }.joined(separator: " or "), found: "\(pair.permanent)")
            }
            device.identities[pair.table, default: [:]][pair.temporary] = pair.permanent
        }
    }

    /// Whether the server has forgotten the permanent id that a device has for a temporary one.
    private func isForgotten(_ pair: IdentityPair, by device: DeviceModel) -> Bool {
        let isFormer = device.formerIDs[pair.table]?.contains(pair.temporary) ?? false
        guard let permanent = device.identities[pair.table]?[pair.temporary] else { return isFormer }
        return zone?.assigned.values.contains { $0[pair.table]?[pair.temporary]?.permanent == permanent } != true
    }

    /// Whether another pair of a step has the same id from the server.
    private func isGiven(_ pair: IdentityPair, in step: DeviceStep) -> Bool {
        step.identities.contains { other in
            other.table == pair.table && other.permanent == pair.permanent && other.temporary != pair.temporary
                && zone?.assigned.values.contains {
                    $0[pair.table]?[other.temporary]?.permanent == pair.permanent
                } == true
        }
    }

    /// Moves the confirmed rows along with the cursor.
    ///
    /// - Returns: The touched records.
    private mutating func advance(_ device: inout DeviceModel, _ step: DeviceStep) -> Set<RecordID> {
        guard let zone else { return [] }
        let isReset = step.epoch != device.epoch || device.incarnation != zone.incarnation
        guard step.cursor != device.cursor || step.epoch != device.epoch else { return [] }
        defer {
            device.cursor = step.cursor
            device.epoch = step.epoch
        }
        if step.epoch != zone.epoch || step.cursor > zone.latest {
            report(
                .dense, actor: step.device, subject: "the cursor",
                expected: "at most revision \(zone.latest) of epoch \(zone.epoch)",
                found: "\(step.cursor) of epoch \(step.epoch ?? "none")")
            return []
        }
        guard !isReset, step.cursor >= device.cursor else {
            if !isReset {
                report(
                    .dense, actor: step.device, subject: "the cursor", expected: "no way back from \(device.cursor)",
                    found: "\(step.cursor)")
            }
            return reset(&device, to: step.cursor)
        }
        var touched: Set<RecordID> = []
        for revision in stride(from: device.cursor + 1, through: step.cursor, by: 1) {
            touched.formUnion(zone.touched[revision] ?? [])
            device.lastTime = max(device.lastTime, zone.times[revision] ?? 0)
        }
        for record in touched { device.confirmed[record] = zone.row(record, at: step.cursor) }
        return touched
    }

    /// Takes over another history: all rows are its rows, and waiting edits are judged by them.
    private mutating func reset(_ device: inout DeviceModel, to cursor: Int64) -> Set<RecordID> {
        guard let zone else { return [] }
        let confirmed = zone.state(at: cursor)
        for set in device.outbox {
            guard var authored = sets[set.id], authored.incarnation != zone.incarnation else { continue }
            for (record, base) in authored.baseRevisions {
                guard !zone.isCommon(base, since: authored.incarnation) else { continue }
                let now = rules.translated(record, device.identities)
                let isSame = confirmed[now] == device.confirmed[now]
                authored.baseRevisions[record] = isSame ? cursor : -1
            }
            authored.incarnation = zone.incarnation
            sets[set.id] = authored
        }
        let touched = Set(device.confirmed.keys).union(confirmed.keys)
        device.confirmed = confirmed
        device.incarnation = zone.incarnation
        return touched
    }
}
