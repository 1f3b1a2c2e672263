import Foundation
import GRDB
import NIOCore
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkServer

/// What another program does to a served file, as clients and operators see it.
@Suite struct RebuiltTableTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT)"

    private static func run(_ body: @Sendable (TestServer, _ file: String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // A folder left behind in the system's temporary folder harms no other test.
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "zone.sqlite").path
        let store = try EmbeddedStore(path: path, schemaSQL: schema, newEpoch: UUID())
        try await TestServer.run(store) { try await body($0, path) }
        try await store.close()
    }

    private static func file(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.foreignKeysEnabled = false
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    @discardableResult private static func post(_ server: TestServer) async throws -> TestServer.Answer {
        let headers: HTTPHeaders = ["Content-Type": "application/json"]
        let body = ByteBuffer(string: #"{"v":"x"}"#)
        return try await server.send(.POST, "/tables/note", headers: headers, body: .bytes(body))
    }

    @Test func `a write is done although a program makes the table again meanwhile`() async throws {
        try await Self.run { server, path in
            async let rebuilt: Void = {
                let file = try Self.file(path)
                for _ in 0..<20 {
                    try await file.write { db in
                        try db.execute(
                            sql: """
                                CREATE TABLE note_new (id INTEGER PRIMARY KEY, v TEXT);
                                INSERT INTO note_new SELECT * FROM note;
                                DROP TABLE note;
                                ALTER TABLE note_new RENAME TO note
                                """
                        )
                    }
                }
                try file.close()
            }()
            for _ in 0..<60 {
                let answer = try await Self.post(server)
                #expect(answer.status == 201, "\(answer.text)")
            }
            try await rebuilt
            let page = try await server.send(.GET, "/tables/note?limit=1&count=exact")
            #expect(page.text.contains("\"count\":60"))
        }
    }

    @Test func `the log that a stuck reader keeps from beginning anew shows its size in the metrics`() async throws {
        try await Self.run { server, path in
            let metrics = MachineMetrics(PrometheusRegistry(), started: 0, files: [path])
            let size = { try #require(try PrometheusPage(metrics.text()).value("tidemark_wal_bytes")) }
            try await Self.post(server)
            let first = try size()
            #expect(first > 0)
            let reader = try Self.file(path)
            try await reader.writeWithoutTransaction { try $0.execute(sql: "BEGIN; SELECT count(*) FROM note") }
            for _ in 0..<20 { try await Self.post(server) }
            #expect(try size() > first)
            try await reader.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
            try reader.close()
        }
    }
}
