import Foundation
import NIOConcurrencyHelpers
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 30, D2: listening devices sync after others' commits, and never rely on it.
@Suite(.timeLimit(.minutes(30))) struct LiveTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
        INSERT INTO notes (text) VALUES ('first');
        """

    /// Starts a device's background sync with an endless timer, and waits for its first round.
    private func start(_ device: TestDevice) async {
        await device.engine.start(every: .seconds(3_600))
        // Joins the round in flight, or has one of its own.
        do { try await device.engine.sync() } catch { Issue.record(error) }
    }

    /// Waits for a revision of another device to arrive.
    private func arrival(of revision: Int64, in events: inout AsyncStream<DeviceEvent>.Iterator) async {
        while let event = await events.next(isolation: #isolation) {
            if case .changed(let changes) = event, changes.revision >= revision { return }
        }
    }

    @Test func `D2: one device's commit reaches another without a timer`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            let anna = try await cluster.device("anna", over: transport)
            let ben = try await cluster.device("ben", over: transport)
            for device in [anna, ben] { await start(device) }
            try await until { cluster.store.fanOut.listenerCount == 2 }
            var atAnna = anna.engine.deviceEvents.makeAsyncIterator()
            var atBen = ben.engine.deviceEvents.makeAsyncIterator()
            try await anna.write("UPDATE notes SET text = 'from anna'")
            await arrival(of: 2, in: &atBen)
            #expect(try await ben.rows("SELECT text FROM notes") == ["from anna"])
            try await ben.write("INSERT INTO notes (text) VALUES ('from ben')")
            await arrival(of: 3, in: &atAnna)
            try cluster.writeOutside("UPDATE notes SET text = 'from the server' WHERE id = 1")
            await arrival(of: 4, in: &atAnna)
            await arrival(of: 4, in: &atBen)
            for device in [anna, ben] { await device.engine.stop() }
            try await cluster.converge(anna, ben)
            try await until { cluster.store.fanOut.listenerCount == 0 }
        }
    }

    @Test func `D2: after a proxy cuts the stream, the device reconnects and gets missed commits`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        try await TestServer.run(cluster.service) { server in
            let relay = TCPRelay(targetPort: server.port)
            let url = "http://127.0.0.1:\(try await relay.start())"
            let anna = try await cluster.device("anna")
            let ben = try await cluster.device("ben", over: try HTTPTransport(url: url))
            await start(ben)
            try await until { cluster.store.fanOut.listenerCount == 1 }
            var atBen = ben.engine.deviceEvents.makeAsyncIterator()
            for revision in 2...3 as ClosedRange<Int64> {
                relay.hangUp()
                try await until { cluster.store.fanOut.listenerCount == 0 }
                try await anna.write("UPDATE notes SET text = 'revision \(revision)'")
                try await anna.engine.sync()
                await arrival(of: revision, in: &atBen)
            }
            #expect(try await ben.rows("SELECT text FROM notes") == ["revision 3"])
            await ben.engine.stop()
            try await relay.stop()
        }
    }

    @Test func `D2: where event streams are blocked, a device syncs by its timer`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        try await TestServer.run(cluster.service) { server in
            let transport = Deaf(real: try HTTPTransport(url: server.url))
            let anna = try await cluster.device("anna")
            let ben = try await cluster.device("ben", over: transport)
            var atBen = ben.engine.deviceEvents.makeAsyncIterator()
            await ben.engine.start(every: .milliseconds(20))
            try await anna.write("UPDATE notes SET text = 'from anna'")
            try await anna.engine.sync()
            await arrival(of: 2, in: &atBen)
            await ben.engine.stop()
        }
    }

    @Test func `an engine that is not live, or is released, does not listen`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            let still = try await cluster.device("still", over: transport)
            await still.engine.start(every: .milliseconds(20), isLive: false)
            var dropped: TestDevice? = try await cluster.device("dropped", over: transport)
            await dropped?.engine.start(every: .milliseconds(20))
            try await until { cluster.store.fanOut.listenerCount == 1 }
            dropped = nil
            try await until { cluster.store.fanOut.listenerCount == 0 }
            await still.engine.stop()
        }
    }

    @Test func `rule 21: a server with constant false events causes few requests`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let crying = Crying(real: InProcessTransport(to: cluster.service))
        let ben = try await cluster.device("ben", over: crying)
        await start(ben)
        for _ in 1...2 {
            let former = crying.rounds
            crying.cry(100)
            try await until { crying.rounds > former }
        }
        // The first round, one for each event, and at most one for events during a round.
        #expect(crying.rounds <= 5)
        await ben.engine.stop()
    }
}

/// A network that blocks events only.
private struct Deaf: Transport {
    let real: HTTPTransport

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] { try await real.sync(zone: zone, body: body) }

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await real.fingerprints(zone: zone, body: body)
    }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { try await real.snapshot(zone: zone, since: base, to: path, progress: progress) }

    func schema(zone: String) async throws -> [UInt8] { try await real.schema(zone: zone) }
}

/// A server that announces revisions that do not exist.
private final class Crying: ForwardingTransport {
    let real: InProcessTransport
    private let cries = AsyncStream.makeStream(of: Int.self)
    private let count = NIOLockedValueBox((rounds: 0, revision: Int64(1_000)))

    init(real: InProcessTransport) { self.real = real }

    var rounds: Int { count.withLockedValue(\.rounds) }

    func cry(_ times: Int) { cries.continuation.yield(times) }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        count.withLockedValue { $0.rounds += 1 }
        return try await real.sync(zone: zone, body: body)
    }

    func listen(zone: String, device: String, from known: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws
    {
        for await times in cries.stream {
            for _ in 0..<times {
                let revision = count.withLockedValue { count in
                    count.revision += 1
                    return count.revision
                }
                heard(.moved(ZoneRevision(zone: zone, epoch: "wolf", revision: revision)))
            }
        }
    }
}
