package import GRDB
import GRDBSQLite

extension Statement {
    /// Executes a cached statement and clears its bindings.
    ///
    /// SQLite holds a copy of each bound text until another one replaces it. Without clearing, every
    /// connection would keep the text of a large change set in memory until it closes.
    package func executeAndClearBindings(arguments: StatementArguments) throws {
        defer { sqlite3_clear_bindings(sqliteStatement) }
        try execute(arguments: arguments)
    }
}

/// The texts of a statement's current row, in SQLite's own memory.
///
/// They are valid until the statement's next step.
package struct RowTexts {
    private let statement: OpaquePointer

    /// Gives access to a statement's current row.
    package init(_ statement: Statement) { self.statement = statement.sqliteStatement }

    /// A column's text; empty if the column is NULL.
    package subscript(column: Int32) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: sqlite3_column_text(statement, column), count: Int(sqlite3_column_bytes(statement, column)))
    }

    /// Whether a column is NULL.
    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }
}
