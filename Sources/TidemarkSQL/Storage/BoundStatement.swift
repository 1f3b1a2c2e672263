package import GRDB
import GRDBSQLite
package import TidemarkCore

/// A cached statement without GRDB's array of arguments, which is as expensive as the insertion of a short row.
package struct BoundStatement {
    private let db: Database
    private let cached: Statement
    private let statement: OpaquePointer
    private let sql: String

    /// Compiles a statement, or finds it in the connection's cache.
    package init(_ sql: String, in db: Database) throws {
        self.db = db
        self.sql = sql
        cached = try db.cachedStatement(sql: sql)
        statement = cached.sqliteStatement
        // GRDB leaves a statement as it is after its last step, and SQLite then refuses values.
        sqlite3_reset(statement)
    }

    /// Runs the statement once, so that the app's observers of the database see its effects.
    package func runObserved(_ bind: (Self) throws -> Void) throws {
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        // GRDB leaves the values alone that are bound from here on.
        cached.setUncheckedArguments(StatementArguments())
        try bind(self)
        try cached.execute()
    }

    /// Runs the statement once with the values that `bind` binds; the others are NULL.
    package func run(_ bind: (Self) throws -> Void) throws { try run(bind) { _ in } }

    /// Runs the statement once, and passes it on at each row.
    package func run(_ bind: (Self) throws -> Void, row: (OpaquePointer) throws -> Void) throws {
        try run(bind) { pointer in
            try row(pointer)
            return true
        }
    }

    /// Runs the statement once, and passes it on at each row, until `row` returns false.
    package func run(_ bind: (Self) throws -> Void, while row: (OpaquePointer) throws -> Bool) throws {
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        try bind(self)
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_ROW {
                guard try row(statement) else { return }
                continue
            }
            if code == SQLITE_DONE { return }
            throw DatabaseError(
                resultCode: ResultCode(rawValue: sqlite3_extended_errcode(db.sqliteConnection)),
                message: String(cString: sqlite3_errmsg(db.sqliteConnection)),
                sql: sql)
        }
    }

    package func bind(_ value: Value, at index: Int32) {
        switch value {
        case .null: break
        case .integer(let value): bind(value, at: index)
        case .real(let value): bind(value, at: index)
        case .text(let text): bind(text, at: index)
        case .rawText(let bytes): bind(bytes, at: index)
        case .blob(let bytes): bind(blob: bytes, at: index)
        }
    }

    package func bind(_ value: Int, at index: Int32) { sqlite3_bind_int64(statement, index, Int64(value)) }
    /// Binds a value; nil is NULL.
    package func bind(_ value: Int64?, at index: Int32) { if let value { sqlite3_bind_int64(statement, index, value) } }

    package func bind(_ value: Double?, at index: Int32) {
        if let value { sqlite3_bind_double(statement, index, value) }
    }

    package func bind(_ text: String?, at index: Int32) {
        guard var text else { return }
        text.withUTF8 { bind(text: $0, at: index, Self.transient) }
    }

    package func bind(_ text: [UInt8]?, at index: Int32) {
        text?.withUnsafeBufferPointer { bind(text: $0, at: index, Self.transient) }
    }

    /// Binds the value of a cell; the reader's text has to stay until the statement has run.
    package func bind(_ cell: Cell, of reader: JSONReader, at index: Int32) throws(InvalidValue) {
        if cell.kind == .text {
            // SQLite copies the text into the row while the statement runs.
            return bind(text: UnsafeBufferPointer(rebasing: reader.bytes[cell.range]), at: index, nil)
        }
        bind(try reader.value(of: cell), at: index)
    }

    private func bind(blob: [UInt8], at index: Int32) {
        guard !blob.isEmpty else { return _ = sqlite3_bind_zeroblob(statement, index, 0) }
        blob.withUnsafeBytes {
            _ = sqlite3_bind_blob64(statement, index, $0.baseAddress, UInt64($0.count), Self.transient)
        }
    }

    private func bind(text: UnsafeBufferPointer<UInt8>, at index: Int32, _ lifetime: sqlite3_destructor_type?) {
        guard let start = text.baseAddress, !text.isEmpty else {
            sqlite3_bind_text(statement, index, "", 0, Self.transient)
            return
        }
        start.withMemoryRebound(to: CChar.self, capacity: text.count) {
            _ = sqlite3_bind_text(statement, index, $0, Int32(text.count), lifetime)
        }
    }

    /// SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
}

/// Reads rows as values, by cached statements.
package enum RowValues {
    /// Runs a cached statement, and passes on the values of each row.
    package static func read(
        _ sql: String, _ arguments: [Value] = [], in db: Database, row: ([Value]) throws -> Void
    ) throws {
        let statement = try BoundStatement(sql, in: db)
        try statement.run { bound in
            for (index, value) in arguments.enumerated() { bound.bind(value, at: Int32(index + 1)) }
        } row: { pointer in
            try row(values(in: pointer))
        }
    }

    package static func values(in statement: OpaquePointer) -> [Value] {
        (0..<sqlite3_column_count(statement)).map { value(of: $0, in: statement) }
    }

    /// Returns the values of the first row; nil without one.
    package static func first(_ sql: String, _ arguments: [Value] = [], in db: Database) throws -> [Value]? {
        var first: [Value]?
        try read(sql, arguments, in: db) { row in first = first ?? row }
        return first
    }

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
/// A damaged page can return any value in any column, such as NULL in a NOT NULL column. GRDB's own subscript traps
/// then; these throw, and the caller reports `fileDamaged`. `Tests/TidyTests` reports every use of the subscript.
extension Row {
    /// Reads the value of a column; throws `RowDecodingError` if it has another type, or is NULL and not optional.
    package func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ column: String) throws -> Value {
        try decode(forColumn: column)
    }

    /// Reads the value of a column; throws `RowDecodingError` if it has another type, or is NULL and not optional.
    package func value<Value: DatabaseValueConvertible>(_ column: String) throws -> Value {
        try decode(forColumn: column)
    }

    /// Reads the value of the column at an index from 0; throws `RowDecodingError` as the others do.
    package func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(_ index: Int) throws -> Value {
        try decode(atIndex: index)
    }
}

/// Flags that change how SQLite compiles statements, set without expiring prepared statements.
///
/// SQLite sets such a flag when it prepares the `PRAGMA`, and expires every prepared statement when it runs it ("some
/// pragmas run during the SQL compilation stage", <https://www.sqlite.org/pragma.html>). The engine switches reference
/// checks off and on for each answer; running the pragma would recompile all statements of the engine and the app each
/// time. So ``set(_:in:)`` prepares the pragma and does not run it. That is sound as long as a statement always runs
/// under the flag that it was prepared under: the engine's statements have texts of their own, and the app's statements
/// do not run meanwhile. The few places that run the same texts under another flag call ``withNewStatements(_:_:)``.
package enum ConnectionFlag: String {
    /// Whether SQLite enforces references; can be switched outside transactions only.
    case foreignKeys = "foreign_keys"
    /// Whether SQLite checks references at the commit; every commit and rollback switches it off.
    case deferForeignKeys = "defer_foreign_keys"
    case ignoreCheckConstraints = "ignore_check_constraints"

    package func isOn(_ db: Database) throws -> Bool {
        // SQLite compiles the value into the statement: a cached statement would return a stale one.
        try Bool.fetchOne(db, sql: "PRAGMA \(rawValue)") ?? false
    }

    /// Runs `body` with statements prepared under the current flags, and expires them afterwards.
    package static func withNewStatements(_ db: Database, _ body: () throws -> Void) throws {
        // Setting a flag to its current value expires every statement and has no other effect.
        let expire = "PRAGMA ignore_check_constraints = OFF"
        try db.execute(sql: expire)
        let outcome = Result(catching: body)
        try db.tidyUp(expire)
        try outcome.get()
    }

    /// Sets the flag for statements prepared from now on.
    package func set(_ isOn: Bool, in db: Database) throws {
        let sql = "PRAGMA \(rawValue) = \(isOn ? "ON" : "OFF")"
        do { _ = try db.makeStatement(sql: sql) } catch is CancellationError {
            // Cancellation interrupts SQLite once, so the second attempt succeeds.
            _ = try db.makeStatement(sql: sql)
        }
    }
}

/// Builds pieces of SQL text; names come from an introspected schema, never from a message.
package enum SQLText {
    /// Returns a name in double quotes, but a rowid without: SQLite reads an unknown quoted name as a string.
    package static func name(_ name: some StringProtocol) -> String {
        SyncedTable.rowidNames.contains { $0 == name } ? String(name) : quote(name, by: "\"")
    }

    package static func literal(_ text: some StringProtocol) -> String { quote(text, by: "'") }

    /// Quotes a text; it has a fast path, because almost no name contains a quote.
    private static func quote(_ text: some StringProtocol, by quote: Character) -> String {
        let isPlain = !text.utf8.contains(quote.asciiValue ?? 0)
        let inside =
            isPlain
            ? String(text)
            : text.split(separator: quote, omittingEmptySubsequences: false).joined(separator: "\(quote)\(quote)")
        return "\(quote)\(inside)\(quote)"
    }

    /// Returns names in double quotes, each after `prefix`, joined by commas.
    package static func names(_ names: [String], prefix: String = "") -> String {
        names.map { prefix + name($0) }.joined(separator: ", ")
    }

    /// Whether a statement has a keyword, given in upper case; most statements lack its letters, which is fast to see.
    package static func hasKeyword(_ keyword: String, in sql: String) -> Bool {
        sql.uppercased().contains(keyword) && keywords(sql).contains(keyword)
    }

    /// Returns a statement in upper case without literals, quoted names and comments.
    package static func keywords(_ sql: String) -> String {
        let rest = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*.*?\*\//.dotMatchesNewlines()
        return sql.replacing(rest, with: " ").uppercased()
    }
}
