package import GRDB

/// Reads values of rows.
///
/// A damaged page can hand out any value in any column, such as NULL where the table says NOT NULL.
/// GRDB's own subscript ends the process then; these throw, and the caller's file is `fileDamaged`.
/// `Tests/TidyTests` reports every use of the subscript.
extension Row {
    /// The value of a column.
    ///
    /// - Throws: `RowDecodingError` when it is of another type, or NULL and the type no optional.
    package func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ column: String) throws -> Value {
        try decode(forColumn: column)
    }

    /// The value of a column.
    ///
    /// - Throws: `RowDecodingError` when it is of another type, or NULL and the type no optional.
    package func value<Value: DatabaseValueConvertible>(_ column: String) throws -> Value {
        try decode(forColumn: column)
    }

    /// The value of the column at a place, counted from 0.
    ///
    /// - Throws: `RowDecodingError` when it is of another type, or NULL and the type no optional.
    package func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ index: Int) throws -> Value {
        try decode(atIndex: index)
    }
}
