import GRDB
import GRDBSQLite
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Ends statements of a connection that run too long.
///
/// SQLite calls the handler every some thousand steps of its machine, and stops the statement when it returns true.
/// A function that reads long values is one step, and asks ``TidemarkSQL/StatementTime``.
final class ReadingDeadline {
    private static let steps: Int32 = 4_000
    private let end: ContinuousClock.Instant

    /// Runs `body`, whose statements end with `queryTooCostly` after the limit of time.
    static func run<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        let deadline = ReadingDeadline()
        let context = Unmanaged.passUnretained(deadline).toOpaque()
        sqlite3_progress_handler(
            db.sqliteConnection,
            steps,
            { context in
                guard let context else { return 0 }
                let deadline = Unmanaged<ReadingDeadline>.fromOpaque(context).takeUnretainedValue()
                return ContinuousClock.now >= deadline.end ? 1 : 0
            },
            context
        )
        defer {
            sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil)
            withExtendedLifetime(deadline) {}
        }
        let end = deadline.end
        return try StatementTime.$isOver.withValue({ ContinuousClock.now >= end }) { try body() }
    }

    private init() { end = .now + .milliseconds(ZoneReaderLimits.millisecondsMax) }
}
