public import TidemarkCore

/// Why a change set cannot stand, told by the database when it was written.
public enum Violation: Error, Hashable, Sendable {
    /// The work of somebody else is in the way: the change set is answered as a conflict.
    case conflict([ConflictReason])
    /// The change set could never stand: the request is refused.
    case refusal(TidemarkError)
}

/// One reason of a conflict, as it travels in `reasons`.
public struct ConflictReason: Hashable, Sendable, Codable {
    /// The table.
    public let table: String
    /// The record's key in canonical JSON; empty when the database names only the columns.
    public let key: String
    /// The columns where two changes meet; empty when it is about the whole record.
    public let columns: [String]
    /// The rule.
    public let rule: String
    /// The rule in words.
    public let message: String

    /// Makes a reason.
    public init(table: String, key: String, columns: [String], rule: ConflictRule) {
        self.table = table
        self.key = key
        self.columns = columns
        self.rule = rule.rawValue
        self.message =
            switch rule {
            case .changed: "Somebody else changed this record since your base."
            case .deleted: "Somebody else deleted this record."
            case .exists: "Somebody else created a record with this key."
            case .unique: "Another record holds this unique value."
            case .parentDeleted: "The record that this one refers to was deleted."
            case .referenced: "Other records still refer to this one."
            case .predecessor: "The change set that this one depends on was refused."
            case .overruled: "Another value stands here; this one is kept."
            }
    }
}

/// A contended record of an accepted change set in which some values are overruled.
public struct Overruling: Hashable, Sendable {
    /// The record, and what both sides did to it.
    public let contention: Contention
    /// The columns that the change set sets in vain.
    public let mine: Set<String>
    /// The columns in which it replaces what its author had not seen.
    public let theirs: Set<String>

    /// Makes an overruling.
    public init(contention: Contention, mine: Set<String>, theirs: Set<String>) {
        self.contention = contention
        self.mine = mine
        self.theirs = theirs
    }
}
