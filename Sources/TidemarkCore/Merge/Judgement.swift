package enum Operation: String, Hashable, Sendable {
    case create
    case update
    case delete
}

/// A change on the server that the device had not seen when it made its own.
package struct UnseenChange: Hashable, Sendable {
    package let operation: Operation
    /// The columns that an update set.
    package let columns: Set<String>
    package let stamp: Stamp

    package init(operation: Operation, columns: Set<String>, stamp: Stamp = Stamp()) {
        self.operation = operation
        self.columns = columns
        self.stamp = stamp
    }

    /// Returns the changes since the base that the author has not seen, oldest first.
    ///
    /// The history also contains the author's own changes, which are seen. When such a change was committed, the server
    /// judged it against all earlier changes. So columns that it replaced no longer count, and an earlier creation
    /// counts as an update. `columns` are the table's current columns. A change of one of `adding` may have added to a
    /// value that its author had not seen, so it replaces nothing.
    package static func selectUnseen(
        from history: [(change: UnseenChange, isSeen: Bool)], columns: Set<String>, adding: Set<String> = []
    ) -> [UnseenChange] {
        var unseen = [UnseenChange]()
        var replacedColumns = Set<String>()
        var isBeforeOwnUpdate = false
        for (change, isSeen) in history.reversed() {
            if isSeen {
                // The author created or deleted the record: no earlier change is left.
                guard change.operation == .update else { break }
                replacedColumns.formUnion(change.columns.subtracting(adding))
                isBeforeOwnUpdate = true
                continue
            }
            // A record that was deleted and created again remains another record.
            let isUpdate = isBeforeOwnUpdate && change.operation != .delete
            let changedColumns = isUpdate && change.operation == .create ? columns : change.columns
            let remainingColumns = changedColumns.intersection(columns).subtracting(replacedColumns)
            guard !isUpdate || !remainingColumns.isEmpty else { continue }
            unseen.append(
                UnseenChange(
                    operation: isUpdate ? .update : change.operation, columns: remainingColumns, stamp: change.stamp))
        }
        return unseen.reversed()
    }
}

/// A record of an incoming change set that another author changed since its base.
package struct Contention: Hashable, Sendable {
    package let table: String
    /// The record's key in canonical JSON.
    package let key: String
    package let operation: Operation
    /// The columns that the incoming update sets to another value, or adds to where the server has no integer.
    package let differingColumns: Set<String>
    /// The columns with the policy ``ConflictPolicy/add`` that the change sets; equal values may be two additions.
    package let absoluteColumns: Set<String>
    /// Whether the incoming update only adds to columns.
    package let isSum: Bool
    /// The changes to the record since the base that the author has not seen, oldest first.
    package let unseen: [UnseenChange]
    package let exists: Bool
    package let stamp: Stamp
    /// Whether the change set does not name the record: a foreign key action changes it.
    package let isCascade: Bool
    /// Whether the table numbers its records: an equal id of two new records does not make them one record.
    package let isNumbered: Bool

    package init(
        table: String, key: String, operation: Operation, differingColumns: Set<String>,
        absoluteColumns: Set<String> = [], isSum: Bool = false, unseen: [UnseenChange], exists: Bool,
        stamp: Stamp = Stamp(), isCascade: Bool = false, isNumbered: Bool = false
    ) {
        self.table = table
        self.key = key
        self.operation = operation
        self.differingColumns = differingColumns
        self.absoluteColumns = absoluteColumns
        self.isSum = isSum
        self.unseen = unseen
        self.exists = exists
        self.stamp = stamp
        self.isCascade = isCascade
        self.isNumbered = isNumbered
    }

    var unseenColumns: Set<String> { unseen.reduce(into: []) { $0.formUnion($1.columns) } }

    /// The columns of the incoming change that unseen values meet.
    var meetingColumns: Set<String> {
        planted(PlantedBug.takesEqualValuesForOneSum) ? differingColumns : differingColumns.union(absoluteColumns)
    }

    /// Whether the record was deleted or created since the base, so that it may be another one.
    var isRenewed: Bool { unseen.contains { $0.operation != .update } }

    /// Returns the unseen change that set a column's current value, if there is one.
    package func holder(of column: String) -> UnseenChange? {
        unseen.last { $0.operation == .create || $0.columns.contains(column) }
    }
}

/// The outcome for one contended record.
package enum Judgement: Hashable, Sendable {
    /// Both changes apply: they set different columns.
    case merge
    /// The change applies, a creation as an update, without its columns `mine`; it overrules the columns `theirs`.
    case overrule(mine: Set<String>, theirs: Set<String>)
    /// The server refuses the change set because of `columns`; empty means the whole record.
    case conflict(rule: ConflictRule, columns: Set<String>)
}

/// The rule that a refused change set violates, as named in the `reasons` of a conflict.
package enum ConflictRule: String, Hashable, Sendable {
    /// Another author changed the record since the base.
    case changed
    /// Another author deleted the record.
    case deleted
    /// Another author created a record with the same key.
    case exists
    /// Another record holds the same value of a unique constraint.
    case unique
    /// Another author deleted the referenced record.
    case parentDeleted
    /// Other records still refer to the deleted one.
    case referenced
    /// The server refused the change set that this one depends on.
    case predecessor
    /// The author's role does not permit the change.
    case forbidden
    /// By the column's policy another value wins; the server does not refuse the change set.
    case overruled
}

/// Decides one contended record by rule 1 and the conflict policies.
///
/// Rule 1: no author overwrites a change that they have not seen, unless the column's policy names a
/// winner. This is a pure function of both changes; only ``ConflictPolicy/latest`` compares clocks.
/// `columns` maps columns to their own policies.
///
/// A policy decides between versions of one record. Two authors who create one chosen key mean the same record. Two new
/// records under one number are different records, so under every policy the second one is a conflict.
package func judge(_ contention: Contention, policy: ConflictPolicy, columns: [String: ConflictPolicy] = [:])
    -> Judgement
{
    // A cascade never overrules another author's value, whatever the policy.
    let policy = contention.isCascade && policy.decides ? .columns : policy
    let columns = contention.isCascade ? columns.filter { !$0.value.decides } : columns
    let columnPolicy = { columns[$0] ?? policy }
    switch contention.operation {
    case .create:
        guard contention.exists else { return .merge }
        let isNew = contention.unseen.contains { $0.operation == .create }
        let isSameRecord = !contention.isNumbered || planted(PlantedBug.overrulesOtherRecords)
        guard policy.decides, isNew, isSameRecord else { return .conflict(rule: .exists, columns: []) }
        let sharedColumns = contention.meetingColumns
        let decision = decide(contention, sharedColumns: sharedColumns, rule: .exists, columnPolicy)
        // The record exists, so the creation becomes an update.
        return decision == .merge ? .overrule(mine: [], theirs: []) : decision
    case .delete:
        // Both authors deleted the record.
        guard contention.exists else { return .merge }
        let isLatest = policy == .lastWriter || contention.unseen.allSatisfy { $0.stamp < contention.stamp }
        guard !contention.isRenewed, policy.decides, isLatest else { return .conflict(rule: .changed, columns: []) }
        let decision = decide(contention, sharedColumns: contention.unseenColumns, rule: .changed, columnPolicy)
        if case .overrule(let mine, _) = decision, !mine.isEmpty { return .conflict(rule: .changed, columns: []) }
        return decision
    case .update:
        guard contention.exists else { return .conflict(rule: .deleted, columns: []) }
        let sharedColumns = contention.meetingColumns.intersection(contention.unseenColumns)
        if policy == .columns, planted(PlantedBug.mergesSameColumn) { return .merge }
        let isUntouched = !columns.isEmpty && contention.unseenColumns.allSatisfy { columns[$0] != nil }
        guard policy != .reject || isUntouched || contention.isSum, !contention.isRenewed else {
            return .conflict(rule: .changed, columns: sharedColumns)
        }
        return decide(contention, sharedColumns: sharedColumns, rule: .changed, columnPolicy)
    }
}

/// Decides the columns that both changes set, each by its own policy.
private func decide(
    _ contention: Contention, sharedColumns: Set<String>, rule: ConflictRule, _ policy: (String) -> ConflictPolicy
) -> Judgement {
    let conflicting = sharedColumns.filter { !policy($0).decides }
    guard conflicting.isEmpty else { return .conflict(rule: rule, columns: conflicting) }
    let mine = sharedColumns.filter { column in
        guard policy(column) == .latest, let holder = contention.holder(of: column) else { return false }
        if planted(PlantedBug.lastArrivalWins) { return false }
        return contention.stamp < holder.stamp
    }
    return sharedColumns.isEmpty ? .merge : .overrule(mine: mine, theirs: sharedColumns.subtracting(mine))
}
