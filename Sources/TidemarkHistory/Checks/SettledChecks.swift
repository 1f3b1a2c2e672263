/// A change set leaves the outbox with its verdict only.
extension HistoryChecker {
    /// A change set leaves the outbox with its effects, or into the conflict inbox.
    mutating func checkSettled(
        _ old: [OutboxSet],
        _ new: [OutboxSet],
        _ inbox: [String: ParkedSet],
        _ device: inout DeviceModel,
        _ step: DeviceStep
    ) {
        guard step.outbox != nil else { return }
        let waiting = Set(new.map(\.id))
        for set in old where !waiting.contains(set.id) {
            let revision = zone?.revision(of: set.id)
            if let parked = inbox[set.id], !parked.isOverruled {
                checkParked(set, parked, device, step)
            } else if let revision, revision > step.cursor {
                report(
                    .acknowledgedStays,
                    step.device,
                    "change set \(set.id)",
                    expected: "to wait until revision \(revision) is taken in",
                    found: "gone from the outbox at revision \(step.cursor)"
                )
            } else if revision != nil {
                device.settled.append(set.id)
                checkMapped(set, device, step)
            } else if set.wire == nil, device.shared.part(set.changes).isEmpty {
                forget(set, new)
            } else {
                report(
                    .intentKept,
                    step.device,
                    "change set \(set.id)",
                    expected: "its effects, or itself among the conflicts, after \(step.step)",
                    found: "gone from the outbox without a verdict"
                )
            }
        }
    }

    /// Of a change set that sets only what the zone has no place for nothing travels: what builds
    /// on it builds on what it built on itself.
    private mutating func forget(_ set: OutboxSet, _ waiting: [OutboxSet]) {
        let after = sets[set.id]?.after ?? []
        for other in waiting where sets[other.id]?.after.remove(set.id) != nil {
            sets[other.id]?.after.formUnion(after)
        }
    }

    /// Whoever still holds a temporary id finds the permanent one.
    private mutating func checkMapped(_ set: OutboxSet, _ device: DeviceModel, _ step: DeviceStep) {
        for change in set.changes where change.operation == .create {
            guard let id = Int64(change.record.key),
                let given = zone?.assigned[step.identity]?[change.record.table]?[id],
                device.identities[change.record.table]?[id] == nil
            else { continue }
            report(
                .references,
                step.device,
                change.record,
                expected: "\(given.permanent) in the map of ids",
                found: "nothing"
            )
        }
    }
}
