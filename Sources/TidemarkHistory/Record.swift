/// A row of a synced table, known by its primary key.
public struct RecordID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The table, as in `CREATE TABLE`.
    public let table: String
    /// The key in canonical JSON, as `Docs/PROTOCOL.md` writes it in `create`: `42`, `"DE"`,
    /// `["DE",7]`.
    ///
    /// On a device it is the key as its tables hold it, so temporary ids from 2^52 on stay
    /// positive.
    public let key: String

    /// Makes an id.
    public init(_ table: String, _ key: String) { (self.table, self.key) = (table, key) }

    /// `player 42`.
    public var description: String { "\(table) \(key)" }

    /// By table, then by key.
    public static func < (a: RecordID, b: RecordID) -> Bool { (a.table, a.key) < (b.table, b.key) }
}

/// The columns of a row, each with its value in canonical JSON; equal text means equal type and
/// bytes.
///
/// A whole row has all columns, those of the key among them.
public typealias Cells = [String: String]

/// What happened to one row of a file.
public struct RowChange: Sendable, Equatable {
    /// Which row.
    public let record: RecordID
    /// All its columns before; nil when there was no such row.
    public let before: Cells?
    /// All its columns afterwards; nil when there is no such row any more.
    public let after: Cells?

    /// Makes a change.
    public init(_ record: RecordID, before: Cells?, after: Cells?) {
        self.record = record
        self.before = before
        self.after = after
    }
}

/// What a change set says about one record.
public struct RecordChange: Sendable, Equatable {
    /// What it does.
    public enum Operation: String, Sendable { case create, update, delete }

    /// Which record: in an outbox with the key of the device's tables, in the server's log with the
    /// server's.
    public let record: RecordID
    /// What it does.
    public let operation: Operation
    /// The columns that it sets, without those of the key.
    public let cells: Cells
    /// The revision up to which its author had seen the record, as the device noted it; nil in the
    /// server's log.
    public let base: Int64?

    /// Makes a change.
    public init(_ record: RecordID, _ operation: Operation, _ cells: Cells = [:], base: Int64? = nil) {
        self.record = record
        self.operation = operation
        self.cells = cells
        self.base = base
    }
}
