import GRDB

// GRDB's calls by statement, for statements that the connection compiles once and keeps.

extension Database {
    func execute(cached sql: String, arguments: StatementArguments? = nil) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }
}

extension Row {
    static func fetchAll(_ db: Database, cached sql: String, arguments: StatementArguments? = nil) throws -> [Row] {
        try fetchAll(db.cachedStatement(sql: sql), arguments: arguments)
    }

    static func fetchOne(_ db: Database, cached sql: String, arguments: StatementArguments? = nil) throws -> Row? {
        try fetchOne(db.cachedStatement(sql: sql), arguments: arguments)
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible {
    static func fetchAll(_ db: Database, cached sql: String, arguments: StatementArguments? = nil) throws -> [Self] {
        try fetchAll(db.cachedStatement(sql: sql), arguments: arguments)
    }

    static func fetchOne(_ db: Database, cached sql: String, arguments: StatementArguments? = nil) throws -> Self? {
        try fetchOne(db.cachedStatement(sql: sql), arguments: arguments)
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible & Hashable {
    static func fetchSet(_ db: Database, cached sql: String, arguments: StatementArguments? = nil) throws -> Set<Self> {
        try fetchSet(db.cachedStatement(sql: sql), arguments: arguments)
    }
}
