import Foundation
import GRDB
import NIOConcurrencyHelpers
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkGzip
import TidemarkEngine
import TidemarkTestSupport

/// A snapshot's path from the server's disk to the device's.
@Suite struct SnapshotDownloadTests {
    @Test func `A14: a snapshot arrives decompressed, with progress`() async throws {
        let content = noise(count: 2 << 20) + [UInt8](repeating: 7, count: 3 << 20)
        try await withSnapshot(gzip(content)) { service, directory in
            try await TestServer.run(service) { server in
                let transport = try HTTPTransport(url: server.url)
                let reports = NIOLockedValueBox<[Report]>([])
                let path = directory + "/device.sqlite"
                try await transport.snapshot(zone: "main", since: nil, to: path) { received, total in
                    reports.withLockedValue { $0.append(Report(received: received, total: total)) }
                }
                #expect(try bytes(at: path) == content)
                #expect(try names(in: directory) == ["device.sqlite", "device.sqlite.received", "snapshot.gz"])
                check(reports.withLockedValue { $0 }, total: Int64(gzip(content).count))
            }
        }
    }

    @Test func `an interrupted download leaves the bytes as received, and the next one fetches the rest`() async throws
    {
        let content = noise(count: 4 << 20)
        try await withSnapshot(gzip(content)) { service, directory in
            try await TestServer.run(service) { server in
                let relay = TCPRelay(targetPort: server.port)
                relay.follow(RelayPlan([.cut(.down, after: 1_500_000), .cut(.down, after: 0)]))
                let transport = try HTTPTransport(url: "http://127.0.0.1:\(try await relay.start())")
                let path = directory + "/device.sqlite"
                let error = await #expect(throws: TidemarkError.self) {
                    try await transport.snapshot(zone: "main", since: nil, to: path) { _, _ in }
                }
                #expect(error?.code == .unreachable)
                #expect(try names(in: directory) == ["device.sqlite.received", "snapshot.gz"])
                #expect(relay.traffic.bytesDown == 1_500_000)

                try await transport.snapshot(zone: "main", since: nil, to: path) { _, _ in }
                #expect(try bytes(at: path) == content)
                #expect(relay.traffic.connections == 3)
                // At a cut, the HTTP client drops bytes that it has not delivered.
                #expect(relay.traffic.bytesDown < gzip(content).count + 1_000_000)
                try await relay.stop()
            }
        }
    }

    @Test
    func `a first sync that ended half-way goes on in the app's next process, and leaves nothing beside the file`()
        async throws
    {
        try await withTemporaryDirectory { directory in
            let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT)"
            let store = try EmbeddedStore(
                path: directory + "/zone.sqlite",
                schemaSQL: """
                    \(schema);
                    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                    INSERT INTO note (v) SELECT hex(randomblob(100)) FROM n
                    """, newEpoch: UUID())
            let home = directory + "/home"
            try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
            try await TestServer.run(store) { server in
                let relay = TCPRelay(targetPort: server.port)
                relay.follow(RelayPlan([.stall(.down, after: 900_000)]))
                let url = "http://127.0.0.1:\(try await relay.start())"
                do {
                    let database = try DatabaseQueue(path: home + "/app.sqlite")
                    try await database.write { try $0.execute(sql: schema) }
                    let engine = try await SyncEngine(database, server: url)
                    let sync = Task { try await engine.sync() }
                    for await progress in engine.progress where progress.fraction > 0.35 { break }
                    sync.cancel()
                    await #expect(throws: CancellationError.self) { try await sync.value }
                    try database.close()
                }
                #expect(try names(in: home) == ["app.sqlite", "app.sqlite-tidemark-snapshot.received"])
                let database = try DatabaseQueue(path: home + "/app.sqlite")
                let before = relay.traffic.bytesDown
                try await SyncEngine(database, server: url).sync()
                #expect(try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") } == 10_000)
                // 10,000 rows of 100 random bytes have at least 1,000,000 in all.
                #expect(relay.traffic.bytesDown - before < 800_000)
                try database.close()
                #expect(try names(in: home) == ["app.sqlite"])
                try await relay.stop()
            }
            try await store.close()
        }
    }

    @Test func `a cancelled download removes its partial file`() async throws {
        try await withSnapshot(noise(count: 100)) { _, directory in
            // The head of an answer without a body.
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/gzip\r\n" + "Content-Length: 1000\r\n\r\n"
            try await CannedServer.run(Array(head.utf8), hangsUp: false) { server in
                let transport = try HTTPTransport(url: server.url)
                let starts = AsyncStream.makeStream(of: Void.self)
                let download = Task {
                    try await transport.snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") { _, _ in
                        starts.continuation.yield()
                    }
                }
                for await _ in starts.stream { break }
                #expect(try names(in: directory) == ["device.sqlite.part", "device.sqlite.received", "snapshot.gz"])
                download.cancel()
                await #expect(throws: CancellationError.self) { try await download.value }
                #expect(try names(in: directory) == ["snapshot.gz"])
            }
        }
    }

    @Test(arguments: [
        (Array(gzip(noise(count: 100_000)).dropLast(9)), ErrorCode.unreachable),
        (noise(count: 100_000), .invalidResponse), (gzip(noise(count: 100_000)) + [0], .invalidResponse),
        (gzip([UInt8](repeating: 0, count: 2 << 20)), .invalidResponse),
    ]) func `a response that is not one whole snapshot is refused and removed`(file: [UInt8], code: ErrorCode)
        async throws
    {
        try await withSnapshot(file) { service, directory in
            try await TestServer.run(service) { server in
                let transport = try HTTPTransport(url: server.url, snapshotBytesMax: 1 << 20)
                let error = await #expect(throws: TidemarkError.self) {
                    try await transport.snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") { _, _ in }
                }
                #expect(error?.code == code)
                #expect(try names(in: directory) == ["snapshot.gz"])
            }
        }
    }

    /// A file that begins as a SQLite file of so many pages of 4,096 bytes does.
    private static func database(pages: UInt32, bytes: Int) -> [UInt8] {
        var file = Array("SQLite format 3\0".utf8) + [0x10, 0x00] + [UInt8](repeating: 0, count: bytes - 18)
        for place in 0..<4 { file[28 + place] = UInt8(truncatingIfNeeded: pages >> (24 - 8 * UInt32(place))) }
        return file
    }

    @Test(arguments: [
        // Longer than its header says: the rest of what a hostile server sends is not written.
        (gzip(database(pages: 2, bytes: 3 * 4_096)), ErrorCode.invalidResponse),
        // Its header says what no disk holds.
        (gzip(database(pages: .max, bytes: 4_096)), .storageFailed),
    ]) func `a snapshot that would fill the disk is refused as soon as that shows, and removed`(
        file: [UInt8], code: ErrorCode
    ) async throws {
        try await withSnapshot(file) { service, directory in
            try await TestServer.run(service) { server in
                let transport = try HTTPTransport(url: server.url)
                let error = await #expect(throws: TidemarkError.self) {
                    try await transport.snapshot(zone: "main", since: nil, to: directory + "/device.sqlite") { _, _ in }
                }
                #expect(error?.code == code)
                #expect(try names(in: directory) == ["snapshot.gz"])
            }
        }
    }

    @Test func `a login page is not taken for a snapshot`() async throws {
        try await withTemporaryDirectory { directory in
            try await CannedServer.run(status: "200 OK", headers: ["Content-Type: text/html"], content: "<html></html>")
            { server in
                let transport = try HTTPTransport(url: server.url)
                let error = await #expect(throws: TidemarkError.self) {
                    try await transport.snapshot(zone: "main", since: nil, to: directory + "/a") { _, _ in }
                }
                #expect(error?.code == .invalidResponse)
                #expect(try names(in: directory).isEmpty)
            }
        }
    }

    @Test func `a missing directory is named`() async throws {
        try await withSnapshot(gzip([1, 2, 3])) { service, directory in
            try await TestServer.run(service) { server in
                let transport = try HTTPTransport(url: server.url)
                let path = directory + "/missing/device.sqlite"
                let error = await #expect(throws: TidemarkError.self) {
                    try await transport.snapshot(zone: "main", since: nil, to: path) { _, _ in }
                }
                #expect(error?.code == .unusableFile)
                #expect(error?.message.contains(path) == true)
            }
        }
    }

    private struct Report {
        let received: Int64
        let total: Int64?
    }

    /// From nothing to everything, never backwards, and not for every packet.
    private func check(_ reports: [Report], total: Int64) {
        #expect(reports.first?.received == 0)
        #expect(reports.last?.received == total)
        #expect(reports.allSatisfy { $0.total == total })
        let steps = zip(reports, reports.dropFirst()).map { $1.received - $0.received }
        #expect(steps.allSatisfy { $0 > 0 })
        #expect(steps.dropLast().allSatisfy { $0 >= 100_000 })
    }

    private func withSnapshot(
        _ bytes: [UInt8], body: (_ service: ScriptedService, _ directory: String) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let snapshot = try snapshotFile(bytes, in: directory)
            try await body(ScriptedService(snapshot: snapshot), directory)
        }
    }
}

func names(in directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
}

func bytes(at path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }
