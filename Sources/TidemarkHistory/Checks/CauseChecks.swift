/// Nothing is refused, or parked, without a cause: an engine that refuses everything loses nothing
/// either.
extension HistoryChecker {
    /// What the server says about a refusal is so, at the revision at which it was decided.
    mutating func checkCause(_ reply: Reply, _ id: String, identity: String?, at revision: Int64, _ wall: Int64?) {
        guard let zone, let authored = sets[id] else { return }
        if reply.reasons.isEmpty { reportCause(id, authored.device, "a reason for its refusal", found: "none") }
        let ids = zone.identities(of: identity)
        let scene = Scene(zone, at: revision, authored.changes.map { rules.translated($0, ids) }, rules)
        for reason in reply.reasons {
            let isSo: Bool
            switch reason.rule {
            case "changed":
                // What the author had seen of another history is not known.
                guard authored.incarnation == zone.incarnation else { continue }
                isSo = hasChanged(reason.record, authored, ids, scene, wall)
            case "deleted": isSo = scene.isDeleted(reason.record, authored.own)
            case "exists": isSo = scene.isThere(reason.record)
            case "unique": isSo = scene.hasClash
            case "parentDeleted": isSo = scene.hasOrphan
            case "referenced": isSo = scene.hasReferenced
            case "predecessor": isSo = authored.after.contains(where: zone.hasRefused)
            default: isSo = false
            }
            guard !isSo else { continue }
            reportCause(
                id,
                authored.device,
                reason.rule == "changed"
                    ? "no refusal: nobody else changed \(reason.record)"
                    : "no refusal: nothing is so in the zone at \(revision)",
                found: "refused for \(reason.record) as \(reason.rule)"
            )
        }
    }

    private mutating func reportCause(_ id: String, _ device: String, _ expected: String, found: String) {
        report(.intentKept, device, "change set \(id)", expected: expected, found: found)
    }

    /// Whether somebody else changed a record since the author saw it, in a way that meets the
    /// author's change.
    private func hasChanged(
        _ record: RecordID,
        _ authored: AuthoredSet,
        _ ids: Identities,
        _ scene: Scene,
        _ wall: Int64?
    ) -> Bool {
        // A time that the server does not believe is that of its arrival.
        let isBelieved = authored.time / 1_000 <= (wall ?? 0) + Self.skewMax
        let time = isBelieved ? authored.time : (wall ?? 0) * 1_000
        let stamp = ZoneModel.Stamp(time: time, identity: devices[authored.device]?.identity)
        let author = Author(of: authored, ids, stamp: stamp, rules)
        let named = scene.changes.first { $0.record == record }
        // What the set does not name is deleted, or emptied, along with what it does.
        let change = named ?? RecordChange(record, .delete)
        let zone = scene.zone
        return zone.ruling(on: change, isNamed: named != nil, by: author, rules).unseen != nil
    }

    /// A request is refused whole for what is wrong with it, and with nothing else.
    ///
    /// What honest devices send is well formed; so most of these refusals have no cause.
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
            let made = Set(changes.filter { $0.operation == .create }.map(\.record))
            isSo = changes.contains { change in
                let row = rules.keyCells(change.record).merging(change.cells) { $1 }
                let named = rules.parents(of: change.record.table, row) + [change.record]
                return named.contains {
                    !made.contains($0) && zone.versions[rules.translated($0, ids)]?.isEmpty != false
                }
            }
        default: isSo = false
        }
        guard !isSo else { return }
        report(
            .intentKept,
            request.device,
            "request \(request.number)",
            expected: "no \(error): nothing in it is wrong so",
            found: "refused with all its \(request.changeSets.count) change sets"
        )
    }

    /// A change set is parked when the server refused it, cannot take it, or refused what it builds
    /// on; and when the history has become another.
    mutating func checkParkingCause(_ id: String, _ device: DeviceModel, _ step: DeviceStep) {
        guard let zone, !zone.hasRefused(id), step.epoch == device.epoch, device.incarnation == zone.incarnation,
            step.cursor >= device.cursor, errors[id, default: []].isDisjoint(with: Self.permanentErrors)
        else { return }
        let known = step.conflicts?.map(\.id) ?? []
        let parked = Set(device.inbox.keys).union(known)
        guard let authored = sets[id], !authored.after.contains(where: { parked.contains($0) || zone.hasRefused($0) })
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
        "malformedRequest", "duplicateName", "unknownTable", "unknownColumn", "invalidValue", "invalidKey",
        "unknownTemporaryId", "changeSetIdReused", "tooLarge", "brokenReference", "constraintViolated",
    ]
}
