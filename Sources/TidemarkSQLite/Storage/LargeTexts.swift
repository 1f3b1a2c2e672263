package import GRDB
import GRDBSQLite

extension Statement {
    /// Executes a statement that is kept, and has it let go of its arguments.
    ///
    /// SQLite holds a copy of each text until another one takes its place. Of what is large that
    /// would be a change set too many, on every connection, for as long as it is open.
    package func executeLettingGo(arguments: StatementArguments) throws {
        defer { sqlite3_clear_bindings(sqliteStatement) }
        try execute(arguments: arguments)
    }
}

/// The texts of the row that a statement is at, where SQLite has them.
///
/// They are good until its next step.
package struct RowTexts {
    private let statement: OpaquePointer

    /// Looks at the row that a statement is at.
    package init(_ statement: Statement) { self.statement = statement.sqliteStatement }

    /// A column's text; nothing where it is NULL.
    package subscript(column: Int32) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: sqlite3_column_text(statement, column),
            count: Int(sqlite3_column_bytes(statement, column))
        )
    }

    /// Whether a column is NULL.
    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }
}
