import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 26, case 41: two processes sync one file at the same moment.
///
/// A row in the file names the syncing process, so that another does not repeat the work.
@Suite struct LockTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    /// A process with a number and a clock.
    private struct Process: Sendable {
        let number: Int32
        let time: Date
        let running: @Sendable (Int32) -> Bool

        init(_ number: Int32, at time: Date, running: @escaping @Sendable (Int32) -> Bool) {
            self.number = number
            self.time = time
            self.running = running
        }

        func open(_ device: TestDevice) async throws -> SyncEngine {
            let number = number
            let time = time
            let running = running
            let environment = SyncEngine.Environment(
                now: { time }, newID: { UUID() }, process: number, isRunning: running)
            return try await SyncEngine(
                device.database, server: "http://cluster.test", transport: device.transport, environment: environment)
        }
    }

    private static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    /// The lock for a process that syncs `later` after another one began.
    private static func second(after later: TimeInterval, isFirstRunning: Bool = true) async throws -> TidemarkError? {
        let cluster = try Cluster(schema: schema)
        let anna = try await cluster.device("anna")
        let first = try await Process(1, at: noon) { _ in true }.open(anna)
        let second = try await Process(2, at: noon.addingTimeInterval(later)) { _ in isFirstRunning }.open(anna)
        let outcome = Mutex<TidemarkError?>(nil)
        anna.transport.faults.whileInFlight {
            do { try await second.sync() } catch let error as TidemarkError { outcome.withLock { $0 = error } }
        }
        try await anna.write("INSERT INTO notes (text) VALUES ('milk')")
        try await first.sync()
        // It is free again at once, in each case.
        try await second.sync()
        #expect(try await cluster.rows("SELECT text FROM notes") == ["milk"])
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_lock") == ["0"])
        return outcome.withLock { $0 }
    }

    @Test func `case 41: a second process is told who syncs and until when`() async throws {
        let error = try #require(try await Self.second(after: 5))
        #expect(error.code == .syncInProgress)
        #expect(error.recovery == .retry)
        #expect(error.message.contains("Process 1 "))
        #expect(error.message.contains("2027-01-15T08:01:00Z"))
    }

    @Test func `case 41: the lock of an ended process is free at once`() async throws {
        #expect(try await Self.second(after: 5, isFirstRunning: false) == nil)
    }

    @Test func `case 41: an expired lock is free`() async throws {
        #expect(try await Self.second(after: 60) == nil)
    }

    @Test func `case 47: a lock from a clock that was a year ahead is free`() async throws {
        #expect(try await Self.second(after: -365 * 86_400) == nil)
    }

    @Test(.timeLimit(.minutes(30))) func `case 41: a lock is held during a download, however long`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let transport = SlowTransport(wrapping: anna.transport, at: Self.noon) {
            // Forty seconds after noon the process renewed it for a minute.
            while try await anna.rows("SELECT until FROM tidemark_lock") != ["1800000100000"] { await Task.yield() }
            let second = try await Process(2, at: Self.noon.addingTimeInterval(80)) { _ in true }.open(anna)
            let error = await #expect(throws: TidemarkError.self) { try await second.sync() }
            #expect(error?.code == .syncInProgress)
        }
        let first = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: transport,
            environment: .init(now: { transport.now }, newID: { UUID() }, process: 1) { _ in true })
        try await anna.write("UPDATE tidemark_device SET stale = 1")
        try await first.sync()
        #expect(transport.now > Self.noon)
    }

    @Test func `case 41: a failed or cancelled sync releases the lock`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_lock") == ["0"])
        try await anna.engine.sync()
    }
}

/// A transport with a delay of forty seconds before the first chunk of a snapshot.
private final class SlowTransport: ForwardingTransport {
    let real: InProcessTransport
    private let time: Mutex<Date>
    private let meanwhile: @Sendable () async throws -> Void

    /// Creates one that runs code after that chunk.
    init(wrapping real: InProcessTransport, at time: Date, meanwhile: @escaping @Sendable () async throws -> Void) {
        self.real = real
        self.meanwhile = meanwhile
        self.time = Mutex(time)
    }

    var now: Date { time.withLock { $0 } }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        time.withLock { $0 += 40 }
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
        try await meanwhile()
    }
}
