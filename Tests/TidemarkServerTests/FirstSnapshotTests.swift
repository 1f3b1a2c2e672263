import Foundation
import NIOConcurrencyHelpers
import NIOCore
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// A device without rows that asks for them while the server still writes the file.
@Suite struct FirstSnapshotTests {
    /// Runs `body` with a zone whose transactions a test can hold up, behind a server whose clock stands still.
    private static func run(_ body: @Sendable (TestServer, Latch, StoppedClock, _ file: String) async throws -> Void)
        async throws
    {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // A folder left behind in the system's temporary folder harms no other test.
        defer { try? FileManager.default.removeItem(at: folder) }
        let latch = Latch()
        let clock = StoppedClock()
        let store = try EmbeddedStore(
            path: folder.appending(path: "zone.sqlite").path,
            schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO note (v) VALUES ('x')",
            newEpoch: UUID(), now: latch.passing)
        try await TestServer.run(store, clock: clock) { server in
            try await body(server, latch, clock, folder.appending(path: "device.sqlite").path)
        }
        try await store.close()
    }

    private static let write =
        #"{"maxRevision":1,"changeSets":[{"note":{"create":[-1],"attributes":{"-1":{"v":"y"}}}}]}"#

    @Test func `a client is asked to come back, and gets the file that was written meanwhile, as do others`()
        async throws
    {
        try await Self.run { server, latch, clock, _ in
            latch.close()
            async let first = server.send(.GET, "/snapshot?since=0")
            await latch.somebodyWaits()
            await clock.untilSomebodySleeps()
            clock.advance(by: .seconds(10))
            let answer = try await first
            #expect(answer.status == 503)
            #expect(answer.headers.first(name: "Retry-After") == "2")
            let error = try answer.error
            #expect(error.code == .snapshotPending && error.recovery == .retry)
            #expect(!server.log.all.contains { $0.hasPrefix("error") }, "no failure")
            latch.open()
            let second = try await server.send(.GET, "/snapshot?since=0")
            #expect(second.status == 200)
            // The zone goes on, and a client that comes back still gets the same file.
            let body = ByteBuffer(string: Self.write)
            #expect(try await server.send(.POST, "/sync", body: .bytes(body)).status == 200)
            let third = try await server.send(.GET, "/snapshot?since=0")
            #expect(third.headers.first(name: "ETag") == second.headers.first(name: "ETag"))
            #expect(third.body == second.body)
            // A device with rows gets the latest revision.
            let latest = try await server.send(.GET, "/snapshot")
            #expect(latest.headers.first(name: "Tidemark-Revision") == "2")
            // After a while a new device does, too.
            await clock.untilSomebodySleeps()
            clock.advance(by: .seconds(60))
            while try await server.send(.GET, "/snapshot?since=0").headers.first(name: "Tidemark-Revision") != "2" {
                await Task.yield()
            }
        }
    }

    @Test func `the device waits, says so, and joins`() async throws {
        try await Self.run { server, latch, clock, file in
            let waits = NIOLockedValueBox(0)
            let join = DeviceFileJoin(transport: try HTTPTransport(url: server.url), server: server.url)
            latch.close()
            async let joined = join.join(path: file) { received, total in
                guard received == 0, total == nil else { return }
                waits.withLockedValue { $0 += 1 }
                latch.open()
            }
            await latch.somebodyWaits()
            await clock.untilSomebodySleeps()
            clock.advance(by: .seconds(10))
            #expect(try await joined.revision == 1)
            #expect(waits.withLockedValue { $0 } == 1)
        }
    }
}
