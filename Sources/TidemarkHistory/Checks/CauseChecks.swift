/// Checks that every refusal and every parked change set has a cause.
///
/// An engine that refuses everything loses nothing either.
extension HistoryChecker {
    /// Checks that the reasons of a refusal are true at the revision of the verdict.
    mutating func checkCause(_ reply: Reply, id: String, identity: String?, at revision: Int64, wall: Int64?) {
        guard let zone, let authored = sets[id] else { return }
        if reply.reasons.isEmpty {
            reportCause(id, device: authored.device, expected: "a reason for its refusal", found: "none")
        }
        let ids = zone.identities(of: identity)
        // The server replaces a time that it does not believe by the time of arrival.
        let isBelieved = authored.time / 1_000 <= (wall ?? 0) + Self.skewMax
        let time = isBelieved ? authored.time : (wall ?? 0) * 1_000
        let stamp = ZoneModel.Stamp(time: time, identity: devices[authored.device]?.identity)
        let author = Author(of: authored, ids, stamp: stamp, rules)
        let changes = authored.changes.map { rules.translated($0, ids) }
        let scene = Scene(zone, at: revision, changes: changes, by: author, rules: rules)
        for reason in reply.reasons {
            let isSo: Bool
            switch reason.rule {
            case "changed":
                // The author's base belongs to another history, so it proves nothing.
                guard authored.incarnation == zone.incarnation else { continue }
                isSo =
                    hasChanged(reason.record, by: author, ancestors: ancestors(of: authored), scene: scene)
                    || hasOutdatedTag(reason.record, by: author, of: id, scene: scene)
            // A device shows a record again whose deletion does not fit yet, so a later edit may meet that deletion.
            case "deleted": isSo = scene.isDeleted(reason.record, authored.own.subtracting(authored.after))
            case "exists": isSo = scene.isThere(reason.record)
            case "unique": isSo = scene.hasClash
            case "parentDeleted": isSo = scene.hasOrphan
            case "referenced": isSo = scene.hasReferenced
            case "predecessor": isSo = authored.after.contains(where: zone.hasRefused)
            default: isSo = false
            }
            guard !isSo else { continue }
            reportCause(
                id, device: authored.device,
                expected: reason.rule == "changed"
                    ? "no refusal: nobody else changed \(reason.record)"
                    : "no refusal: nothing is so in the zone at \(revision)",
                found: "refused for \(reason.record) as \(reason.rule)")
        }
    }

    private mutating func reportCause(_ id: String, device: String, expected: String, found: String) {
        report(.intentKept, actor: device, subject: "change set \(id)", expected: expected, found: found)
    }

    /// Whether another author changed a record after the author's base, in a way that meets the
    /// author's change.
    ///
    /// On the author's rows the change set has no effect on a record that it does not name, so it does not say that it
    /// builds on the author's own changes of that record. Only its ancestors count as seen there.
    private func hasChanged(_ record: RecordID, by author: Author, ancestors: Set<String>, scene: Scene) -> Bool {
        let named = scene.changes.first { $0.record == record }
        let author = named == nil ? author.having(made: ancestors) : author
        // The database deletes or empties records that the set does not name, along with its own.
        let change = named ?? RecordChange(record, operation: .delete)
        let zone = scene.zone
        return zone.ruling(on: change, isNamed: named != nil, by: author, rules).unseen != nil
    }

    /// Whether a client holds a tag from before an own change set that changed the record without naming it, as a
    /// deletion does that empties references.
    ///
    /// The client has not seen that version of the record. A device has, because it replays its changes on its rows.
    private func hasOutdatedTag(_ record: RecordID, by author: Author, of id: String, scene: Scene) -> Bool {
        guard offers[id] != nil else { return false }
        let naming = author.own.filter { own in
            guard own != id, let changes = sets[own]?.changes else { return own == id }
            let ids = offers[own]?.identities ?? [:]
            return changes.contains { rules.translated($0.record, ids) == record }
        }
        return hasChanged(record, by: author.having(made: naming), ancestors: [], scene: scene)
    }

    /// The change sets that a change set builds on, directly or through others.
    private func ancestors(of set: AuthoredSet) -> Set<String> {
        var ancestors = set.after
        var next = ancestors
        while let id = next.popFirst() {
            for predecessor in sets[id]?.after ?? [] where ancestors.insert(predecessor).inserted {
                next.insert(predecessor)
            }
        }
        return ancestors
    }

    /// Checks that the server refuses a whole request only for a fault in it.
    ///
    /// Requests of honest devices are well formed, so most of these refusals have no cause.
    mutating func checkRefusalCause(_ error: String, of request: Request) {
        guard let zone, Self.permanentErrors.contains(error) else { return }
        let changes = request.changeSets.flatMap { sets[$0.id]?.changes ?? [] }
        let ids = zone.identities(of: devices[request.device]?.identity)
        let isSo: Bool
        switch error {
        case "unknownTable", "unknownColumn":
            isSo =
                zone.layout != nil
                && changes.contains { change in
                    guard let columns = zone.layout?[change.record.table] else { return true }
                    return change.cells.keys.contains { columns[$0] == nil }
                }
        case "brokenReference", "unknownTemporaryId":
            let creations = Set(changes.filter { $0.operation == .create }.map(\.record))
            isSo = changes.contains { change in
                let row = rules.keyCells(change.record).merging(change.cells) { $1 }
                let named = rules.parents(of: change.record.table, row) + [change.record]
                return named.contains {
                    !creations.contains($0) && zone.versions[rules.translated($0, ids)]?.isEmpty != false
                }
            }
        case "constraintViolated":
            isSo = Dictionary(grouping: changes.map { rules.translated($0, ids) }, by: \.record).contains {
                mayMissMinimum($0.value, over: zone.rows[$0.key])
            }
        default: isSo = false
        }
        guard !isSo else { return }
        report(
            .intentKept, actor: request.device, subject: "request \(request.number)",
            expected: "no \(error): nothing in it is wrong so",
            found: "refused with all its \(request.changeSets.count) change sets")
    }

    /// Whether some of a request's changes of a record may lead to a row that its table does not take.
    ///
    /// Others of them may be conflicts, so this takes the least of all possible values.
    private func mayMissMinimum(_ changes: [RecordChange], over row: Cells?) -> Bool {
        guard let table = changes.first.flatMap({ rules.table($0.record.table) }) else { return false }
        let columns = Set(changes.flatMap(\.cells.keys)).filter { table.policy(of: $0) == .add }
        return columns.contains { column in
            let cells = changes.compactMap { $0.cells[column] }
            let deltas = cells.compactMap { Rules.delta($0) }
            let values = (cells.filter { Rules.delta($0) == nil } + [row?[column]].compactMap { $0 }).map { Int64($0) }
            guard !deltas.isEmpty else { return false }
            guard let least = values.compactMap({ $0 }).min(), !values.contains(nil) else { return true }
            return least + deltas.filter { $0 < 0 }.reduce(0, +) < table.minimums[column] ?? .min
        }
    }

    /// Checks that a device parks a change set only if the server refused it, cannot take it, or
    /// refused one of its predecessors, or if the history has become another.
    mutating func checkParkingCause(_ id: String, remade: Remade, device: DeviceModel, step: DeviceStep) {
        guard let zone, !zone.hasRefused(id), step.epoch == device.epoch, device.incarnation == zone.incarnation,
            step.cursor >= device.cursor, errors[id, default: []].isDisjoint(with: Self.permanentErrors)
        else { return }
        let conflictIDs = step.conflicts?.map(\.id) ?? []
        // A predecessor that was parked as well may have been made again since.
        let parked = Set(device.inbox.keys).union(conflictIDs).union(remade.sets.keys)
        guard let authored = sets[id], !authored.after.contains(where: { parked.contains($0) || zone.hasRefused($0) })
        else { return }
        report(
            .intentKept, actor: step.device, subject: "change set \(id)",
            expected: "to stay in the outbox: nobody refused it", found: "parked by \(step.step)")
    }

    /// The codes of `Docs/PROTOCOL.md` after which a retry cannot help.
    static let permanentErrors: Set<String> = [
        "malformedRequest", "duplicateName", "unknownTable", "unknownColumn", "invalidValue", "invalidKey",
        "unknownTemporaryId", "changeSetIdReused", "tooLarge", "brokenReference", "constraintViolated",
    ]
}
