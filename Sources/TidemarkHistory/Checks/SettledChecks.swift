/// Checks that a change set leaves the outbox only with its verdict.
extension HistoryChecker {
    /// Checks that a change set leaves the outbox with its effects, or into the conflict inbox.
    mutating func checkSettled(
        _ old: [OutboxSet], new: [OutboxSet], inbox: [String: ParkedSet], remade: Remade, device: inout DeviceModel,
        step: DeviceStep
    ) {
        guard step.outbox != nil else { return }
        let waiting = Set(new.map(\.id))
        for set in old where !waiting.contains(set.id) {
            let revision = zone?.revision(of: set.id)
            if let parked = inbox[set.id], !parked.isOverruled {
                checkParked(set, parked: parked, remade: remade, device: device, step: step)
            } else if let revision, revision > step.cursor {
                report(
                    .acknowledgedStays, actor: step.device, subject: "change set \(set.id)",
                    expected: "to wait until revision \(revision) is taken in",
                    found: "gone from the outbox at revision \(step.cursor)")
            } else if revision != nil {
                device.settled.append(set.id)
                checkMapped(set, device: device, step: step)
            } else if set.wire == nil, device.shared.part(set.changes).isEmpty {
                forget(set, new)
            } else {
                report(
                    .intentKept, actor: step.device, subject: "change set \(set.id)",
                    expected: "its effects, or itself among the conflicts, after \(step.step)",
                    found: "gone from the outbox without a verdict")
            }
        }
    }

    /// Passes the predecessors of a change set on if nothing of it travels, because the zone has
    /// none of its columns.
    private mutating func forget(_ set: OutboxSet, _ waiting: [OutboxSet]) {
        let after = sets[set.id]?.after ?? []
        for other in waiting where sets[other.id]?.after.remove(set.id) != nil {
            sets[other.id]?.after.formUnion(after)
        }
    }

    /// Checks that every temporary id of the file leads to its permanent one.
    private mutating func checkMapped(_ set: OutboxSet, device: DeviceModel, step: DeviceStep) {
        for change in set.changes where change.operation == .create {
            guard let id = Int64(change.record.key),
                let assignment = zone?.assigned[step.identity]?[change.record.table]?[id],
                device.identities[change.record.table]?[id] == nil
            else { continue }
            report(
                .references, actor: step.device, subject: change.record,
                expected: "\(assignment.permanent) in the map of ids", found: "nothing")
        }
    }
}
