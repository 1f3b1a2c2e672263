import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkSQLiteStore
import TidemarkTestSupport

/// A server, or a proxy before it, takes smaller requests than the device writes.
@Suite struct TooLargeTests {
    @Test
    func `rule 11 and 21: what is too large together goes in parts, and too large alone is parked`()
        async throws
    {
        let cluster = try Cluster(schema: "CREATE TABLE notes (id TEXT PRIMARY KEY, text TEXT)")
        let anna = try await cluster.device("anna")
        let narrow = NarrowTransport(real: anna.transport, bytesMax: 4_000)
        let database = try DatabasePool(path: anna.path)
        let engine = try await SyncEngine(
            database,
            server: "http://cluster.test",
            transport: narrow
        )
        for number in 1...9 {
            try await database.write { db in
                let text = String(repeating: "x", count: number == 5 ? 5_000 : 900)
                try db.execute(
                    sql: "INSERT INTO notes VALUES (?, ?)",
                    arguments: ["n\(number)", text]
                )
            }
        }
        try await engine.sync()
        let served = try await cluster.rows("SELECT id FROM notes ORDER BY id")
        #expect(served == ["n1", "n2", "n3", "n4", "n6", "n7", "n8", "n9"])
        let conflicts = try await engine.conflicts()
        #expect(conflicts.map { $0.records.map(\.key) } == [[#""n5""#]])
        #expect(conflicts.first?.reasons.first?.rule == "tooLarge")
        #expect(try await engine.status().pendingChangeSets == 0)
    }
}

/// A way to the server that refuses requests beyond a size, as a server does over HTTP.
private struct NarrowTransport: ForwardingTransport {
    let real: InProcessTransport
    let bytesMax: Int

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        guard body.count <= bytesMax else {
            throw TidemarkError(
                .tooLarge,
                "The request has \(body.count) bytes.",
                fix: "Send at most \(bytesMax) at a time."
            )
        }
        return try await real.sync(zone: zone, body: body)
    }
}
