import GRDB

extension Database {
    /// Runs a statement that the connection compiles once and keeps.
    func execute(cached sql: String, arguments: StatementArguments? = nil) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }
}
