/// What is done to a record.
public enum Operation: String, Hashable, Sendable {
    /// A record that did not exist.
    case create
    /// Some columns of a record.
    case update
    /// The record goes away.
    case delete
}

/// A change that the server has and the device had not seen when it made its own.
public struct UnseenChange: Hashable, Sendable {
    /// What was done.
    public let operation: Operation
    /// The columns that it set, when it is an update.
    public let columns: Set<String>
    /// Who made it, and when.
    public let stamp: Stamp

    /// Makes a change.
    public init(operation: Operation, columns: Set<String>, stamp: Stamp = Stamp()) {
        self.operation = operation
        self.columns = columns
        self.stamp = stamp
    }

    /// What the author has missed of a record's changes since the base, oldest first.
    ///
    /// Some of them are the author's own, and seen. What others did before one of those was judged
    /// when it was committed: what it replaced is no longer there to be overwritten, and a creation
    /// is the record that the author's was joined with, so only its values count. `columns` are
    /// those that the table has now.
    public static func missed(of history: [(change: UnseenChange, isSeen: Bool)], columns: Set<String>)
        -> [UnseenChange]
    {
        var missed = [UnseenChange]()
        var replaced = Set<String>()
        var isJoined = false
        for (change, isSeen) in history.reversed() {
            if isSeen {
                // Nothing is left of what was there before the author made or deleted the record.
                guard change.operation == .update else { break }
                replaced.formUnion(change.columns)
                isJoined = true
                continue
            }
            // A record that was deleted and made again remains another one.
            let counts = isJoined && change.operation != .delete
            let given = counts && change.operation == .create ? columns : change.columns
            let left = given.intersection(columns).subtracting(replaced)
            guard !counts || !left.isEmpty else { continue }
            missed.append(
                UnseenChange(operation: counts ? .update : change.operation, columns: left, stamp: change.stamp)
            )
        }
        return missed.reversed()
    }
}

/// One record of an incoming change set that somebody else changed since its base.
public struct Contention: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The record's key in canonical JSON.
    public let key: String
    /// What the incoming change set does to the record.
    public let operation: Operation
    /// The columns that the incoming update sets to another value than the server has now.
    public let differingColumns: Set<String>
    /// What happened to the record since the base, oldest first.
    public let unseen: [UnseenChange]
    /// Whether the record exists now.
    public let exists: Bool
    /// Who sent the incoming change set, and when it was made.
    public let stamp: Stamp
    /// Whether the change set does not name the record: the database changes it along.
    public let isCascade: Bool

    /// Makes a contention.
    public init(
        table: String,
        key: String,
        operation: Operation,
        differingColumns: Set<String>,
        unseen: [UnseenChange],
        exists: Bool,
        stamp: Stamp = Stamp(),
        isCascade: Bool = false
    ) {
        self.table = table
        self.key = key
        self.operation = operation
        self.differingColumns = differingColumns
        self.unseen = unseen
        self.exists = exists
        self.stamp = stamp
        self.isCascade = isCascade
    }

    /// The columns that updates set since the base.
    var touched: Set<String> { unseen.reduce(into: []) { $0.formUnion($1.columns) } }

    /// Whether the record went away, or came, since the base: it may be another one now.
    var isRenewed: Bool { unseen.contains { $0.operation != .update } }

    /// The change that gave a column the value that it has now, if it came after the base.
    public func holder(of column: String) -> UnseenChange? {
        unseen.last { $0.operation == .create || $0.columns.contains(column) }
    }
}

/// The outcome for one contended record.
public enum Judgement: Hashable, Sendable {
    /// Both changes stand: they do not meet.
    case merge
    /// The incoming change stands but for its columns `mine`, whose values are overruled; what the
    /// server has in the columns `theirs` is overruled by it.
    ///
    /// A creation becomes an update of the record that is there.
    case overrule(mine: Set<String>, theirs: Set<String>)
    /// The change set is refused; `columns` names where the two meet (empty: the whole record).
    case conflict(rule: ConflictRule, columns: Set<String>)
}

/// The rule that a refused change set ran into, as it travels in the `reasons` of a conflict.
public enum ConflictRule: String, Hashable, Sendable {
    /// Somebody changed the record since the base.
    case changed
    /// Somebody deleted the record.
    case deleted
    /// Somebody created a record with the same key.
    case exists
    /// Another record holds the same value of a unique constraint.
    case unique
    /// The record referred to was deleted.
    case parentDeleted
    /// Other records still refer to the deleted one.
    case referenced
    /// The change set that this one depends on was refused.
    case predecessor
    /// Another value stands, by the policy of the column; the change set is not refused.
    case overruled
}

/// Decides one contended record: rule 1, nobody overwrites what they have not seen, unless the
/// policy of the column says who prevails.
///
/// A pure function of what both sides did; only ``ConflictPolicy/latest`` looks at their clocks.
/// `columns` has the policies of columns that have one of their own.
public func judge(_ contention: Contention, policy: ConflictPolicy, columns: [String: ConflictPolicy] = [:])
    -> Judgement
{
    // What the author has not named is never taken from somebody else, whatever the policy.
    let policy = contention.isCascade && policy.decides ? .columns : policy
    let columns = contention.isCascade ? columns.filter { !$0.value.decides } : columns
    let own = { columns[$0] ?? policy }
    switch contention.operation {
    case .create:
        guard contention.exists else { return .merge }
        let isNew = contention.unseen.contains { $0.operation == .create }
        guard policy.decides, isNew else { return .conflict(rule: .exists, columns: []) }
        let meeting = contention.differingColumns
        let decision = decide(contention, meeting: meeting, rule: .exists, own)
        // Not merged: a record that is there cannot be created, only updated.
        return decision == .merge ? .overrule(mine: [], theirs: []) : decision
    case .delete:
        // Both wanted it gone: nothing is overwritten.
        guard contention.exists else { return .merge }
        let isLatest = policy == .lastWriter || contention.unseen.allSatisfy { $0.stamp < contention.stamp }
        guard !contention.isRenewed, policy.decides, isLatest else { return .conflict(rule: .changed, columns: []) }
        let decision = decide(contention, meeting: contention.touched, rule: .changed, own)
        if case .overrule(let mine, _) = decision, !mine.isEmpty { return .conflict(rule: .changed, columns: []) }
        return decision
    case .update:
        guard contention.exists else { return .conflict(rule: .deleted, columns: []) }
        let meeting = contention.differingColumns.intersection(contention.touched)
        if policy == .columns, planted(PlantedBug.mergesSameColumn) { return .merge }
        let isUntouched = !columns.isEmpty && contention.touched.allSatisfy { columns[$0] != nil }
        guard policy != .reject || isUntouched, !contention.isRenewed else {
            return .conflict(rule: .changed, columns: meeting)
        }
        return decide(contention, meeting: meeting, rule: .changed, own)
    }
}

/// Decides the columns where two changes meet, each by its own policy.
private func decide(
    _ contention: Contention,
    meeting: Set<String>,
    rule: ConflictRule,
    _ policy: (String) -> ConflictPolicy
) -> Judgement {
    let refused = meeting.filter { !policy($0).decides }
    guard refused.isEmpty else { return .conflict(rule: rule, columns: refused) }
    let mine = meeting.filter { column in
        guard policy(column) == .latest, let holder = contention.holder(of: column) else { return false }
        if planted(PlantedBug.lastArrivalWins) { return false }
        return contention.stamp < holder.stamp
    }
    return meeting.isEmpty ? .merge : .overrule(mine: mine, theirs: meeting.subtracting(mine))
}
