/// Checks that a refused change set stays in the conflict inbox, whole, until the app or the user
/// resolves it.
extension HistoryChecker {
    /// Checks that a change set is parked for its verdict, with the server's truth.
    mutating func checkParked(
        _ set: OutboxSet, parked: ParkedSet, remade: Remade, device: DeviceModel, step: DeviceStep
    ) {
        if let revision = zone?.revision(of: set.id), device.incarnation == zone?.incarnation {
            report(
                .once, actor: step.device, subject: "change set \(set.id)",
                expected: "the verdict that it has, revision \(revision)", found: "parked as a conflict")
        }
        let ids = remade.ids(for: set.id, Identities(step.identities))
        checkItems(of: parked, set.changes.map { rules.translated($0, ids) }, step)
        checkParkingCause(set.id, remade: remade, device: device, step: step)
        guard let truth = zone?.verdicts[set.id]?.truth else { return }
        for item in parked.items {
            guard
                let truthRow = truth[item.record].map({ truthRow in
                    truthRow.map { part($0, item: item, device: device) }
                }),
                case let theirs = item.theirs.map({ part($0, item: item, device: device) }),
                truthRow != theirs,
                // A device that has not heard the verdict knows the rows of its revision.
                zone?.row(item.record, at: step.cursor).map({
                    part(withoutKey($0, of: item.record), item: item, device: device)
                }) != theirs
            else { continue }
            report(
                .intentKept, actor: step.device, subject: "\(item.record) in conflict \(set.id)",
                expected: "theirs as the server told it, \(truthRow.text)", found: item.theirs.text)
        }
    }

    private func part(_ cells: Cells, item: ParkedSet.Item, device: DeviceModel) -> Cells {
        device.shared.part(cells, of: item.record.table)
    }

    /// Checks that the inbox keeps each change of a change set, whole.
    private mutating func checkItems(of parked: ParkedSet, _ changes: [RecordChange], _ step: DeviceStep) {
        let items = Dictionary(parked.items.map { ($0.record, $0) }, uniquingKeysWith: { $1 })
        for change in changes {
            let item = items[change.record]
            let mine = item?.mine ?? [:]
            guard item?.operation == change.operation, change.cells.allSatisfy({ mine[$0.key] == $0.value }) else {
                report(
                    .intentKept, actor: step.device, subject: "\(change.record) in conflict \(parked.id)",
                    expected: "\(change.operation) \(change.cells.text) kept as mine",
                    found: item.map { "\($0.operation?.rawValue ?? "nothing") \($0.mine.text)" } ?? "nothing")
                continue
            }
        }
    }

    /// Checks that a conflict stays in the inbox, whole, until it is resolved.
    mutating func checkInbox(
        _ inbox: [String: ParkedSet], from old: [String: ParkedSet], ids: Identities, remade: Remade, step: DeviceStep
    ) {
        for (id, parked) in old.sorted(by: { $0.key < $1.key }) {
            if let now = inbox[id] {
                let ids = remade.ids(for: id, ids)
                checkItems(of: now, parked.changes.map { rules.translated($0, ids) }, step)
            } else if !step.resolved.contains(id) {
                report(
                    .intentKept, actor: step.device, subject: "conflict \(id)",
                    expected: "to stay until it is resolved", found: "gone after \(step.step)")
            }
        }
    }
}

extension ParkedSet {
    /// The changes of the parked change set.
    var changes: [RecordChange] {
        items.compactMap { item in
            item.operation.map { RecordChange(item.record, operation: $0, cells: item.mine ?? [:]) }
        }
    }
}
