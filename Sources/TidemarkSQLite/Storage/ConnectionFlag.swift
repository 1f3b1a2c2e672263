package import GRDB

/// The flags of a connection that change what SQLite compiles, switched without having everything
/// compiled anew.
///
/// SQLite sets such a flag when it prepares the `PRAGMA`, and expires every prepared statement when
/// it runs it ("some pragmas run during the SQL compilation stage",
/// <https://www.sqlite.org/pragma.html>). An engine that switches references off and on for each
/// answer would have all its statements and the app's compiled for each. So the pragma is prepared
/// only. That is sound where a statement is always prepared under the flag that it runs under: the
/// engine's statements have texts of their own, and the app's do not run meanwhile.
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

    /// Sets the flag for what is prepared from now on.
    package func set(_ isOn: Bool, in db: Database) throws {
        _ = try db.makeStatement(sql: "PRAGMA \(rawValue) = \(isOn ? "ON" : "OFF")")
    }
}
