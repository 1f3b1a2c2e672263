import Synchronization
import TidemarkEngine

/// A database that counts its calls, lets others come first, and passes the calls on.
final class CountedDatabase: AccessDatabase {
    struct Counts: Hashable {
        var looks = 0
        var transactions = 0
        var versions = 0
    }

    private let database: any AccessDatabase
    private let calls = Mutex(Counts())
    private let interruption = Mutex<(@Sendable () async throws -> Void)?>(nil)

    init(_ database: any AccessDatabase) { self.database = database }

    var counts: Counts { calls.withLock { $0 } }

    func reset() { calls.withLock { $0 = Counts() } }

    /// Runs `body` right before the next transaction begins.
    func beforeTransaction(_ body: @escaping @Sendable () async throws -> Void) { interruption.withLock { $0 = body } }

    func transaction<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success
    {
        calls.withLock { $0.transactions += 1 }
        try await interruption.withLock { body in
            defer { body = nil }
            return body
        }?()
        return try await database.transaction(body)
    }

    func read<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success
    {
        calls.withLock { $0.looks += 1 }
        return try await database.read(body)
    }

    func version() async throws -> Int64 {
        calls.withLock { $0.versions += 1 }
        return try await database.version()
    }
}
