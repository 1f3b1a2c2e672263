import Dispatch
import TidemarkCore

/// A pool of connections; each has its own thread.
///
/// `idle` holds the free workers, `waiting` the tasks that wait for one, in order. libpq's calls
/// block, so none runs on the cooperative pool.
actor PostgresPool {
    private let address: String
    private let sizeMax: Int
    private var size = 0
    private var idle: [PostgresWorker] = []
    private var waiting: [CheckedContinuation<PostgresWorker, Never>] = []

    init(address: String, sizeMax: Int) {
        self.address = address
        self.sizeMax = max(1, sizeMax)
    }

    /// Runs `body` on a worker's thread.
    nonisolated func run<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> Result)
        async throws -> Result
    {
        let worker = await acquireWorker()
        do {
            let result = try await worker.run(body)
            await release(worker)
            return result
        } catch {
            await release(worker)
            throw error
        }
    }

    /// Runs `body` on a worker's thread, and on another one if a connection was lost while idle.
    nonisolated func runOnLivingConnection<Result: Sendable>(
        _ body: @escaping @Sendable (PostgresConnection) throws -> Result
    ) async throws -> Result {
        for _ in 0..<sizeMax {
            do { return try await run(body) } catch let failure as PostgresFailure
                where failure.isBeforeBegin && failure.isDisconnected
            { continue }
        }
        return try await run(body)
    }

    private func acquireWorker() async -> PostgresWorker {
        if let worker = idle.popLast() { return worker }
        if size < sizeMax {
            size += 1
            return PostgresWorker(address: address)
        }
        return await withCheckedContinuation { waiting.append($0) }
    }

    private func release(_ worker: PostgresWorker) {
        guard waiting.isEmpty else { return waiting.removeFirst().resume(returning: worker) }
        idle.append(worker)
    }
}

/// A connection to PostgreSQL with a thread of its own.
final class PostgresWorker: Sendable {
    private let queue = DispatchQueue(label: "tidemark.postgres")
    private let link: Link

    /// Opens the connection on first use, and again after a loss.
    private final class Link: @unchecked Sendable {
        // Used on the worker's queue only.
        let address: String
        private var connection: PostgresConnection?

        init(_ address: String) { self.address = address }

        func usableConnection() throws -> PostgresConnection {
            if let connection, connection.isUsable, !connection.isInTransaction { return connection }
            connection = nil
            let fresh = try PostgresConnection(address)
            connection = fresh
            return fresh
        }

        func drop() { connection = nil }
    }

    init(address: String) { link = Link(address) }

    func run<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> Result) async throws -> Result
    {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { [link] in
                continuation.resume(
                    with: Swift.Result {
                        do { return try body(try link.usableConnection()) } catch let failure as PostgresFailure
                            where failure.isDisconnected
                        {
                            link.drop()
                            throw failure
                        }
                    }
                )
            }
        }
    }
}
