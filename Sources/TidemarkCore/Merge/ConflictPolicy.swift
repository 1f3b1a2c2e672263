/// The rule for two changes to a record whose authors had not seen the other change.
public enum ConflictPolicy: String, Hashable, Sendable, CaseIterable {
    /// Any change of the record since the base is a conflict.
    ///
    /// The default.
    case reject
    /// Only a change of the same column to another value is a conflict; other columns are merged.
    case columns
    /// In each column the value that reaches the server last wins; the server keeps the other value.
    case lastWriter
    /// In each column the later value by the devices' hybrid clocks wins; the server keeps the other value.
    case latest
    /// Changes of integers add up, so two of them never conflict; of a column only.
    ///
    /// A device sends what it added. Any other value is judged as under ``columns``.
    case add

    /// Whether this policy chooses between two values instead of reporting a conflict.
    public var decides: Bool { self == .lastWriter || self == .latest }
}
