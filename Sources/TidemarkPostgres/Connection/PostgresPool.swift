import Foundation
import GRDB
import TidemarkCore

/// A pool of connections; each has its own thread and its own in-memory SQLite connection.
///
/// `idle` holds the free workers, `waiting` the tasks that wait for one, in order. libpq's calls
/// block, so none runs on the cooperative pool.
actor PostgresPool {
    private let address: String
    private let settings: PostgresConnection.Settings
    private let sizeMax: Int
    private var size = 0
    private var idle: [PostgresWorker] = []
    private var waiting: [CheckedContinuation<PostgresWorker, Never>] = []

    init(address: String, settings: PostgresConnection.Settings, sizeMax: Int) {
        self.address = address
        self.settings = settings
        self.sizeMax = max(1, sizeMax)
    }

    /// Runs `body` on a worker's thread.
    nonisolated func run<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection, Database) throws -> Result)
        async throws -> Result
    {
        let worker = try await acquireWorker()
        do {
            let result = try await worker.run(body)
            await release(worker)
            return result
        } catch {
            await release(worker)
            throw error
        }
    }

    private func acquireWorker() async throws -> PostgresWorker {
        if let worker = idle.popLast() { return worker }
        if size < sizeMax {
            size += 1
            do { return try PostgresWorker(address: address, settings: settings) } catch {
                size -= 1
                throw error
            }
        }
        return await withCheckedContinuation { waiting.append($0) }
    }

    private func release(_ worker: PostgresWorker) {
        guard waiting.isEmpty else { return waiting.removeFirst().resume(returning: worker) }
        idle.append(worker)
    }
}

/// A PostgreSQL connection and an SQLite connection that share one thread.
final class PostgresWorker: Sendable {
    /// The SQLite connection that stages requests; its queue is the worker's thread.
    private let scratch: DatabaseQueue
    private let link: Link

    /// Opens the connection on first use, and again after a loss.
    private final class Link: @unchecked Sendable {
        // Used on the queue of `scratch` only.
        let address: String
        let settings: PostgresConnection.Settings
        private var connection: PostgresConnection?

        init(_ address: String, _ settings: PostgresConnection.Settings) {
            self.address = address
            self.settings = settings
        }

        func usableConnection() throws -> PostgresConnection {
            if let connection, connection.isUsable, !connection.isInTransaction { return connection }
            connection = nil
            let fresh = try PostgresConnection(address, settings)
            connection = fresh
            return fresh
        }

        func drop() { connection = nil }
    }

    init(address: String, settings: PostgresConnection.Settings) throws {
        var configuration = Configuration()
        configuration.label = "tidemark.postgres"
        scratch = try DatabaseQueue(configuration: configuration)
        link = Link(address, settings)
    }

    func run<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection, Database) throws -> Result) async throws
        -> Result
    {
        try await scratch.writeWithoutTransaction { [link] db in
            do { return try body(try link.usableConnection(), db) } catch let failure as PostgresFailure
                where failure.isDisconnected
            {
                link.drop()
                throw failure
            }
        }
    }
}
