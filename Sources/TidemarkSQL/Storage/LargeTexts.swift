package import GRDB
import GRDBSQLite

extension Statement {
    /// Executes a cached statement and clears its bindings, because SQLite would keep a copy of each bound text.
    package func executeAndClearBindings(arguments: StatementArguments) throws {
        defer { sqlite3_clear_bindings(sqliteStatement) }
        try execute(arguments: arguments)
    }
}

/// The texts of a statement's current row, in SQLite's own memory and valid until the next step.
package struct RowTexts {
    private let statement: OpaquePointer

    package init(_ statement: Statement) { self.statement = statement.sqliteStatement }

    /// A column's text; empty if the column is NULL.
    package subscript(column: Int32) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: sqlite3_column_text(statement, column), count: Int(sqlite3_column_bytes(statement, column)))
    }
}
