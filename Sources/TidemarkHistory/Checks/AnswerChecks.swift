/// Checks answers: they are complete, without gaps, with one verdict for ever, and with the truth.
extension HistoryChecker {
    mutating func check(_ answer: Answer, to request: Request, _ step: ServerStep) {
        if !request.isQuestion { checkStream(answer, to: request) }
        let requestIDs = Set(request.changeSets.map(\.id))
        var isRetry = false
        for reply in answer.replies {
            guard let id = reply.changeSet else { continue }
            guard requestIDs.contains(id) || reply.isConflict else { continue }
            let decidedNow = step.commits.contains { $0.changeSet == id } || zone?.verdicts[id] == nil
            isRetry = isRetry || !decidedNow
            check(reply, id: id, in: request, at: revision(id, request: request, step: step), wall: step.wall)
        }
        if isRetry { counters.retries += 1 }
    }

    /// The zone's revision when the server decided a change set of a request, if it refused it.
    ///
    /// Later change sets of the request commit afterwards.
    private func revision(_ id: String, request: Request, step: ServerStep) -> Int64 {
        let later = request.changeSets.drop { $0.id != id }.dropFirst().map(\.id)
        let next = step.commits.first { $0.changeSet.map(later.contains) ?? false }
        return next.map { $0.revision - 1 } ?? zone?.latest ?? 0
    }

    /// Checks that the answer has every revision after the device's, up to its own end.
    private mutating func checkStream(_ answer: Answer, to request: Request) {
        guard let zone else { return }
        var next = request.maxRevision + 1
        for reply in answer.replies {
            guard let revision = reply.revision, revision > request.maxRevision else { continue }
            if revision != next || zone.changeSets[revision] != reply.changeSet {
                report(
                    .dense, actor: "server", subject: "the answer to request \(request.number)",
                    expected: "revision \(next), \(zone.changeSets[next] ?? "without an id")",
                    found: "revision \(revision), \(reply.changeSet ?? "without an id")")
            }
            next = revision + 1
        }
        if next != answer.maxRevision + 1 || answer.maxRevision > zone.latest {
            report(
                .dense, actor: "server", subject: "the answer to request \(request.number)",
                expected: "every revision up to \(answer.maxRevision) of \(zone.latest)",
                found: "\(next - 1) as the last")
        }
    }

    /// Checks that a change set has one verdict, and that its first one is right.
    private mutating func check(_ reply: Reply, id: String, in request: Request, at revision: Int64, wall: Int64?) {
        if let verdict = zone?.verdicts[id] {
            if verdict.revision != reply.revision {
                report(
                    .once, actor: "server", subject: "change set \(id)",
                    expected: verdict.revision.map { "revision \($0)" } ?? "refused, as before",
                    found: reply.revision.map { "revision \($0)" } ?? "refused")
            } else if let body = verdict.body, let again = reply.body, body != again, isAuthor(request, of: id) {
                report(
                    .once, actor: "server", subject: "change set \(id)",
                    expected: "the bytes that it got first, \(body)", found: again)
            }
            if isAuthor(request, of: id), verdict.body == nil { zone?.verdicts[id]?.body = reply.body }
            return
        }
        guard reply.isConflict else {
            report(
                .acknowledgedStays, actor: "server", subject: "change set \(id)",
                expected: "nothing acknowledged that is not in the log",
                found: "revision \(reply.revision ?? 0) in the answer to request \(request.number)")
            return
        }
        counters.conflicts += 1
        zone?.verdicts[id] = ZoneModel.Verdict(body: reply.body, revision: nil, decided: revision, truth: reply.truth)
        checkTruth(reply, id, in: request, at: revision)
        checkCause(reply, id: id, identity: devices[request.device]?.identity, at: revision, wall: wall)
    }

    private func isAuthor(_ request: Request, of id: String) -> Bool { sets[id]?.device == request.device }

    /// Checks the truth of a refusal: each touched record, each record that the reasons name, and,
    /// if the request wants them, all records that refer to a deleted one.
    private mutating func checkTruth(_ reply: Reply, _ id: String, in request: Request, at revision: Int64) {
        guard let zone, let authored = sets[id] else { return }
        let rows = revision == zone.latest ? zone.rows : Rows(zone.state(at: revision), rules: rules)
        let ids = zone.identities(of: devices[request.device]?.identity)
        var due = Set(authored.changes.map { rules.translated($0.record, ids) })
        if request.wantsRelated {
            let deleted = authored.changes.filter { $0.operation == .delete }
            due.formUnion(rows.descendants(of: deleted.map { rules.translated($0.record, ids) }))
        }
        for reason in reply.reasons where reason.rule != "predecessor" && reason.record.key != "" {
            due.insert(reason.record)
        }
        for record in due.sorted() {
            let row = rows[record].map { withoutKey($0, of: record) }
            guard let answerRow = truth(reply.truth, of: record) else {
                report(
                    .noSilentOverwrite, actor: "server", subject: record,
                    expected: "the truth, \(row.text), with the refusal of \(id)", found: "nothing about it")
                continue
            }
            guard answerRow != row else { continue }
            report(
                .noSilentOverwrite, actor: "server", subject: record,
                expected: "the truth, \(row.text), with the refusal of \(id)", found: answerRow.text)
        }
    }

    /// Finds a record in a truth, where a temporary id is negative whatever the device's tables
    /// hold.
    private func truth(_ truth: [RecordID: Cells?], of record: RecordID) -> Cells?? {
        truth[record] ?? truth[rules.wire(record)]
    }

    func withoutKey(_ row: Cells, of record: RecordID) -> Cells {
        let key = rules.table(record.table)?.key ?? []
        return row.filter { !key.contains($0.key) }
    }
}
