package import GRDB

/// The flags of a connection that change what SQLite compiles, switched without having everything
/// compiled anew.
///
/// SQLite sets such a flag when it prepares the `PRAGMA`, and expires every prepared statement when
/// it runs it ("some pragmas run during the SQL compilation stage",
/// <https://www.sqlite.org/pragma.html>). An engine that switches references off and on for each
/// answer would have all its statements and the app's compiled for each. So the pragma is prepared
/// only. That is sound where a statement is always prepared under the flag that it runs under: the
/// engine's statements have texts of their own, and the app's do not run meanwhile. The few places
/// that run the same texts under another flag call ``preparingAnew(_:_:)``.
package enum ConnectionFlag: String {
    /// Whether references are enforced; can be switched outside transactions only.
    case foreignKeys = "foreign_keys"
    /// Whether references are checked at the commit; switched off by every commit and rollback.
    case deferForeignKeys = "defer_foreign_keys"
    /// Whether CHECK constraints are skipped.
    case ignoreCheckConstraints = "ignore_check_constraints"

    /// Whether the flag is set now.
    package func isOn(_ db: Database) throws -> Bool {
        // SQLite compiles the answer in, so that an older statement would give an older one.
        try Bool.fetchOne(db, sql: "PRAGMA \(rawValue)") ?? false
    }

    /// Runs `body` with statements that are prepared under the flags as they are, and leaves none
    /// of these behind.
    package static func preparingAnew(_ db: Database, _ body: () throws -> Void) throws {
        // Setting a flag to what it is expires every statement and does nothing else.
        let expire = "PRAGMA ignore_check_constraints = OFF"
        try db.execute(sql: expire)
        let outcome = Result(catching: body)
        try db.tidyUp(expire)
        try outcome.get()
    }

    /// Sets the flag for what is prepared from now on.
    package func set(_ isOn: Bool, in db: Database) throws {
        let sql = "PRAGMA \(rawValue) = \(isOn ? "ON" : "OFF")"
        do { _ = try db.makeStatement(sql: sql) } catch is CancellationError {
            // The cancellation came just now; SQLite is interrupted once.
            _ = try db.makeStatement(sql: sql)
        }
    }
}
