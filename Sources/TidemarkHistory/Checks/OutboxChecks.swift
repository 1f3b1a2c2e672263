/// Checks that no edit is lost: it is captured, drained into a change set and frozen, and leaves
/// the outbox only with its verdict.
extension HistoryChecker {
    /// Takes over the outbox and inbox.
    ///
    /// - Returns: The records whose edits were drained.
    mutating func checkOutbox(_ step: DeviceStep, fitting: Fitting?, remade: Remade, device: inout DeviceModel) -> Set<
        RecordID
    > {
        let ids = Identities(step.identities)
        let oldOutbox = device.outbox
        let oldInbox = device.inbox
        let outbox = step.outbox ?? oldOutbox
        let inbox = step.conflicts.map { Dictionary($0.map { ($0.id, $0) }, uniquingKeysWith: { $1 }) }
        let drained = drain(step, outbox: outbox, ids: ids, fitting: fitting, remade: remade, device: &device)
        checkKept(oldOutbox, new: outbox, ids: ids, shared: device.shared, step: step)
        if let inbox {
            checkInbox(inbox, from: oldInbox, ids: ids, remade: remade, step: step)
            checkKeptValues(inbox, besides: oldInbox, step)
        }
        checkSettled(oldOutbox, new: outbox, inbox: inbox ?? oldInbox, remade: remade, device: &device, step: step)
        if step.outbox != nil { device.hold(outbox) }
        if let inbox { device.inbox = inbox }
        counters.resolutions += step.resolved.count
        return drained
    }

    // MARK: Change sets that stay

    /// Checks that a waiting change set changes only its ids, and a frozen one not at all.
    private mutating func checkKept(
        _ old: [OutboxSet], new: [OutboxSet], ids: Identities, shared: Layout?, step: DeviceStep
    ) {
        guard step.outbox != nil else { return }
        let before = Dictionary(old.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for set in new {
            if let wire = set.wire, wires[step.device]?[set.id] == nil {
                wires[step.device, default: [:]][set.id] = wire
                let changes = shared.part(set.changes)
                sets[set.id]?.changes = changes
                checkBases(of: changes, wire, id: set.id, step: step)
            }
            if let frozen = wires[step.device]?[set.id], frozen != set.wire {
                report(
                    .once, actor: step.device, subject: "change set \(set.id)", expected: "the frozen text, \(frozen)",
                    found: set.wire ?? "nothing frozen")
            }
            guard let earlier = before[set.id] else { continue }
            // Values of columns that only the file has may change once the rest is frozen.
            let view = set.wire == nil ? nil : shared
            let expected = contents(view.part(earlier.changes.map { rules.translated($0, ids) }))
            let actual = contents(view.part(set.changes))
            guard expected != actual else { continue }
            let record = Set(expected.keys).union(actual.keys).filter { expected[$0] != actual[$0] }.min()
            report(
                ids.isEmpty ? .intentKept : .references, actor: step.device,
                subject: record.map { "\($0) in change set \(set.id)" } ?? set.id,
                expected: record.flatMap { expected[$0] } ?? "nothing about it",
                found: record.flatMap { actual[$0] } ?? "nothing about it")
        }
    }

    /// Checks that a sent change set names for each record the revision of its edit.
    private mutating func checkBases(of changes: [RecordChange], _ wire: String, id: String, step: DeviceStep) {
        let bases = wire.split(separator: "\"revision\":", omittingEmptySubsequences: false).dropFirst().map {
            String($0.prefix { $0.isNumber })
        }.sorted()
        let due = changes.filter { $0.operation != .create }.compactMap(\.base).map(String.init).sorted()
        guard bases != due else { return }
        report(
            .noSilentOverwrite, actor: step.device, subject: "change set \(id)",
            expected: "the bases \(due.joined(separator: ", "))", found: bases.joined(separator: ", "))
    }

    private func contents(_ changes: [RecordChange]) -> [RecordID: String] {
        Dictionary(changes.map { ($0.record, "\($0.operation) \($0.cells.text)") }, uniquingKeysWith: { $1 })
    }
}
