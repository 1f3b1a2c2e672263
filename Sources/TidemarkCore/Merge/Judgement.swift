/// Who prevails when two people changed the same record without seeing each other's change.
public enum ConflictPolicy: String, Hashable, Sendable, CaseIterable {
    /// Any change of the record since the base is a conflict.
    ///
    /// The default.
    case reject
    /// Only a change of the same column to another value is a conflict; other columns are merged.
    case columns
}

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

    /// Makes a change.
    public init(operation: Operation, columns: Set<String>) {
        (self.operation, self.columns) = (operation, columns)
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

    /// Makes a contention.
    public init(
        table: String,
        key: String,
        operation: Operation,
        differingColumns: Set<String>,
        unseen: [UnseenChange],
        exists: Bool
    ) {
        (self.table, self.key, self.operation) = (table, key, operation)
        (self.differingColumns, self.unseen, self.exists) = (differingColumns, unseen, exists)
    }
}

/// The outcome for one contended record.
public enum Judgement: Hashable, Sendable {
    /// Both changes stand: they do not meet.
    case merge
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
}

/// Decides one contended record: rule 1, nobody overwrites what they have not seen.
///
/// A pure function of what both sides did. The clock has no say.
public func judge(_ contention: Contention, policy: ConflictPolicy) -> Judgement {
    switch contention.operation {
    case .create:
        return contention.exists ? .conflict(rule: .exists, columns: []) : .merge
    case .delete:
        // Both wanted it gone: nothing is overwritten.
        return contention.exists ? .conflict(rule: .changed, columns: []) : .merge
    case .update:
        guard contention.exists else { return .conflict(rule: .deleted, columns: []) }
        let touched = contention.unseen.reduce(into: Set<String>()) { $0.formUnion($1.columns) }
        let recreated = contention.unseen.contains { $0.operation != .update }
        let meeting = contention.differingColumns.intersection(touched)
        if policy == .columns, planted(PlantedBug.mergesSameColumn) { return .merge }
        guard policy == .columns, !recreated, meeting.isEmpty else {
            return .conflict(rule: .changed, columns: meeting)
        }
        return .merge
    }
}
