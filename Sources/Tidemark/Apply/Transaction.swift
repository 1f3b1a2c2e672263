import GRDB
import TidemarkSQLite

/// Transactions in the form that taking in the server's rows needs.
enum Transaction {
    /// Runs `body` in an immediate transaction in which references are not enforced.
    ///
    /// The pragma only works outside transactions, so the caller must be outside one.
    static func withoutForeignKeys(_ db: Database, _ body: () throws -> Void) throws {
        let wasOn = try ConnectionFlag.foreignKeys.isOn(db)
        if wasOn { try ConnectionFlag.foreignKeys.set(false, in: db) }
        let outcome = Result {
            try db.inTransaction(.immediate) {
                try body()
                return .commit
            }
        }
        if wasOn { try ConnectionFlag.foreignKeys.set(true, in: db) }
        try outcome.get()
    }
}
