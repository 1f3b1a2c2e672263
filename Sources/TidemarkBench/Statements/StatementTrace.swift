import GRDBSQLite
import Synchronization

/// Records every statement that starts, on every connection that this process opens after ``start()``.
///
/// SQLite itself reports them, so those on temporary tables, PRAGMAs and databases in memory are among them. The
/// statements of triggers are not. Because SQLite reports those of the whole process, nothing else may run in it.
enum StatementTrace {
    /// A statement that started.
    struct Statement: Sendable {
        /// The file of its connection; empty for a database in memory.
        let file: String
        /// Its SQL, without values.
        let sql: String
    }

    private static let started = Mutex<[Statement]>([])

    /// Makes SQLite report the statements of each connection that opens from now on.
    ///
    /// - Throws: ``StatementsNotTraced`` if SQLite refuses.
    static func start() throws {
        let attach: Attach = { connection, _, _ in
            sqlite3_trace_v2(connection, UInt32(SQLITE_TRACE_STMT), StatementTrace.record, nil)
        }
        guard sqlite3_auto_extension(unsafeBitCast(attach, to: Extension.self)) == SQLITE_OK else {
            throw StatementsNotTraced()
        }
    }

    /// Returns the statements that start while `body` runs.
    static func statements(during body: () async throws -> Void) async rethrows -> [Statement] {
        started.withLock { $0 = [] }
        try await body()
        return started.withLock { $0 }
    }

    /// The function of an extension as SQLite calls it, and as its C header declares it.
    private typealias Attach = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, UnsafeRawPointer?) -> Int32
    private typealias Extension = @convention(c) () -> Void

    private static let record:
        @convention(c) (UInt32, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> Int32 =
            { _, _, statement, text in
                guard let statement, let text else { return 0 }
                let statementPointer = OpaquePointer(statement)
                let own = sqlite3_sql(statementPointer).map { String(cString: $0) } ?? ""
                let reported = String(cString: text.assumingMemoryBound(to: CChar.self))
                // SQLite reports a trigger's statement as a comment of the statement that fires it.
                guard reported == own else { return 0 }
                let file = sqlite3_db_filename(sqlite3_db_handle(statementPointer), "main").map { String(cString: $0) }
                StatementTrace.started.withLock { $0.append(Statement(file: file ?? "", sql: own)) }
                return 0
            }
}

/// SQLite did not accept the function that traces new connections.
struct StatementsNotTraced: Error, Hashable, CustomStringConvertible {
    var description: String { "SQLite does not report the statements of new connections." }
}
