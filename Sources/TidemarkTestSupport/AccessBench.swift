import Synchronization
package import TidemarkCore
package import TidemarkEngine

/// A database of users with a gate before it, and a clock that a test sets.
package final class AccessBench: Sendable {
    /// The database, or one of several connections to it.
    package let database: any AccessDatabase
    /// The gate of a server with this database.
    package let gate: MemberGate
    private let clock: Clock
    /// Differs for each token of a process.
    private static let seed = Atomic<UInt64>(0)

    /// A time that stands still until a test advances it, in milliseconds since 1970.
    private final class Clock: Sendable {
        let time = Mutex<Int64>(1_800_000_000_000)
    }

    /// Makes a bench around a database.
    ///
    /// With `host`, the gate also makes zones. `random` is the source of names and secrets; nil for
    /// the system's.
    package convenience init(
        _ database: any AccessDatabase, host: (any ZoneHost)? = nil,
        random: (@Sendable () -> any RandomNumberGenerator & Sendable)? = nil
    ) { self.init(database, host: host, clock: Clock(), random: random) }

    private init(
        _ database: any AccessDatabase, host: (any ZoneHost)?, clock: Clock,
        random: (@Sendable () -> any RandomNumberGenerator & Sendable)? = nil
    ) {
        self.database = database
        self.clock = clock
        let now = { @Sendable in clock.time.withLock { $0 } }
        gate =
            random.map { MemberGate(database, host: host, now: now, random: $0) }
            ?? MemberGate(database, host: host, now: now)
    }

    /// Another server on the same users, with the same clock.
    package func node(_ database: any AccessDatabase) -> AccessBench { AccessBench(database, host: nil, clock: clock) }

    /// The time, in milliseconds since 1970.
    package var now: Int64 { clock.time.withLock { $0 } }

    /// Sets the clock forward, in milliseconds.
    package func advance(by milliseconds: Int64) { clock.time.withLock { $0 += milliseconds } }

    // MARK: An operator's commands

    /// Runs work on users and members in one transaction.
    @discardableResult package func members<Success: Sendable>(_ body: @escaping @Sendable (Members) throws -> Success)
        async throws -> Success
    {
        let now = now
        return try await database.transaction { try body(Members($0, now: now)) }
    }

    /// Runs work on tokens in one transaction.
    @discardableResult package func tokens<Success: Sendable>(_ body: @escaping @Sendable (Tokens) throws -> Success)
        async throws -> Success
    {
        let now = now
        return try await database.transaction { try body(Tokens($0, now: now)) }
    }

    /// Adds users with a role in the zone `main`.
    package func add(_ users: String..., role: Role? = .writer, zone: String = "main") async throws {
        for user in users {
            try await members { members in
                try members.add(user)
                try members.set(role, of: user, in: zone)
            }
        }
    }

    /// Issues a token, as a command of an operator does.
    package func issue(_ kind: Token.Kind, to user: String, duration: Int64 = Tokens.signInDuration) async throws
        -> String
    {
        let seed = Self.seed.add(1, ordering: .relaxed).newValue
        return try await tokens { tokens in
            var generator = SeededGenerator(seed: seed)
            return try tokens.issue(kind, to: user, duration: duration, using: &generator).text
        }
    }

    /// Signs a device of a user in, and returns the device's token, which no request has shown yet.
    package func device(_ device: String, of user: String) async throws -> String {
        try await gate.exchange(try await issue(.signIn, to: user), device: device).token
    }

    // MARK: Looking

    /// The user of a request with a token; nil when the gate refuses it.
    package func user(_ token: String) async throws -> String? {
        do { return try await gate.caller(token: token).userID } catch let error as TidemarkError
            where error.code == .signInNeeded
        { return nil }
    }

    /// The error that refuses a request to a zone; nil when the gate admits it.
    package func refusal(of token: String?, to zone: String = "main") async throws -> ErrorCode? {
        do {
            _ = try await gate.access(to: zone, token: token) { _ in }
            return nil
        } catch let error as TidemarkError { return error.code }
    }

    /// The actions of the audit, oldest first.
    package func audit() async throws -> [String] {
        try await database.read { try Audit($0, now: 0).entries(since: 0).map(\.action) }
    }

    /// All rows of all tables, each as text.
    package func content() async throws -> [[AccessRow]] {
        try await database.read { statements in
            try ["user", "token", "member", "audit"].map { table in
                try statements.rows("SELECT * FROM tidemark_\(table) ORDER BY 1, 2", [])
            }
        }
    }
}
