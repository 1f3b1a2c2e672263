/// A column of a record type, with the type of its values.
///
/// ```swift
/// extension Player {
///     static let name = RecordColumn<Player, String>("name")
/// }
/// ```
public struct RecordColumn<Record, Value>: Hashable, Sendable {
    /// The column's name.
    public let name: String

    /// Creates a column.
    public init(_ name: String) { self.name = name }
}
