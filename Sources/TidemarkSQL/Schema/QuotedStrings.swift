package import GRDB
import GRDBSQLite

/// Strings in double quotes, as in `WHERE key = "count"`.
///
/// SQLite reads a name in double quotes that it does not know as a string. The engine's connections do not,
/// because a column that is gone would silently be a string there, too. So they cannot run a program's
/// trigger with such a string.
package enum QuotedStrings {
    /// Puts single quotes around such strings by SQLite's own rename of a column; false if SQL has another fault.
    package static func rewrite(in db: Database) throws -> Bool {
        let connection = db.sqliteConnection
        var isRewritten = false
        try db.inSavepoint {
            _enableDoubleQuotedStringLiterals(connection)
            defer { _disableDoubleQuotedStringLiterals(connection) }
            do {
                try db.execute(
                    sql: """
                        CREATE TABLE main.tidemark_renamed (a);
                        ALTER TABLE main.tidemark_renamed RENAME COLUMN a TO b;
                        DROP TABLE main.tidemark_renamed;
                        """)
                isRewritten = true
                return .commit
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR { return .rollback }
        }
        db.clearSchemaCache()
        return isRewritten
    }
}
