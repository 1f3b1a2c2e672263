/// Checks one revision: it is the next one, it is whole, its author has seen the values that it
/// overwrites, and it is new.
extension HistoryChecker {
    mutating func fold(_ commit: Commit, at wall: Int64?) {
        guard let latest = zone?.latest else { return }
        counters.commits += 1
        if commit.revision != latest + 1 {
            report(
                .dense, actor: "server", subject: "revision \(commit.revision)",
                expected: "\(latest + 1), the next one", found: "\(commit.revision)")
        }
        let ids = identities(of: commit)
        let authored = commit.changeSet.flatMap { sets[$0] }
        let intents = Dictionary(
            (authored?.changes ?? []).map { rules.translated($0, ids) }.map { ($0.record, $0) },
            uniquingKeysWith: { $1 })
        if let id = commit.changeSet { checkOnce(id, commit: commit, authored: authored) }
        if let authored { checkTime(of: commit, authored, wall) }
        let rulings = checkSeen(commit, authored: authored, ids: ids, intents: intents)
        let before = Dictionary(
            uniqueKeysWithValues: Set(commit.changes.map(\.record)).union(intents.keys).map { ($0, zone?.rows[$0]) })
        write(commit)
        if authored != nil { checkWhole(commit, intents: intents, before: before, rulings: rulings) }
    }

    /// The permanent ids of the author's temporary ones.
    private mutating func identities(of commit: Commit) -> Identities {
        if let id = commit.changeSet, offers[id] != nil { return nameNewRecords(of: id, in: commit) }
        return zone?.identities(of: commit.identity) ?? [:]
    }

    private mutating func write(_ commit: Commit) {
        for change in commit.changes {
            let before = zone?.rows[change.record]
            let after = zone?.layout.fitted(rules.applied(change, to: before), of: change.record.table)
            if change.operation == .delete { counters.deletions += 1 }
            if (before != nil) == (change.operation == .create) {
                report(
                    .dense, actor: "server", subject: change.record,
                    expected: change.operation == .create ? "no row to create it over" : "a row",
                    found: "revision \(commit.revision) has \(change.operation) over \(before.text)")
            }
            zone?.rows.set(change.record, after, rules: rules)
            zone?.versions[change.record, default: []].append(
                ZoneModel.Version(
                    revision: commit.revision, row: after,
                    columns: change.operation == .update ? Set(change.cells.keys) : nil, changeSet: commit.changeSet,
                    stamp: ZoneModel.Stamp(time: commit.time, identity: commit.identity)))
        }
        zone?.latest = commit.revision
        zone?.touched[commit.revision] = commit.changes.map(\.record)
        zone?.times[commit.revision] = commit.time
        if let id = commit.changeSet {
            zone?.changeSets[commit.revision] = id
            zone?.verdicts[id] = ZoneModel.Verdict(body: nil, revision: commit.revision, decided: commit.revision)
        }
    }

    /// Checks that a change set commits once, after its predecessors, and never after its refusal.
    private mutating func checkOnce(_ id: String, commit: Commit, authored: AuthoredSet?) {
        if let verdict = zone?.verdicts[id] {
            report(
                .once, actor: "server", subject: "change set \(id)",
                expected: verdict.revision.map { "the verdict it has, revision \($0)" }
                    ?? "the verdict it has, refused", found: "revision \(commit.revision)")
        }
        for predecessor in authored?.after.sorted() ?? [] where zone?.revision(of: predecessor) == nil {
            report(
                .noSilentOverwrite, actor: "server", subject: "change set \(id)",
                expected: "nothing before \(predecessor), which it builds on", found: "revision \(commit.revision)")
        }
    }

    /// Checks that an author overwrites unseen values only by a policy, and notes the values that
    /// must be kept then.
    ///
    /// An author has seen the rows of their file at the time of the edit, whatever the change set
    /// claims as its base.
    private mutating func checkSeen(
        _ commit: Commit, authored: AuthoredSet?, ids: Identities, intents: [RecordID: RecordChange]
    ) -> [RecordID: Ruling] {
        guard let zone, let id = commit.changeSet, let authored else { return [:] }
        let author = Author(
            of: authored, ids, stamp: ZoneModel.Stamp(time: commit.time, identity: commit.identity), rules)
        let sideEffects = commit.changes.filter { intents[$0.record] == nil && $0.operation != .create }
        var rulings: [RecordID: Ruling] = [:]
        for change in intents.values.sorted(by: { $0.record < $1.record }) + sideEffects {
            let isNamed = intents[change.record] != nil
            let ruling = zone.ruling(on: change, isNamed: isNamed, by: author, rules)
            rulings[change.record] = ruling
            guard let version = ruling.unseen else {
                ledger.owe(for: ruling, on: change, zone.rows[change.record], commit)
                continue
            }
            report(
                .noSilentOverwrite, actor: authored.device, subject: change.record,
                expected: "a conflict, since revision \(version.revision) was not seen"
                    + " by change set \(id), made at \(author.base(of: change.record))",
                found: "\(change.operation) at revision \(commit.revision)"
                    + (isNamed ? "" : ", which it did not even name"))
        }
        return rulings
    }

    /// Checks that every change of the set took effect, and beside them only the effects of its
    /// deletions.
    private mutating func checkWhole(
        _ commit: Commit, intents: [RecordID: RecordChange], before: [RecordID: Cells?], rulings: [RecordID: Ruling]
    ) {
        guard let id = commit.changeSet else { return }
        for (record, change) in intents.sorted(by: { $0.key < $1.key }) {
            let row = zone?.rows[record]
            let wanted = rulings[record]?.standing(of: change, over: before[record] ?? nil, rules)
            guard !holds(wanted ?? change, in: row) else { continue }
            report(
                .atomic, actor: "server", subject: record,
                expected: "\(change.operation) \((wanted ?? change).cells.text) of change set \(id)"
                    + " at revision \(commit.revision)", found: row.text)
        }
        let deleted = Set(commit.changes.filter { $0.operation == .delete }.map(\.record))
        for change in commit.changes where change.operation == .update {
            guard let wanted = intents[change.record] else { continue }
            checkSideEffects(
                of: change, intent: wanted, deleted: deleted, before: before[change.record] ?? nil, commit: commit)
        }
        for change in commit.changes where intents[change.record] == nil {
            let row = (before[change.record] ?? nil) ?? [:]
            let parents = rules.parents(of: change.record.table, row)
            guard !parents.contains(where: deleted.contains) else { continue }
            report(
                .atomic, actor: "server", subject: change.record, expected: "only what change set \(id) asks for",
                found: "\(change.operation) \(change.cells.text) at revision \(commit.revision)")
        }
    }

    /// Checks that an update sets only its own columns.
    ///
    /// The columns of other writers stay.
    private mutating func checkSideEffects(
        of change: RecordChange, intent: RecordChange, deleted: Set<RecordID>, before: Cells?, commit: Commit
    ) {
        guard intent.operation == .update, let before else { return }
        let triggered = rules.table(change.record.table)?.triggered ?? []
        for column in change.cells.keys.sorted() where intent.cells[column] == nil && !triggered.contains(column) {
            let parents = rules.parents(of: change.record.table, before, through: column)
            guard !parents.contains(where: deleted.contains) else { continue }
            report(
                .atomic, actor: "server", subject: change.record,
                expected: "only what change set \(commit.changeSet ?? "") asks for",
                found: "\(column)=\(change.cells[column] ?? "") too at revision \(commit.revision)")
        }
    }

    private func holds(_ change: RecordChange, in row: Cells?) -> Bool {
        switch change.operation {
        case .delete: return row == nil
        case .create, .update:
            guard let row else { return false }
            let triggered = rules.table(change.record.table)?.triggered ?? []
            return change.cells.allSatisfy { row[$0.key] == $0.value || triggered.contains($0.key) }
        }
    }
}

extension Cells {
    /// The columns in one line, sorted by name.
    var text: String { Optional(self).text }
}
