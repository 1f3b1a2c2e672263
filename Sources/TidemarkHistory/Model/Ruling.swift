/// The result of a change of a record that others have changed meanwhile.
struct Ruling: Sendable {
    /// The version that the change may not overwrite, since its author had not seen it; nil if it
    /// may.
    var unseen: ZoneModel.Version?
    /// The columns that it sets in vain, because the column's policy prefers another value.
    var inVain: Set<String> = []
    /// The columns in which the policy lets it replace unseen values, each with the device that
    /// wrote the value; nil if another program did, at the server.
    var replaced: [String: String?] = [:]

    /// The values to which the change leads from the earlier row.
    func standing(of change: RecordChange, over row: Cells?, _ rules: Rules) -> RecordChange {
        guard change.operation != .delete, let row else { return change }
        let wanted = rules.applied(change, to: row) ?? [:]
        let cells = change.cells.keys.map { ($0, (inVain.contains($0) ? row : wanted)[$0] ?? "null") }
        return RecordChange(change.record, operation: change.operation, cells: Cells(uniqueKeysWithValues: cells))
    }
}

/// The author of a change set, and the rows that they had seen.
struct Author: Sendable {
    /// The file's revision at the edit of each record.
    private let baseRevisions: [RecordID: Int64]
    private let oldestBase: Int64
    /// The author's change sets up to this one.
    private(set) var own: Set<String>
    let stamp: ZoneModel.Stamp

    init(of set: AuthoredSet, _ ids: Identities, stamp: ZoneModel.Stamp, _ rules: Rules) {
        baseRevisions = Dictionary(
            set.baseRevisions.map { (rules.translated($0.key, ids), $0.value) }, uniquingKeysWith: { min($0, $1) })
        oldestBase = set.oldestBase
        own = set.own
        self.stamp = stamp
    }

    /// The author as one who has made other change sets.
    func having(made own: Set<String>) -> Author {
        var author = self
        author.own = own
        return author
    }

    /// The revision up to which the author had seen a record.
    func base(of record: RecordID) -> Int64 { baseRevisions[record] ?? oldestBase }
}

extension ZoneModel {
    /// A version of a record that the author of a change has not seen.
    private struct Missed {
        let version: Version
        /// The columns that still have the version's values.
        let columns: Set<String>
        /// Whether the version created or deleted the record.
        let isRenewal: Bool
    }

    /// The versions of a record by others that the author of a change had not seen, oldest first.
    ///
    /// Columns that the author has replaced since do not count. Nor does anything before the author
    /// created or deleted the record.
    private func missed(of record: RecordID, by author: Author, adding: Set<String>) -> [Missed] {
        let base = author.base(of: record)
        var missed = [Missed]()
        var replaced = Set<String>()
        var isJoined = false
        for version in (versions[record] ?? []).reversed() where version.revision > base {
            if let id = version.changeSet, author.own.contains(id) {
                guard let columns = version.columns else { break }
                // A sum may contain what its author had not seen.
                replaced.formUnion(columns.subtracting(adding))
                isJoined = true
                continue
            }
            let isUpdate = version.columns != nil || isJoined && version.row != nil
            let columnsOfVersion = version.columns ?? Set((version.row ?? [:]).keys)
            let columns = columnsOfVersion.subtracting(replaced)
            guard !(isUpdate && isJoined) || !columns.isEmpty else { continue }
            missed.append(Missed(version: version, columns: columns, isRenewal: !isUpdate))
        }
        return missed.reversed()
    }

    /// Judges a change by the row and the history before it.
    ///
    /// If the database makes the change along with another one, no author loses anything by it.
    func ruling(on change: RecordChange, isNamed: Bool, by author: Author, _ rules: Rules) -> Ruling {
        let columnPolicies = rules.table(change.record.table)?.columnPolicies ?? [:]
        let adding = Set(columnPolicies.filter { $0.value == .add }.keys)
        let missed = missed(of: change.record, by: author, adding: adding)
        guard let last = missed.last, let table = rules.table(change.record.table) else { return Ruling() }
        let refused = Ruling(unseen: missed.first(where: \.isRenewal)?.version ?? last.version)
        // Both deleted the record, or the creation replaces nothing.
        guard let row = rows[change.record] else { return change.operation == .update ? refused : Ruling() }
        let touched = missed.reduce(into: Set<String>()) { $0.formUnion($1.columns) }.subtracting(table.key)
        let isRenewed = missed.contains(where: \.isRenewal)
        let differing = Set(
            change.cells.filter { column, cell in
                if Rules.delta(cell) != nil { return row[column].flatMap { Int64($0) } == nil }
                // Equal counts of two authors are not one count.
                return row[column] != cell || adding.contains(column)
            }.keys)
        let meeting: Set<String>
        switch change.operation {
        case .create:
            // Two new records under a number that nobody meant for both are not two versions of one.
            guard table.policy.decides, !table.hasAssignedKeys, missed.contains(where: { $0.version.row != nil })
            else { return refused }
            meeting = differing
        case .delete:
            let isLatest = missed.allSatisfy { $0.version.stamp < author.stamp }
            guard isNamed, !isRenewed, table.policy.decides, table.policy == .lastWriter || isLatest else {
                return refused
            }
            meeting = touched
        case .update:
            let isApart = !table.columnPolicies.isEmpty && touched.allSatisfy { table.columnPolicies[$0] != nil }
            let isSum = !change.cells.isEmpty && change.cells.values.allSatisfy { Rules.delta($0) != nil }
            guard !isRenewed, table.policy != .reject || isApart || isSum else { return refused }
            meeting = differing.intersection(touched)
        }
        let decided = meeting.filter { isNamed && table.policy(of: $0).decides }
        guard decided == meeting else { return refused }
        return decide(meeting, missed: missed, author: author, table: table) ?? refused
    }

    /// Judges each column where a change meets an unseen version; nil if a deletion would be in
    /// vain.
    private func decide(_ meeting: Set<String>, missed: [Missed], author: Author, table: Rules.Table) -> Ruling? {
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
