/// No edit is lost: it is captured, drained into a change set, frozen, and leaves the outbox only
/// with its verdict.
extension HistoryChecker {
    /// Takes over outbox and inbox; returns the records whose edits were drained.
    mutating func checkOutbox(_ step: DeviceStep, _ fitting: Fitting?, _ device: inout DeviceModel) -> Set<RecordID> {
        let ids = step.identities.reduce(into: Identities()) { $0[$1.table, default: [:]][$1.temporary] = $1.permanent }
        let oldOutbox = device.outbox
        let oldInbox = device.inbox
        let outbox = step.outbox ?? oldOutbox
        let inbox = step.conflicts.map { Dictionary($0.map { ($0.id, $0) }, uniquingKeysWith: { $1 }) }
        let drained = drain(step, outbox, ids, fitting, &device)
        checkKept(oldOutbox, outbox, ids, device.shared, step)
        if let inbox {
            checkInbox(inbox, from: oldInbox, ids, step)
            checkKeptValues(inbox, besides: oldInbox, step)
        }
        checkSettled(oldOutbox, outbox, inbox ?? oldInbox, &device, step)
        if step.outbox != nil { device.hold(outbox) }
        if let inbox { device.inbox = inbox }
        counters.resolutions += step.resolved.count
        return drained
    }

    // MARK: Change sets that stay

    /// What waits changes only by the ids that it is given, and what is frozen not at all.
    private mutating func checkKept(
        _ old: [OutboxSet],
        _ new: [OutboxSet],
        _ ids: Identities,
        _ shared: Layout?,
        _ step: DeviceStep
    ) {
        guard step.outbox != nil else { return }
        let before = Dictionary(old.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for set in new {
            if let wire = set.wire, wires[step.device]?[set.id] == nil {
                wires[step.device, default: [:]][set.id] = wire
                let changes = shared.part(set.changes)
                sets[set.id]?.changes = changes
                checkBases(of: changes, wire, set.id, step)
            }
            if let frozen = wires[step.device]?[set.id], frozen != set.wire {
                report(
                    .once,
                    step.device,
                    "change set \(set.id)",
                    expected: "what was frozen, \(frozen)",
                    found: set.wire ?? "nothing frozen"
                )
            }
            guard let known = before[set.id] else { continue }
            // What only the file has is its own affair once the rest is frozen.
            let view = set.wire == nil ? nil : shared
            let expected = contents(view.part(known.changes.map { rules.translated($0, ids) }))
            let actual = contents(view.part(set.changes))
            guard expected != actual else { continue }
            let record = Set(expected.keys).union(actual.keys).filter { expected[$0] != actual[$0] }.min()
            report(
                ids.isEmpty ? .intentKept : .references,
                step.device,
                record.map { "\($0) in change set \(set.id)" } ?? set.id,
                expected: record.flatMap { expected[$0] } ?? "nothing about it",
                found: record.flatMap { actual[$0] } ?? "nothing about it"
            )
        }
    }

    /// What is sent says of each record the revision at which it was edited.
    private mutating func checkBases(of changes: [RecordChange], _ wire: String, _ id: String, _ step: DeviceStep) {
        let told = wire.split(separator: "\"revision\":", omittingEmptySubsequences: false).dropFirst().map {
            String($0.prefix { $0.isNumber })
        }.sorted()
        let due = changes.filter { $0.operation != .create }.compactMap(\.base).map(String.init).sorted()
        guard told != due else { return }
        report(
            .noSilentOverwrite,
            step.device,
            "change set \(id)",
            expected: "the bases \(due.joined(separator: ", "))",
            found: told.joined(separator: ", ")
        )
    }

    private func contents(_ changes: [RecordChange]) -> [RecordID: String] {
        Dictionary(changes.map { ($0.record, "\($0.operation) \($0.cells.text)") }, uniquingKeysWith: { $1 })
    }
}
