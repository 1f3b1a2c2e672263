/// Who prevails when two people changed the same record without seeing each other's change.
public enum ConflictPolicy: String, Hashable, Sendable, CaseIterable {
    /// Any change of the record since the base is a conflict.
    ///
    /// The default.
    case reject
    /// Only a change of the same column to another value is a conflict; other columns are merged.
    case columns
    /// Column by column, what reaches the server last stands; what it replaces is kept.
    case lastWriter
    /// Column by column, what was written last by the devices' hybrid clocks stands; the other
    /// value is kept.
    case latest

    /// Whether this policy decides between two values instead of asking.
    public var decides: Bool { self == .lastWriter || self == .latest }
}
