/// A row of a synced table, identified by its primary key.
package struct RecordID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The table, as in `CREATE TABLE`.
    package let table: String
    /// The key in canonical JSON, as `Docs/PROTOCOL.md` writes it in `create`: `42`, `"DE"`,
    /// `["DE",7]`.
    ///
    /// On a device it is the key as its tables hold it, so temporary ids from 2^52 on stay
    /// positive.
    package let key: String

    /// Makes an id.
    package init(_ table: String, _ key: String) {
        self.table = table
        self.key = key
    }

    /// `player 42`.
    package var description: String { "\(table) \(key)" }

    /// By table, then by key.
    package static func < (a: RecordID, b: RecordID) -> Bool { (a.table, a.key) < (b.table, b.key) }
}

/// The columns of a row, each with its value in canonical JSON; equal text means equal type and
/// bytes.
///
/// A whole row has all columns, those of the key among them.
package typealias Cells = [String: String]

/// The change of one row of a file.
package struct RowChange: Sendable, Equatable {
    /// The record.
    package let record: RecordID
    /// All its columns before; nil if there was no such row.
    package let before: Cells?
    /// All its columns afterwards; nil if there is no such row any more.
    package let after: Cells?

    /// Makes a change.
    package init(_ record: RecordID, before: Cells?, after: Cells?) {
        self.record = record
        self.before = before
        self.after = after
    }
}

/// The change of one record in a change set.
package struct RecordChange: Sendable, Equatable {
    /// The kinds of changes.
    package enum Operation: String, Sendable { case create, update, delete }

    /// The record: in an outbox with the key of the device's tables, in the server's log with the
    /// server's.
    package let record: RecordID
    /// The kind of change.
    package let operation: Operation
    /// The new values, without the key's columns.
    package let cells: Cells
    /// The revision up to which its author had seen the record, as the device stores it; nil in the
    /// server's log.
    package let base: Int64?

    /// Makes a change.
    package init(_ record: RecordID, operation: Operation, cells: Cells = [:], base: Int64? = nil) {
        self.record = record
        self.operation = operation
        self.cells = cells
        self.base = base
    }
}
