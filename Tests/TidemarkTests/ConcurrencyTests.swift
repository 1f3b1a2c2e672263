import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 26: one sync at a time, whichever task calls it, and ids that survive a restart.
@Suite struct ConcurrencyTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    @Test func `A15: the counter of temporary ids survives a restart`() async throws {
        let anna = try await Cluster(schema: Self.schema).device("anna")
        let first = try await anna.database.write { db in [try TemporaryIDs.next(db), try TemporaryIDs.next(db)] }
        try anna.database.close()
        let restarted = try await anna.reopened()
        let second = try await restarted.database.write { try TemporaryIDs.next($0) }
        #expect(first == [-1, -2])
        #expect(second == -3)
    }

    @Test func `A15: an id drawn by a plain insert is never drawn again`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna", limits: .withoutLending)
        let draw = "INSERT INTO notes (text) VALUES ('x') RETURNING id"
        let first = try await anna.database.write { try Int64.fetchOne($0, sql: draw) }
        try await anna.engine.sync()
        try await anna.write("DELETE FROM notes")
        try await anna.engine.sync()
        let restarted = try await anna.reopened()
        let second = try await restarted.database.write { try Int64.fetchOne($0, sql: draw) }
        #expect(try TemporaryID.isTemporary(#require(first)))
        #expect(try second == #require(first) + 1)
        try await restarted.engine.sync()
        #expect(try await restarted.engine.permanentID(for: first ?? 0, in: "notes") == 1)
        #expect(try await restarted.engine.permanentID(for: second ?? 0, in: "notes") == 2)
    }

    @Test func `A15: twenty callers of sync share rounds, never two at once`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let transport = CountingTransport(wrapping: anna.transport)
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: transport)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...20 {
                group.addTask {
                    try await anna.write("INSERT INTO notes (text) VALUES ('\(number)')")
                    try await engine.sync()
                }
            }
            try await group.waitForAll()
        }
        #expect(transport.highest == 1)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT count(*), count(DISTINCT text) FROM notes") == ["20|20"])
    }

    @Test func `A15: an edit made after a round applied its answer is sent by the next sync`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let following = Mutex<Task<Void, any Error>?>(nil)
        try await anna.write("INSERT INTO notes (text) VALUES ('first')")
        anna.transport.faults.whileInFlight {
            try await anna.database.writeWithoutTransaction { db in
                // The next call applies the answer; the round ends without another.
                db.afterNextTransaction { _ in
                    let sync = Self.editAndSync(anna)
                    following.withLock { $0 = sync }
                }
            }
        }
        try await anna.engine.sync()
        let task = following.withLock { $0 }
        let sync = try #require(task)
        try await sync.value
        #expect(try await anna.engine.status().pendingChangeSets == 0)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["first", "second"])
    }

    /// Edits the file, and returns once the engine has a call for a sync.
    private static func editAndSync(_ device: TestDevice) -> Task<Void, any Error> {
        do { try device.writeOutside("INSERT INTO notes (text) VALUES ('second')") } catch { Issue.record(error) }
        let door = Latch()
        door.close()
        let sync = Task { try await device.engine.sync { door.open() } }
        _ = door.passing()
        return sync
    }

    @Test func `A15: two engines on one file double nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let first = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // In practice a lock separates them; correctness must not depend on it.
        let anna = try await first.reopened(environment: .ignoringLocks)
        let second = try await first.reopened(environment: .ignoringLocks)
        for round in 1...10 {
            try await anna.write("INSERT INTO notes (text) VALUES ('first \(round)')")
            try await second.write("INSERT INTO notes (text) VALUES ('second \(round)')")
            async let one: Void = anna.engine.sync()
            async let other: Void = second.engine.sync()
            _ = try await (one, other)
        }
        try await cluster.converge(anna, second, ben)
        #expect(try await ben.rows("SELECT count(*), count(DISTINCT text) FROM notes") == ["20|20"])
    }

    @Test func `A15: a process overtakes another one's snapshot of another history, nothing doubles`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let first = try await cluster.device("anna")
        let second = try await first.reopened(environment: .ignoringLocks)
        let transport = OvertakenTransport(wrapping: first.transport)
        let anna = try await Self.engine(on: first, over: transport)
        try await cluster.restore(nil)
        transport.whileSnapshotTravels {
            try await second.engine.sync()
            try await second.write("INSERT INTO notes (text) VALUES ('meanwhile')")
            try await second.engine.sync()
        }
        try await anna.sync()
        #expect(transport.isOvertaken)
        try await cluster.converge(second)
        let counts = "SELECT count(*), count(DISTINCT text) FROM notes"
        #expect(try await cluster.rows(counts) == ["1|1"])
    }

    @Test func `A15: a snapshot overtaken by another process does not lower the revision`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (1, '0')")
        let first = try await cluster.device("anna")
        let second = try await first.reopened(environment: .ignoringLocks)
        let transport = OvertakenTransport(wrapping: first.transport)
        let anna = try await Self.engine(on: first, over: transport)
        // All rows are due, and no sent change set is left to ask about.
        try await first.write("UPDATE tidemark_device SET stale = 1")
        transport.whileSnapshotTravels {
            try await second.engine.sync()
            try await second.write("INSERT INTO notes (text) VALUES ('meanwhile')")
            try await second.engine.sync()
        }
        let stream = anna.deviceEvents
        try await anna.sync()
        #expect(transport.isOvertaken)
        await anna.finishEvents()
        let events: [DeviceEvent] = await stream.reduce(into: []) { $0.append($1) }
        #expect(!events.contains { if case .snapshotTaken = $0 { true } else { false } })
        try await cluster.converge(second)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["0", "meanwhile"])
    }

    /// An engine on a device's file with another transport, which ignores the lock.
    private static func engine(on device: TestDevice, over transport: any Transport) async throws -> SyncEngine {
        try await SyncEngine(
            device.database, server: "http://cluster.test", transport: transport, environment: .ignoringLocks)
    }

    @Test func `A15: of edits made during rounds none is lost or doubled`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (1, '0')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        async let writing: Void = {
            for number in 1...60 {
                try await anna.write(
                    """
                    INSERT INTO notes (text) VALUES ('\(number)');
                    UPDATE notes SET text = text + 1 WHERE id = 1
                    """
                )
            }
        }()
        for _ in 0..<20 {
            try await anna.engine.sync()
            try await ben.engine.sync()
        }
        try await writing
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["60"])
        #expect(try await ben.rows("SELECT count(*), count(DISTINCT text) FROM notes WHERE id > 1") == ["60|60"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }
}

extension SyncEngine {
    /// Syncs; no other task runs between the call of `asking` and the check whether a round is in
    /// progress.
    fileprivate func sync(asking: @Sendable () -> Void) async throws {
        asking()
        try await sync()
    }
}

/// A transport that records the number of concurrent requests.
private final class CountingTransport: ForwardingTransport {
    let real: InProcessTransport
    private let counts = Mutex((active: 0, highest: 0))

    init(wrapping real: InProcessTransport) { self.real = real }

    var highest: Int { counts.withLock { $0.highest } }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        counts.withLock {
            $0.active += 1
            $0.highest = max($0.highest, $0.active)
        }
        defer { counts.withLock { $0.active -= 1 } }
        await Task.yield()
        return try await real.sync(zone: zone, body: body)
    }
}

/// A transport that runs code during a snapshot download.
private final class OvertakenTransport: ForwardingTransport {
    let real: InProcessTransport
    private let meanwhile = Mutex<(@Sendable () async throws -> Void)?>(nil)
    private let happened = Mutex(false)

    init(wrapping real: InProcessTransport) { self.real = real }

    var isOvertaken: Bool { happened.withLock { $0 } }

    /// Runs `body` once, after the server has built the next snapshot and before it arrives.
    func whileSnapshotTravels(_ body: @escaping @Sendable () async throws -> Void) { meanwhile.withLock { $0 = body } }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
        let body = meanwhile.withLock { meanwhile in
            defer { meanwhile = nil }
            return meanwhile
        }
        if let body {
            try await body()
            happened.withLock { $0 = true }
        }
    }
}
