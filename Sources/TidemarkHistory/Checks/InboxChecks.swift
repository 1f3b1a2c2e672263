/// What was refused stays in the conflict inbox, whole, until somebody resolves it.
extension HistoryChecker {
    /// A change set is parked for the verdict that it was given, with what the server told.
    mutating func checkParked(_ set: OutboxSet, _ parked: ParkedSet, _ device: DeviceModel, _ step: DeviceStep) {
        if let revision = zone?.revision(of: set.id), device.incarnation == zone?.incarnation {
            report(
                .once,
                step.device,
                "change set \(set.id)",
                expected: "the verdict that it has, revision \(revision)",
                found: "parked as a conflict"
            )
        }
        let ids = step.identities.reduce(into: Identities()) { $0[$1.table, default: [:]][$1.temporary] = $1.permanent }
        checkItems(of: parked, set.changes.map { rules.translated($0, ids) }, step)
        checkParkingCause(set.id, device, step)
        guard let truth = zone?.verdicts[set.id]?.truth else { return }
        for item in parked.items {
            guard let told = truth[item.record].map({ told in told.map { part($0, item, device) } }),
                told != item.theirs.map({ part($0, item, device) })
            else { continue }
            report(
                .intentKept,
                step.device,
                "\(item.record) in conflict \(set.id)",
                expected: "theirs as the server told it, \(told.text)",
                found: item.theirs.text
            )
        }
    }

    private func part(_ cells: Cells, _ item: ParkedSet.Item, _ device: DeviceModel) -> Cells {
        device.shared.part(cells, of: item.record.table)
    }

    /// The inbox keeps what each change set wanted, whole.
    private mutating func checkItems(of parked: ParkedSet, _ changes: [RecordChange], _ step: DeviceStep) {
        let items = Dictionary(parked.items.map { ($0.record, $0) }, uniquingKeysWith: { $1 })
        for change in changes {
            let item = items[change.record]
            let mine = item?.mine ?? [:]
            guard item?.operation == change.operation, change.cells.allSatisfy({ mine[$0.key] == $0.value }) else {
                report(
                    .intentKept,
                    step.device,
                    "\(change.record) in conflict \(parked.id)",
                    expected: "\(change.operation) \(change.cells.text) kept as mine",
                    found: item.map { "\($0.operation?.rawValue ?? "nothing") \($0.mine.text)" } ?? "nothing"
                )
                continue
            }
        }
    }

    /// What is in the inbox stays there, whole, until somebody resolves it.
    mutating func checkInbox(
        _ inbox: [String: ParkedSet],
        from old: [String: ParkedSet],
        _ ids: Identities,
        _ step: DeviceStep
    ) {
        for (id, parked) in old.sorted(by: { $0.key < $1.key }) {
            if let now = inbox[id] {
                checkItems(of: now, parked.changes.map { rules.translated($0, ids) }, step)
            } else if !step.resolved.contains(id) {
                report(
                    .intentKept,
                    step.device,
                    "conflict \(id)",
                    expected: "to stay until it is resolved",
                    found: "gone after \(step.step)"
                )
            }
        }
    }
}

extension ParkedSet {
    /// What the change set wanted.
    var changes: [RecordChange] {
        items.compactMap { item in item.operation.map { RecordChange(item.record, $0, item.mine ?? [:]) } }
    }
}
