/// Checks the writes of clients without rows by the same rules as those of devices: what a client means is what it sent
/// over REST, and it has seen what its tags name.
extension HistoryChecker {
    /// Takes writes that a client sends for the first time.
    mutating func take(_ offer: Offer) {
        offers[offer.id] = OfferModel(offer)
        var baseRevisions: [RecordID: Int64] = [:]
        for change in offer.changes {
            guard let tag = change.base else { continue }
            // A tag without its record shows the client nothing.
            let seen = tag == Offer.anyState ? tag : min(tag, offer.sights[change.record] ?? 0)
            baseRevisions[change.record] = max(seen, offer.seen ?? 0)
        }
        let oldestTag = offer.changes.compactMap(\.base).min().map { max($0, offer.seen ?? 0) }
        sets[offer.id] = AuthoredSet(
            device: offer.client, changes: offer.changes, after: [], baseRevisions: baseRevisions,
            incarnation: zone?.incarnation ?? 0, own: offer.answered.union([offer.id]), unnamedBase: oldestTag ?? 0)
    }

    /// Notes the zone's revision at the first verdict on a change set.
    mutating func judge(_ id: String) {
        guard let latest = zone?.latest, offers[id]?.judgedAt == nil else { return }
        offers[id]?.judgedAt = latest
    }

    /// Finds the permanent ids of a client's new records by their contents, since no table maps them.
    mutating func nameNewRecords(of id: String, in commit: Commit) -> Identities {
        guard let offer = offers[id]?.offer else { return [:] }
        var ids: Identities = [:]
        var free = commit.changes.filter { $0.operation == .create }
        var waiting = offer.changes.filter {
            $0.operation == .create && rules.table($0.record.table)?.hasAssignedKeys == true
                && KeyText.isTemporary($0.record.key)
        }
        var count = waiting.count + 1
        // A record comes after those that it refers to.
        while waiting.count < count {
            count = waiting.count
            waiting = waiting.filter { change in
                let wanted = rules.translated(change.cells, of: change.record.table, ids)
                let index = free.firstIndex { made in
                    made.record.table == change.record.table && wanted.allSatisfy { made.cells[$0.key] == $0.value }
                }
                guard let index, let temporary = Int64(change.record.key),
                    let permanent = Int64(free.remove(at: index).record.key)
                else { return true }
                ids[change.record.table, default: [:]][temporary] = permanent
                return false
            }
        }
        offers[id]?.identities = ids
        return ids
    }

    // MARK: Answers

    /// Checks an answer to writes: a success is in the log, a refusal has a cause, and records are the present ones.
    mutating func check(_ answer: OfferAnswer) {
        guard let model = offers[answer.id] else { return }
        switch answer.outcome {
        case .done(let records): check(records, model)
        case .refused(let refusal): check(refusal, model)
        }
    }

    private mutating func check(_ records: [ShownRecord?], _ model: OfferModel) {
        let offer = model.offer
        guard let zone, let revision = zone.revision(of: offer.id) else {
            report(
                .acknowledgedStays, actor: "server", subject: "change set \(offer.id)",
                expected: "nothing acknowledged that is not in the log", found: "success")
            return
        }
        for (change, shown) in zip(offer.changes, records) {
            let record = rules.translated(change.record, model.identities)
            guard let shown else {
                guard change.operation != .delete, let row = zone.rows[record] else { continue }
                reportShown(record, to: offer.client, expected: row.text, found: "no record")
                continue
            }
            if shown.record != record {
                report(.references, actor: "server", subject: record, expected: "its id", found: "\(shown.record)")
            } else if shown.cells != nil {
                check(shown, to: offer.client)
            } else if let tag = shown.revision, tag != revision {
                reportShown(record, to: offer.client, expected: "the tag of \(revision)", found: "\(tag)")
            }
        }
    }

    private mutating func check(_ refusal: OfferAnswer.Refusal, _ model: OfferModel) {
        guard let zone else { return }
        let offer = model.offer
        if let current = refusal.current { check(current, to: offer.client) }
        if let verdict = zone.verdicts[offer.id], verdict.revision != nil || !Self.isVerdict(refusal) {
            report(
                .once, actor: "server", subject: "change set \(offer.id)",
                expected: "the verdict it has, \(verdict.revision.map { "revision \($0)" } ?? "refused")",
                found: refusal.code)
        } else if !Self.isVerdict(refusal) {
            checkCause(of: refusal, offer)
        } else if zone.verdicts[offer.id] == nil {
            let revision = model.judgedAt ?? zone.latest
            counters.conflicts += 1
            self.zone?.verdicts[offer.id] = ZoneModel.Verdict(body: nil, revision: nil, decided: revision)
            let reply = Reply(changeSet: offer.id, revision: nil, body: nil, reasons: refusal.reasons)
            checkCause(reply, id: offer.id, identity: nil, at: revision, wall: nil)
        }
    }

    /// Whether a refusal is the verdict of the judge, which stays.
    private static func isVerdict(_ refusal: OfferAnswer.Refusal) -> Bool {
        ["preconditionFailed", "conflict"].contains(refusal.code)
    }

    /// Checks a refusal before or instead of a verdict: the record is not there, or a value is wrong.
    private mutating func checkCause(of refusal: OfferAnswer.Refusal, _ offer: Offer) {
        if refusal.code == "unknownRecord" {
            guard let record = refusal.place, let row = zone?.rows[record] else { return }
            reportShown(record, to: offer.client, expected: row.text, found: "not there")
        } else if Self.permanentErrors.contains(refusal.code) {
            let request = Request(
                device: offer.client, number: 0, maxRevision: 0, epoch: nil, changeSets: [(id: offer.id, wire: "")])
            checkRefusalCause(refusal.code, of: request)
        } else {
            report(
                .intentKept, actor: offer.client, subject: "change set \(offer.id)",
                expected: "done, or a refusal with a reason", found: refusal.code)
        }
    }

    // MARK: Records

    /// Checks that an answer shows the zone at its revision.
    mutating func check(_ sight: Sight) {
        guard let zone else { return }
        if let revision = sight.revision, revision != zone.latest {
            report(
                .dense, actor: "server", subject: "an answer to \(sight.client)", expected: "revision \(zone.latest)",
                found: "\(revision)")
        }
        for shown in sight.records { check(shown, to: sight.client) }
        for record in sight.absent {
            guard let row = zone.rows[record] else { continue }
            reportShown(record, to: sight.client, expected: row.text, found: "not there")
        }
    }

    private mutating func check(_ shown: ShownRecord, to client: String) {
        guard let zone else { return }
        let row = zone.rows[shown.record]
        let revision = zone.versions[shown.record]?.last?.revision
        guard revision != shown.revision || row == nil || shown.cells != nil && shown.cells != row else { return }
        reportShown(
            shown.record, to: client, expected: "\(row.text) with the tag of \(revision ?? 0)",
            found: "\(shown.cells.text) with that of \(shown.revision ?? 0)")
    }

    private mutating func reportShown(_ record: RecordID, to client: String, expected: String, found: String) {
        report(.dense, actor: client, subject: "\(record) in an answer", expected: expected, found: found)
    }

    /// Checks a client's copy, made from a list and the feed after it, against the zone at that revision.
    mutating func checkMirror(_ client: String, at revision: Int64, _ rows: [RecordID: Cells]) {
        guard let zone else { return }
        compare(
            rows, expected: zone.state(at: revision), invariant: .converged, actor: client,
            what: "the copy at \(revision)")
    }
}

/// A client's writes, and what became of them.
struct OfferModel: Sendable {
    let offer: Offer
    /// The ids of its new records.
    var identities: Identities = [:]
    /// The zone's revision at the verdict.
    var judgedAt: Int64?

    init(_ offer: Offer) { self.offer = offer }
}
