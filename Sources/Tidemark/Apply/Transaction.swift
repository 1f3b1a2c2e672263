import GRDB
import TidemarkSQL

/// Transactions without foreign key enforcement, for writing the server's rows.
enum Transaction {
    /// The pragma has no effect inside a transaction, so the caller must be outside one.
    static func withoutForeignKeys<Output>(_ db: Database, _ body: () throws -> Output) throws -> Output {
        let wasOn = try ConnectionFlag.foreignKeys.isOn(db)
        if wasOn { try ConnectionFlag.foreignKeys.set(false, in: db) }
        var output: Output?
        let outcome = Result {
            try db.inTransaction(.immediate) {
                output = try body()
                return .commit
            }
        }
        if wasOn { try ConnectionFlag.foreignKeys.set(true, in: db) }
        try outcome.get()
        guard let output else { throw TidemarkError.unreadable("The file") }
        return output
    }
}
