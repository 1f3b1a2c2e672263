/// Nothing is refused, or parked, without a cause: an engine that refuses everything loses nothing
/// either.
extension HistoryChecker {
    /// What the server says about a refusal is so.
    mutating func checkCause(_ reply: Reply, _ id: String, identity: String?) {
        guard let zone, let authored = sets[id] else { return }
        if reply.reasons.isEmpty {
            reportCause(id, authored.device, "a reason for its refusal", found: "none")
        }
        guard authored.incarnation == zone.incarnation else { return }
        let ids = zone.identities(of: identity)
        if !reply.reasons.isEmpty,
            reply.reasons.allSatisfy({
                $0.rule == "unique" && isOwnHolder($0.record, authored, ids)
            })
        {
            reportCause(
                id,
                authored.device,
                "no refusal: whoever holds its unique values gives them away in it",
                found: "refused as unique"
            )
        }
        for reason in reply.reasons {
            switch reason.rule {
            case "changed" where !hasChanged(reason.record, authored, ids):
                reportCause(
                    id,
                    authored.device,
                    "no refusal: nobody else changed \(reason.record)",
                    found: "refused as changed"
                )
            case "predecessor" where !authored.after.contains(where: zone.hasRefused):
                reportCause(
                    id,
                    authored.device,
                    "no refusal: nothing that it builds on was refused",
                    found: "refused for its predecessor"
                )
            default: continue
            }
        }
    }

    private mutating func reportCause(
        _ id: String,
        _ device: String,
        _ expected: String,
        found: String
    ) {
        report(.intentKept, device, "change set \(id)", expected: expected, found: found)
    }

    /// Whether somebody else changed a record since the author saw it, in a way that meets the
    /// author's change.
    private func hasChanged(
        _ record: RecordID,
        _ authored: AuthoredSet,
        _ ids: Identities
    ) -> Bool {
        let changes = authored.changes.map { rules.translated($0, ids) }
        let seen = authored.seen.first { rules.translated($0.key, ids) == record }?.value
        let change = changes.first { $0.record == record }
        return (zone?.versions[record] ?? []).contains { version in
            guard version.revision > seen ?? authored.seenMin,
                !(version.changeSet.map(authored.own.contains) ?? false)
            else { return false }
            guard let change, change.operation == .update,
                rules.table(record.table)?.policy == .columns, let columns = version.columns
            else { return true }
            return !columns.isDisjoint(with: change.cells.keys)
        }
    }

    /// Whether a unique value is held by a record that the set itself changes or deletes: a swap,
    /// which has to work.
    private func isOwnHolder(
        _ record: RecordID,
        _ authored: AuthoredSet,
        _ ids: Identities
    ) -> Bool {
        guard let table = rules.table(record.table), let row = zone?.rows[record] else {
            return false
        }
        let changes = authored.changes.map { rules.translated($0, ids) }
        guard let change = changes.first(where: { $0.record == record }) else { return false }
        guard change.operation == .update else { return change.operation == .delete }
        let moved = change.cells.filter { row[$0.key] != $0.value }.keys
        return table.unique.allSatisfy { columns in columns.contains(where: moved.contains) }
    }

    /// A change set is parked when the server refused it, cannot take it, or refused what it builds
    /// on; and when the history has become another.
    mutating func checkParkingCause(_ id: String, _ device: DeviceModel, _ step: DeviceStep) {
        guard let zone, !zone.hasRefused(id), step.epoch == device.epoch,
            device.incarnation == zone.incarnation, step.cursor >= device.cursor,
            errors[id, default: []].isDisjoint(with: Self.permanentErrors)
        else { return }
        let known = step.conflicts?.map(\.id) ?? []
        let parked = Set(device.inbox.keys).union(known)
        guard let authored = sets[id],
            !authored.after.contains(where: { parked.contains($0) || zone.hasRefused($0) })
        else { return }
        report(
            .intentKept,
            step.device,
            "change set \(id)",
            expected: "to stay in the outbox: nobody refused it",
            found: "parked by \(step.step)"
        )
    }

    /// The codes of `Docs/PROTOCOL.md` after which sending the same again cannot help.
    private static let permanentErrors: Set<String> = [
        "malformedRequest", "duplicateName", "unknownTable", "unknownColumn", "invalidValue",
        "invalidKey", "unknownTemporaryId", "changeSetIdReused", "tooLarge", "brokenReference",
        "constraintViolated",
    ]
}
