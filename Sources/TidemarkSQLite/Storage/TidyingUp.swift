package import GRDB
import GRDBSQLite

extension Database {
    /// Runs a statement that puts the connection back as it was, also when the task is cancelled.
    ///
    /// GRDB then runs nothing but rollbacks, so the statement goes to SQLite itself. It must change
    /// no rows: observers would not hear of it.
    ///
    /// - Throws: `DatabaseError`.
    package func tidyUp(_ sql: String) throws {
        var code = sqlite3_exec(sqliteConnection, sql, nil, nil, nil)
        // The cancellation came just now; SQLite is interrupted once.
        if code == SQLITE_INTERRUPT { code = sqlite3_exec(sqliteConnection, sql, nil, nil, nil) }
        guard code == SQLITE_OK else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage, sql: sql)
        }
    }
}
