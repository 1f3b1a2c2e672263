package import GRDB

/// Flags that change how SQLite compiles statements, set without expiring prepared statements.
///
/// SQLite sets such a flag when it prepares the `PRAGMA`, and expires every prepared statement when
/// it runs it ("some pragmas run during the SQL compilation stage",
/// <https://www.sqlite.org/pragma.html>). The engine switches reference checks off and on for each
/// answer; running the pragma would recompile all statements of the engine and the app each time.
/// So ``set(_:in:)`` prepares the pragma and does not run it. That is sound as long as a statement
/// always runs under the flag that it was prepared under: the engine's statements have texts of
/// their own, and the app's statements do not run meanwhile. The few places that run the same texts
/// under another flag call ``withNewStatements(_:_:)``.
package enum ConnectionFlag: String {
    /// Whether SQLite enforces references; can be switched outside transactions only.
    case foreignKeys = "foreign_keys"
    /// Whether SQLite checks references at the commit; every commit and rollback switches it off.
    case deferForeignKeys = "defer_foreign_keys"
    /// Whether SQLite skips CHECK constraints.
    case ignoreCheckConstraints = "ignore_check_constraints"

    /// Whether the flag is set now.
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
