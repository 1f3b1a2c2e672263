/// One revision: it is next, it is whole, its author has seen what it overwrites, and it was not
/// there before.
extension HistoryChecker {
    mutating func fold(_ commit: Commit, author device: String?) {
        guard let latest = zone?.latest else { return }
        counters.commits += 1
        if commit.revision != latest + 1 {
            report(
                .dense,
                "server",
                "revision \(commit.revision)",
                expected: "\(latest + 1), the next one",
                found: "\(commit.revision)"
            )
        }
        let ids = zone?.identities(of: commit.identity) ?? [:]
        let authored = commit.changeSet.flatMap { sets[$0] }
        let asked = Dictionary(
            (authored?.changes ?? []).map { rules.translated($0, ids) }.map { ($0.record, $0) },
            uniquingKeysWith: { $1 }
        )
        if let id = commit.changeSet { checkOnce(id, commit, authored) }
        checkSeen(commit, authored, ids, asked)
        let before = Dictionary(
            uniqueKeysWithValues: Set(commit.changes.map(\.record)).map { ($0, zone?.rows[$0]) }
        )
        write(commit)
        if authored != nil { checkWhole(commit, asked, before) }
    }

    private mutating func write(_ commit: Commit) {
        for change in commit.changes {
            let before = zone?.rows[change.record]
            let after = zone?.layout.fitted(
                rules.applied(change, to: before),
                of: change.record.table
            )
            if change.operation == .delete { counters.deletions += 1 }
            if (before != nil) == (change.operation == .create) {
                report(
                    .dense,
                    "server",
                    change.record,
                    expected: change.operation == .create ? "no row to create it over" : "a row",
                    found: "revision \(commit.revision) has \(change.operation) over \(before.text)"
                )
            }
            zone?.rows.set(change.record, after, rules: rules)
            zone?.versions[change.record, default: []].append(
                ZoneModel.Version(
                    revision: commit.revision,
                    row: after,
                    columns: change.operation == .update ? Set(change.cells.keys) : nil,
                    changeSet: commit.changeSet
                )
            )
        }
        zone?.latest = commit.revision
        zone?.touched[commit.revision] = commit.changes.map(\.record)
        if let id = commit.changeSet {
            zone?.changeSets[commit.revision] = id
            zone?.verdicts[id] = ZoneModel.Verdict(
                body: nil,
                revision: commit.revision,
                decided: commit.revision
            )
        }
    }

    /// A change set is committed once, after what it names, and not after it was refused.
    private mutating func checkOnce(_ id: String, _ commit: Commit, _ authored: AuthoredSet?) {
        if let verdict = zone?.verdicts[id] {
            report(
                .once,
                "server",
                "change set \(id)",
                expected: verdict.revision.map { "the verdict it has, revision \($0)" }
                    ?? "the verdict it has, refused",
                found: "revision \(commit.revision)"
            )
        }
        for predecessor in authored?.after.sorted() ?? []
        where zone?.revision(of: predecessor) == nil {
            report(
                .noSilentOverwrite,
                "server",
                "change set \(id)",
                expected: "nothing before \(predecessor), which it builds on",
                found: "revision \(commit.revision)"
            )
        }
    }

    /// Nobody overwrites what they have not seen.
    ///
    /// What somebody has seen is what their file had shown when they made the edit, whatever the
    /// change set says about its base.
    private mutating func checkSeen(
        _ commit: Commit,
        _ authored: AuthoredSet?,
        _ ids: Identities,
        _ asked: [RecordID: RecordChange]
    ) {
        guard let zone, let id = commit.changeSet, let authored else { return }
        let seen = Dictionary(
            authored.seen.map { (rules.translated($0.key, ids), $0.value) },
            uniquingKeysWith: { min($0, $1) }
        )
        for change in commit.changes where change.operation != .create {
            let base = seen[change.record] ?? authored.seenMin
            let unseen = (zone.versions[change.record] ?? []).filter {
                $0.revision > base && !($0.changeSet.map(authored.own.contains) ?? false)
            }
            guard let version = unseen.first(where: { meets(change, $0) }) else { continue }
            report(
                .noSilentOverwrite,
                authored.device,
                change.record,
                expected: "a conflict, since revision \(version.revision) was not seen"
                    + " by change set \(id), made at \(base)",
                found: "\(change.operation) at revision \(commit.revision)"
                    + (asked[change.record] == nil ? ", which it did not even name" : "")
            )
        }
    }

    /// Whether a change overwrites what a version brought, under the table's policy.
    private func meets(_ change: RecordChange, _ version: ZoneModel.Version) -> Bool {
        switch rules.table(change.record.table)?.policy ?? .reject {
        case _ where change.operation == .delete: return true
        case .reject: return true
        case .columns:
            guard let columns = version.columns else { return true }
            return !columns.isDisjoint(with: change.cells.keys)
        case .lastWriter, .latest: return version.columns == nil
        }
    }

    /// All that the change set says has happened, and beside it only what deleting brings along.
    private mutating func checkWhole(
        _ commit: Commit,
        _ asked: [RecordID: RecordChange],
        _ before: [RecordID: Cells?]
    ) {
        guard let id = commit.changeSet else { return }
        for (record, change) in asked.sorted(by: { $0.key < $1.key }) {
            let row = zone?.rows[record]
            guard !holds(change, in: row) else { continue }
            report(
                .atomic,
                "server",
                record,
                expected: "\(change.operation) \(change.cells.text) of change set \(id)"
                    + " at revision \(commit.revision)",
                found: row.text
            )
        }
        let deleted = Set(commit.changes.filter { $0.operation == .delete }.map(\.record))
        for change in commit.changes where change.operation == .update {
            guard let wanted = asked[change.record] else { continue }
            checkUnasked(change, wanted, deleted, before[change.record] ?? nil, commit)
        }
        for change in commit.changes where asked[change.record] == nil {
            let row = (before[change.record] ?? nil) ?? [:]
            let parents = rules.parents(of: change.record.table, row)
            guard !parents.contains(where: deleted.contains) else { continue }
            report(
                .atomic,
                "server",
                change.record,
                expected: "only what change set \(id) asks for",
                found: "\(change.operation) \(change.cells.text) at revision \(commit.revision)"
            )
        }
    }

    /// An update sets what it asks for; who else writes into its columns is not overwritten.
    private mutating func checkUnasked(
        _ change: RecordChange,
        _ asked: RecordChange,
        _ deleted: Set<RecordID>,
        _ before: Cells?,
        _ commit: Commit
    ) {
        guard asked.operation == .update, let before else { return }
        for column in change.cells.keys.sorted() where asked.cells[column] == nil {
            let parents = rules.parents(of: change.record.table, before, through: column)
            guard !parents.contains(where: deleted.contains) else { continue }
            report(
                .atomic,
                "server",
                change.record,
                expected: "only what change set \(commit.changeSet ?? "") asks for",
                found: "\(column)=\(change.cells[column] ?? "") too at revision \(commit.revision)"
            )
        }
    }

    private func holds(_ change: RecordChange, in row: Cells?) -> Bool {
        switch change.operation {
        case .delete: return row == nil
        case .create, .update:
            guard let row else { return false }
            let policy = rules.table(change.record.table)?.policy ?? .reject
            if change.operation == .update, policy == .latest { return true }
            return change.cells.allSatisfy { row[$0.key] == $0.value }
        }
    }
}

extension Cells {
    /// The columns in one line, sorted by name.
    var text: String { Optional(self).text }
}
