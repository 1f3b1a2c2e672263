/// Checks the server's transactions: the log is dense, the rows are its fold, and references hold.
extension HistoryChecker {
    mutating func take(_ step: ServerStep) {
        guard zone != nil else {
            begin(step)
            return
        }
        let request = step.request.flatMap { requests[$0] }
        if let error = step.error {
            checkRefused(step, error)
            return
        }
        if let request { checkAdmission(of: request, step) }
        take(assigned: step.assigned, through: step.revision)
        let touched = Set(step.commits.flatMap { $0.changes.map(\.record) }).union(step.rows.map(\.record))
        let before = Dictionary(uniqueKeysWithValues: touched.map { ($0, zone?.rows[$0]) })
        for commit in step.commits { fold(commit, at: step.wall) }
        checkRevision(step)
        checkRows(step, before: before)
        checkReferences(around: touched)
        if let answer = step.answer, let request {
            take(answer.lent, of: answer.epoch, to: request)
            check(answer, to: request, step)
        }
    }

    private mutating func begin(_ step: ServerStep) {
        var rows: [RecordID: Cells] = [:]
        for change in step.rows { rows[change.record] = change.after }
        zone = ZoneModel(
            epoch: step.epoch, revision: step.revision, layout: layouts["server"]?.last, rows: Rows(rows, rules: rules))
    }

    private mutating func checkRefused(_ step: ServerStep, _ error: String) {
        for set in step.request.flatMap({ requests[$0] })?.changeSets ?? [] {
            errors[set.id, default: []].insert(error)
        }
        guard !step.commits.isEmpty || !step.rows.isEmpty || step.revision != zone?.latest else {
            if let request = step.request.flatMap({ requests[$0] }) { checkRefusalCause(error, of: request) }
            return
        }
        report(
            .unharmed, actor: "server", subject: "request \(step.request ?? -1)", expected: "\(error) changes nothing",
            found: "revision \(step.revision), \(step.rows.count) rows changed")
    }

    /// Checks that the server refuses a request from another history, or from the future.
    private mutating func checkAdmission(of request: Request, _ step: ServerStep) {
        // A device with another history asks a question.
        guard let zone, !request.isQuestion else { return }
        if let epoch = request.epoch, epoch != zone.epoch {
            report(
                .dense, actor: "server", subject: "request \(request.number)",
                expected: "a refusal, since the epoch is \(zone.epoch)", found: "an answer to epoch \(epoch)")
        }
        if request.maxRevision > zone.latest {
            report(
                .dense, actor: "server", subject: "request \(request.number)",
                expected: "a refusal, since the zone is at \(zone.latest)",
                found: "an answer to revision \(request.maxRevision)")
        }
    }

    /// Checks that ids are unique: no two for one record, no two records under one.
    private mutating func take(assigned: [String: [IdentityPair]], through revision: Int64) {
        for (identity, pairs) in assigned.sorted(by: { $0.key < $1.key }) {
            for pair in pairs {
                counters.identities += 1
                let subject = RecordID(pair.table, String(pair.temporary))
                let firstID = zone?.assigned[identity]?[pair.table]?[pair.temporary]?.permanent
                if let firstID, firstID != pair.permanent {
                    report(
                        .references, actor: "server", subject: subject,
                        expected: "the permanent id \(firstID), for ever", found: "\(pair.permanent)")
                }
                if KeyText.isTemporary(String(pair.permanent)) || hasGiven(pair, to: identity) {
                    report(
                        .references, actor: "server", subject: subject, expected: "a permanent id that nobody else has",
                        found: "\(pair.permanent)")
                }
                zone?.assigned[identity, default: [:]][pair.table, default: [:]][pair.temporary] = ZoneModel.Assigned(
                    permanent: pair.permanent, revision: revision)
            }
        }
    }

    private func hasGiven(_ pair: IdentityPair, to identity: String) -> Bool {
        guard let zone else { return false }
        // Skips a record that exists, or ever existed, under that id.
        let record = RecordID(pair.table, String(pair.permanent))
        return zone.assigned[identity]?[pair.table]?[pair.temporary] == nil && zone.versions[record] != nil
    }

    private mutating func checkRevision(_ step: ServerStep) {
        guard let zone else { return }
        if step.revision != zone.latest {
            report(
                .dense, actor: "server", subject: "the zone's revision",
                expected: "\(zone.latest), the last of the log", found: "\(step.revision)")
        }
        if step.epoch != zone.epoch {
            report(.dense, actor: "server", subject: "the zone's epoch", expected: zone.epoch, found: step.epoch)
        }
    }

    /// Checks that the tables' rows are those of the log, and nothing else changed.
    private mutating func checkRows(_ step: ServerStep, before: [RecordID: Cells?]) {
        var actual = before
        for change in step.rows {
            if change.before != before[change.record] ?? nil {
                report(
                    .acknowledgedStays, actor: "server", subject: change.record,
                    expected: (before[change.record] ?? nil).text + " to stay until it is changed",
                    found: change.before.text)
            }
            actual[change.record] = .some(change.after)
        }
        for (record, row) in actual.sorted(by: { $0.key < $1.key }) {
            let expected = zone?.rows[record]
            guard row != expected else { continue }
            report(
                .dense, actor: "server", subject: record, expected: "what the log says, \(expected.text)",
                found: row.text)
        }
    }

    private mutating func checkReferences(around records: Set<RecordID>) {
        guard let rows = zone?.rows else { return }
        if let broken = rows.brokenReference(around: records.sorted(), rules: rules) {
            report(
                .references, actor: "server", subject: broken.child, expected: "a reference to a row that exists",
                found: "\(broken.parent)")
        }
        for record in records.sorted() {
            guard let row = rows[record], let table = rules.table(record.table) else { continue }
            let own = table.hasAssignedKeys ? [record] : []
            for id in own + rules.parents(of: record.table, row)
            where rules.table(id.table)?.hasAssignedKeys == true && KeyText.isTemporary(id.key) {
                report(.references, actor: "server", subject: record, expected: "permanent ids only", found: "\(id)")
            }
        }
    }

    /// Checks that a snapshot is the zone at its revision.
    mutating func checkSnapshot(epoch: String, revision: Int64, _ rows: [RecordID: Cells]) {
        counters.snapshots += 1
        guard let zone else { return }
        guard epoch == zone.epoch, revision <= zone.latest else {
            report(
                .atomic, actor: "server", subject: "a snapshot",
                expected: "epoch \(zone.epoch) up to revision \(zone.latest)",
                found: "epoch \(epoch) at revision \(revision)")
            return
        }
        compare(
            rows, expected: zone.state(at: revision), invariant: .atomic, actor: "server",
            what: "the snapshot at \(revision)")
    }

    /// Compares two sets of rows, and reports the first difference.
    mutating func compare(
        _ actual: [RecordID: Cells], expected: [RecordID: Cells], invariant: Violation.Invariant, actor: String,
        what: String
    ) {
        guard actual != expected else { return }
        let records = Set(actual.keys).union(expected.keys)
        guard let record = records.filter({ actual[$0] != expected[$0] }).min() else { return }
        report(
            invariant, actor: actor, subject: "\(record) in \(what)", expected: expected[record].text,
            found: actual[record].text)
    }
}
