package import GRDB
import GRDBSQLite

extension Database {
    /// Runs a statement that restores the connection's state and changes no rows, even if the task is cancelled.
    ///
    /// GRDB runs only rollbacks in a cancelled task, so this passes the statement to SQLite directly.
    package func tidyUp(_ sql: String) throws {
        var code = sqlite3_exec(sqliteConnection, sql, nil, nil, nil)
        // Cancellation interrupts SQLite once, so the second attempt succeeds.
        if code == SQLITE_INTERRUPT { code = sqlite3_exec(sqliteConnection, sql, nil, nil, nil) }
        guard code == SQLITE_OK else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage, sql: sql)
        }
    }
}
