import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// D5: after `stop()` the file is free, and the next sync goes on.
@Suite(.timeLimit(.minutes(30))) struct StopTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    @Test func `rule 7 of the app's face: after stop no round holds the file, whatever it was doing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: "INSERT INTO notes (text) VALUES ('first')")
        let anna = try await cluster.device("anna")
        let gate = Gate(real: anna.transport)
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: gate)
        for _ in 1...3 {
            try await anna.write("INSERT INTO notes (text) VALUES ('more')")
            await engine.start(every: .seconds(3_600), isLive: false)
            await gate.somebodyWaits()
            await engine.stop()
            #expect(try await anna.rows("SELECT owner FROM tidemark_lock") == [])
            // Another process can sync at once.
            try await anna.reopened().engine.sync()
        }
    }

    @Test func `stop ends the round of another caller, who learns of it`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: "INSERT INTO notes (text) VALUES ('first')")
        let anna = try await cluster.device("anna")
        let gate = Gate(real: anna.transport)
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: gate)
        try await anna.write("INSERT INTO notes (text) VALUES ('kept')")
        let round = Task { try await engine.sync() }
        await gate.somebodyWaits()
        await engine.stop()
        await #expect(throws: CancellationError.self) { try await round.value }
        let wait = Task { try await engine.waitUntilSynced() }
        await gate.somebodyWaits()
        await engine.stop()
        await #expect(throws: CancellationError.self) { try await wait.value }
        #expect(try await anna.rows("SELECT owner FROM tidemark_lock") == [])
        #expect(try await engine.status().pendingChangeSets == 1)
    }

    @Test func `stop without a start, and twice, returns`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        await anna.engine.stop()
        await anna.engine.start(isLive: false)
        await anna.engine.stop()
        await anna.engine.stop()
        try await anna.engine.sync()
    }
}

/// A network that answers nothing until the caller gives up.
private struct Gate: ForwardingTransport {
    let real: InProcessTransport
    private let arrivals = AsyncStream.makeStream(of: Void.self)

    init(real: InProcessTransport) { self.real = real }

    /// Returns when a request waits for its answer.
    func somebodyWaits() async { for await _ in arrivals.stream { break } }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        arrivals.continuation.yield()
        let (answers, continuation) = AsyncStream.makeStream(of: Void.self)
        // Ends by cancellation only.
        for await _ in answers {}
        continuation.finish()
        throw CancellationError()
    }

    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        try await sync(zone: zone, body: [])
    }
}
