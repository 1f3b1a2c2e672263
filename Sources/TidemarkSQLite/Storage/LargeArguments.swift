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
