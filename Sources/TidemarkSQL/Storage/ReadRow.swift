package import GRDB

/// Reads values of rows.
///
/// A damaged page can return any value in any column, such as NULL in a NOT NULL column.
/// GRDB's own subscript traps then; these throw, and the caller reports `fileDamaged`.
/// `Tests/TidyTests` reports every use of the subscript.
extension Row {
    /// Reads the value of a column.
    ///
    /// - Throws: `RowDecodingError` if the value has another type, or is NULL and not optional.
    package func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ column: String) throws -> Value {
        try decode(forColumn: column)
    }

    /// Reads the value of a column.
    ///
    /// - Throws: `RowDecodingError` if the value has another type, or is NULL and not optional.
    package func value<Value: DatabaseValueConvertible>(_ column: String) throws -> Value {
        try decode(forColumn: column)
    }

    /// Reads the value of the column at an index, counted from 0.
    ///
    /// - Throws: `RowDecodingError` if the value has another type, or is NULL and not optional.
    package func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ index: Int) throws -> Value {
        try decode(atIndex: index)
    }
}
