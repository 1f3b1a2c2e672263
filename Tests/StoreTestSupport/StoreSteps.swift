import GRDB
import GRDBSQLite
import Synchronization
import TidemarkEngine
@testable import TidemarkEmbedded
@testable import TidemarkPostgres

extension Zone {
    /// Runs `body`, and returns the steps of SQLite's machine in which the store judged its requests, in hundreds.
    ///
    /// The number depends on rows and plans, not on the machine. In PostgreSQL it is the work beside the database.
    package func steps(_ body: () async throws -> Void) async throws -> Int {
        let counter = StepCounter()
        try await onCommitConnection { counter.begin(on: $0) }
        try await body()
        try await onCommitConnection { counter.end(on: $0) }
        return counter.hundreds
    }

    /// Runs `body` on the connection of commits, while no request runs: PostgreSQL then takes the same one.
    private func onCommitConnection(_ body: @escaping @Sendable (Database) -> Void) async throws {
        if let store = service as? EmbeddedStore {
            try await store.file.inTransaction { transaction, _ in
                body(transaction.db)
                return ((), .rollback)
            }
        } else if let store = service as? PostgresStore {
            try await store.zones.onLivingConnection { _, db in body(db) }
        }
    }
}

/// Counts steps on connections.
private final class StepCounter: Sendable {
    private let count = Mutex(0)

    var hundreds: Int { count.withLock { $0 } }

    func begin(on db: Database) {
        let pointer = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_progress_handler(
            db.sqliteConnection,
            100,
            { pointer in
                guard let pointer else { return 0 }
                Unmanaged<StepCounter>.fromOpaque(pointer).takeUnretainedValue().count.withLock { $0 += 1 }
                return 0
            },
            pointer
        )
    }

    func end(on db: Database) { sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
}
