package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Reads rows as values, by cached statements.
package enum RowValues {
    /// Runs a cached statement, and passes on the values of each row.
    ///
    /// - Throws: `DatabaseError`, or the error of `row`.
    package static func read(
        _ sql: String,
        _ arguments: [Value] = [],
        in db: Database,
        row: ([Value]) throws -> Void
    ) throws {
        let statement = try BoundStatement(sql, in: db)
        try statement.run { bound in
            for (index, value) in arguments.enumerated() { bound.bind(value, at: Int32(index + 1)) }
        } row: { pointer in
            try row((0..<sqlite3_column_count(pointer)).map { value(of: $0, in: pointer) })
        }
    }

    /// Returns the values of the first row; nil without one.
    ///
    /// - Throws: `DatabaseError`.
    package static func first(_ sql: String, _ arguments: [Value] = [], in db: Database) throws -> [Value]? {
        var first: [Value]?
        try read(sql, arguments, in: db) { row in first = first ?? row }
        return first
    }

    /// Returns the value of a column of a statement's present row.
    package static func value(of column: Int32, in statement: OpaquePointer) -> Value {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT:
            let text = sqlite3_column_text(statement, column)
            let bytes = UnsafeBufferPointer(start: text, count: Int(sqlite3_column_bytes(statement, column)))
            return Value(text: bytes)
        case SQLITE_BLOB:
            let blob = sqlite3_column_blob(statement, column)
            let bytes = UnsafeRawBufferPointer(start: blob, count: Int(sqlite3_column_bytes(statement, column)))
            return .blob(Array(bytes))
        default: return .null
        }
    }
}

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
