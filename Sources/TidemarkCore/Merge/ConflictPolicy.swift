/// The rule for two changes to a record whose authors had not seen the other change.
public enum ConflictPolicy: String, Hashable, Sendable, CaseIterable {
    /// Any change of the record since the base is a conflict; the default.
    case reject
    /// Only a change of the same column to another value is a conflict; other columns are merged.
    case columns
    /// In each column the value that reaches the server last wins; the server keeps the other value.
    case lastWriter
    /// In each column the later value by the devices' hybrid clocks wins; the server keeps the other value.
    case latest
    /// Of a column only: what devices add to an integer adds up and never conflicts; any other value as ``columns``.
    case add

    /// Whether this policy chooses between two values instead of reporting a conflict.
    public var decides: Bool { self == .lastWriter || self == .latest }
}
