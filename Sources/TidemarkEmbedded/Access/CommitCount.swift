import GRDB
import GRDBSQLite
import Synchronization

/// SQLite's count of the commits of other connections to a file: `PRAGMA data_version`.
///
/// The server reads it with each request. So it is one prepared statement, which runs on the thread of the
/// request and takes some microseconds; GRDB's connections change the thread. Safe to use from any thread.
final class CommitCount: Sendable {
    private let connection: Mutex<Connection?>

    /// A connection that runs one statement; used under the lock only.
    private struct Connection: ~Copyable {
        let database: OpaquePointer
        let statement: OpaquePointer

        init(path: String) throws {
            var database: OpaquePointer?
            let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
            let result = sqlite3_open_v2(path, &database, flags, nil)
            guard result == SQLITE_OK, let database else {
                sqlite3_close_v2(database)
                throw DatabaseError(resultCode: ResultCode(rawValue: result), message: "cannot open the file")
            }
            sqlite3_busy_timeout(database, Self.busyMilliseconds)
            var statement: OpaquePointer?
            let sql = "PRAGMA data_version"
            let prepared = sqlite3_prepare_v3(database, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
            guard prepared == SQLITE_OK, let statement else {
                let message = String(cString: sqlite3_errmsg(database))
                sqlite3_close_v2(database)
                throw DatabaseError(resultCode: ResultCode(rawValue: prepared), message: message, sql: sql)
            }
            self.database = database
            self.statement = statement
        }

        deinit {
            sqlite3_finalize(statement)
            sqlite3_close_v2(database)
        }

        private static let busyMilliseconds: Int32 = 10_000

        borrowing func read() throws -> Int64 {
            let result = sqlite3_step(statement)
            let count = sqlite3_column_int64(statement, 0)
            // A statement that is not reset keeps its lock on the file.
            sqlite3_reset(statement)
            guard result == SQLITE_ROW else {
                let message = String(cString: sqlite3_errmsg(database))
                throw DatabaseError(resultCode: ResultCode(rawValue: result), message: message)
            }
            return count
        }
    }

    /// Opens the file; throws `DatabaseError`.
    init(path: String) throws { connection = Mutex(try Connection(path: path)) }

    /// Returns the count, equal while no other connection commits; throws `DatabaseError`, also after ``close()``.
    func read() throws -> Int64 {
        try connection.withLock { connection in
            guard let count = try connection?.read() else {
                throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the file is closed")
            }
            return count
        }
    }

    func close() { connection.withLock { $0 = nil } }
}
