import GRDB
import GRDBSQLite
import Synchronization
import TidemarkEngine
@testable import TidemarkEmbedded
@testable import TidemarkPostgres

extension Zone {
    /// Runs `body`, and returns the steps of SQLite's machine in which the store judged its requests, in hundreds; with
    /// PostgreSQL, the entries of indexes and the rows that the database read, in hundreds.
    ///
    /// The number depends on rows and plans, not on the machine.
    package func steps(_ body: () async throws -> Void) async throws -> Int {
        let counter = StepCounter()
        let before = try await rowsRead()
        try await onCommitConnection { counter.begin(on: $0) }
        try await body()
        try await onCommitConnection { counter.end(on: $0) }
        return try await counter.hundreds + (rowsRead() - before) / 100
    }

    /// The entries of indexes and the rows that PostgreSQL has read so far in this database, its catalogue aside.
    private func rowsRead() async throws -> Int {
        guard let store = service as? PostgresStore else { return 0 }
        return try await store.zones.onLivingConnection { pg in
            // A session reports its figures with the next statement.
            try pg.query("SELECT pg_stat_force_next_flush()")
            try pg.query("SELECT pg_stat_clear_snapshot()")
            let text = try pg.text(
                """
                SELECT (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes)
                    + (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables)
                """
            )
            return text.flatMap(Int.init) ?? 0
        }
    }

    /// The plans of the statements that PostgreSQL has prepared for commits so far; none of the embedded store.
    package func plans() async throws -> [String] {
        guard let store = service as? PostgresStore else { return [] }
        return try await store.zones.onLivingConnection { pg in
            let prepared = try pg.query("SELECT name, cardinality(parameter_types) FROM pg_prepared_statements")
            return try prepared.map { ($0.text(0), $0.integer(1) ?? 0) }.compactMap { name, count in
                let parameters = Array(repeating: "NULL", count: Int(count)).joined(separator: ", ")
                let call = count == 0 ? name : "\(name) (\(parameters))"
                return try pg.text("EXPLAIN (FORMAT JSON) EXECUTE \(call)")
            }
        }
    }

    /// Runs `body` on the connection of commits, while no request runs, if the store is in SQLite.
    private func onCommitConnection(_ body: @escaping @Sendable (Database) -> Void) async throws {
        guard let store = service as? EmbeddedStore else { return }
        try await store.file.inTransaction { transaction, _ in
            body(transaction.db)
            return ((), .rollback)
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
