/// What becomes of a change of a record that others have changed meanwhile.
struct Ruling: Sendable {
    /// What the change may not overwrite, since its author had not seen it; nil: it may stand.
    var unseen: ZoneModel.Version?
    /// The columns that it sets in vain: another value stands, by the policy of the column.
    var inVain: Set<String> = []
    /// The columns in which it replaces what its author had not seen, by the policy of the column,
    /// each with the device that wrote it; nil: another program did, at the server.
    var replaced: [String: String?] = [:]

    /// What of the change stands, over the row as it was.
    func standing(of change: RecordChange, over row: Cells?) -> RecordChange {
        guard !inVain.isEmpty, let row else { return change }
        return RecordChange(
            change.record,
            change.operation,
            change.cells.merging(row.filter { inVain.contains($0.key) }) { $1 }
        )
    }
}

/// Who made a change set, and what they had seen.
struct Author: Sendable {
    /// The revision that the file was at when each record was edited.
    private let seen: [RecordID: Int64]
    private let seenMin: Int64
    /// The author's change sets up to this one.
    let own: Set<String>
    let stamp: ZoneModel.Stamp

    init(of set: AuthoredSet, _ ids: Identities, stamp: ZoneModel.Stamp, _ rules: Rules) {
        seen = Dictionary(set.seen.map { (rules.translated($0.key, ids), $0.value) }, uniquingKeysWith: { min($0, $1) })
        seenMin = set.seenMin
        own = set.own
        self.stamp = stamp
    }

    /// The revision up to which the author had seen a record.
    func base(of record: RecordID) -> Int64 { seen[record] ?? seenMin }
}

extension ZoneModel {
    /// Something that the author of a change has missed of a record.
    private struct Missed {
        let version: Version
        /// The columns that are still as it left them.
        let columns: Set<String>
        /// Whether the record was made, or deleted.
        let isRenewal: Bool
    }

    /// What others did to a record that the author of a change had not seen, oldest first.
    ///
    /// What the author has replaced since does not count, and nothing does that came before the
    /// author made or deleted the record.
    private func missed(of record: RecordID, by author: Author) -> [Missed] {
        let base = author.base(of: record)
        var missed = [Missed]()
        var replaced = Set<String>()
        var isJoined = false
        for version in (versions[record] ?? []).reversed() where version.revision > base {
            if let id = version.changeSet, author.own.contains(id) {
                guard let columns = version.columns else { break }
                replaced.formUnion(columns)
                isJoined = true
                continue
            }
            let isUpdate = version.columns != nil || isJoined && version.row != nil
            let given = version.columns ?? Set((version.row ?? [:]).keys)
            let columns = given.subtracting(replaced)
            guard !(isUpdate && isJoined) || !columns.isEmpty else { continue }
            missed.append(Missed(version: version, columns: columns, isRenewal: !isUpdate))
        }
        return missed.reversed()
    }

    /// Judges a change by the row and the history as they are before it is made.
    ///
    /// What its author has not named, but the database changes along, is taken from nobody.
    func ruling(on change: RecordChange, isNamed: Bool, by author: Author, _ rules: Rules) -> Ruling {
        let missed = missed(of: change.record, by: author)
        guard let last = missed.last, let table = rules.table(change.record.table) else { return Ruling() }
        let refused = Ruling(unseen: missed.first(where: \.isRenewal)?.version ?? last.version)
        // Both wanted it gone, or it does not come over anything.
        guard let row = rows[change.record] else { return change.operation == .update ? refused : Ruling() }
        let touched = missed.reduce(into: Set<String>()) { $0.formUnion($1.columns) }
        let isRenewed = missed.contains(where: \.isRenewal)
        let differing = Set(change.cells.filter { row[$0.key] != $0.value }.keys)
        let meeting: Set<String>
        switch change.operation {
        case .create:
            guard table.policy.decides, missed.contains(where: { $0.version.row != nil }) else { return refused }
            meeting = differing
        case .delete:
            let isLatest = missed.allSatisfy { $0.version.stamp < author.stamp }
            guard isNamed, !isRenewed, table.policy.decides, table.policy == .lastWriter || isLatest else {
                return refused
            }
            meeting = touched
        case .update:
            let isApart = !table.columnPolicies.isEmpty && touched.allSatisfy { table.columnPolicies[$0] != nil }
            guard !isRenewed, table.policy != .reject || isApart else { return refused }
            meeting = differing.intersection(touched)
        }
        let decided = meeting.filter { isNamed && table.policy(of: $0).decides }
        guard decided == meeting else { return refused }
        return decide(meeting, missed, author, table) ?? refused
    }

    /// Judges each column where a change meets what its author has missed; nil when a deletion
    /// would be in vain.
    private func decide(_ meeting: Set<String>, _ missed: [Missed], _ author: Author, _ table: Rules.Table) -> Ruling? {
        var ruling = Ruling()
        for column in meeting {
            let holder = missed.last { $0.isRenewal || $0.columns.contains(column) }?.version
            guard let holder else { continue }
            if table.policy(of: column) == .latest, author.stamp < holder.stamp {
                ruling.inVain.insert(column)
            } else {
                ruling.replaced[column] = .some(holder.stamp.identity)
            }
        }
        return ruling
    }
}
