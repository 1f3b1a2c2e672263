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
struct RowTexts {
    private let statement: OpaquePointer

    init(_ statement: Statement) { self.statement = statement.sqliteStatement }

    /// A column's text; nothing where it is NULL.
    subscript(column: Int32) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: sqlite3_column_text(statement, column),
            count: Int(sqlite3_column_bytes(statement, column))
        )
    }
}

extension UnsafeBufferPointer<UInt8> {
    init(_ text: StaticString) {
        self.init(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}

extension String {
    /// Adds parts that may be large, of which there are no further copies meanwhile.
    mutating func append(_ parts: [UnsafeBufferPointer<UInt8>]) {
        let added = parts.reduce(0) { $0 + $1.count }
        self = withUTF8 { text in
            String(unsafeUninitializedCapacity: text.count + added) { buffer in
                var end = 0
                for part in [text] + parts {
                    end = buffer[end...].update(fromContentsOf: part)
                }
                return end
            }
        }
    }
}
