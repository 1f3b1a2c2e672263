import Foundation
import Logging
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkRedis
import TidemarkSQL
import TidemarkEngine
import TidemarkTestSupport

/// Rules 3 35, F5: Redis makes answers cheaper, and never different.
@Suite struct SharedCacheTests {
    /// The damages to the contents of Redis.
    enum Mishap: CaseIterable { case none, flushed, garbled, shuffled, lastGone, full }

    private static let edits = 30

    private static func pull(_ revision: Int) -> [UInt8] {
        Array(#"{"maxRevision":\#(revision),"device":"b","settled":true}"#.utf8)
    }

    /// Commits a few revisions at a node.
    private static func write(_ zone: PostgresZone, _ numbers: ClosedRange<Int>) async throws {
        for number in numbers {
            let revision = try await zone.store.latest(zone: "main").revision
            _ = try await zone.sync(
                at: revision, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"\#(number)"}}}}"#)
        }
    }

    private static func happen(_ mishap: Mishap, to redis: TestRedis) async throws {
        let keys = try await redis.keys()
        switch mishap {
        case .none: break
        case .flushed: try await redis.command("FLUSHALL")
        case .garbled: for key in keys { try await redis.command("APPEND", key, "x") }
        case .shuffled:
            // Every revision exists, with another content.
            for (key, next) in zip(keys, keys.dropFirst()) { try await redis.command("COPY", next, key, "REPLACE") }
        case .lastGone: try await redis.command("DEL", keys[keys.count - 1])
        case .full: try await redis.command("CONFIG", "SET", "maxmemory", "1")
        }
    }

    @Test(arguments: Mishap.allCases) func `a node's answers equal the database's, whatever happens to Redis`(
        mishap: Mishap
    ) async throws {
        let zone = try await PostgresZone()
        let redis = try await TestRedis()
        try await Self.write(zone, 1...Self.edits)
        // One node reads from the database, and shares the result.
        let first = try await zone.node(redis.address)
        let expected = try await first.sync(zone: "main", body: Self.pull(5))
        #expect(try Reply(expected).revisions == Array(6...Self.edits))
        try await redis.untilItHas(Self.edits - 4)
        try await Self.happen(mishap, to: redis)
        let other = try await zone.node(redis.address)
        #expect(try await other.sync(zone: "main", body: Self.pull(5)) == expected)
        try await Self.write(zone, 1...5)
        let last = try await zone.store.sync(zone: "main", body: Self.pull(5))
        for node in [first, other] {
            #expect(try await node.sync(zone: "main", body: Self.pull(5)) == last)
            await node.close()
        }
    }

    @Test func `a node reads revisions from Redis that another node has read`() async throws {
        let zone = try await PostgresZone()
        let redis = try await TestRedis()
        try await Self.write(zone, 1...Self.edits)
        let first = try await zone.node(redis.address)
        let expected = try await first.sync(zone: "main", body: Self.pull(5))
        try await redis.untilItHas(Self.edits - 4)
        await first.close()
        let other = try await zone.node(redis.address)
        try await zone.database.forbidScans()
        let before = try await zone.rowsRead()
        #expect(try await other.sync(zone: "main", body: Self.pull(5)) == expected)
        let after = try await zone.rowsRead()
        // The last revision's chain hash, which proves the others.
        #expect(after["revision", default: 0] - before["revision", default: 0] == 1)
        await other.close()
    }

    @Test func `a stopped or missing Redis delays no request`() async throws {
        let zone = try await PostgresZone()
        let redis = try await TestRedis()
        try await Self.write(zone, 1...3)
        let node = try await zone.node(redis.address)
        #expect(try Reply(try await node.sync(zone: "main", body: Self.pull(1))).revisions == [2, 3])
        try redis.pause()
        for number in 4...30 {
            try await Self.write(zone, 1...1)
            let answer = try Reply(try await node.sync(zone: "main", body: Self.pull(1)))
            #expect(answer.revisions == Array(2...number))
        }
        try redis.goOn()
        let nowhere = try await zone.node("redis://127.0.0.1:1")
        let answer = try Reply(try await nowhere.sync(zone: "main", body: Self.pull(1)))
        #expect(answer.revisions == Array(2...30))
        for node in [node, nowhere] { await node.close() }
    }

    @Test func `F5: a catch-up reads one row of the zone, however many revisions it has`() async throws {
        let zone = try await PostgresZone()
        try await Self.write(zone, 1...Self.edits)
        func answer(_ revision: Int) async throws {
            _ = try await zone.store.sync(zone: "main", body: Self.pull(revision))
        }
        try await answer(1)
        let end = try Self.tag(of: await zone.store.sync(zone: "main", body: Self.pull(1)))
        // Small tables are read by the plans of large ones here.
        try await zone.database.forbidScans()
        let before = try await zone.rowsRead()
        for revision in 1...20 { try await answer(revision) }
        // A conditional GET reads no more.
        for _ in 1...20 {
            let news = try await zone.store.news(zone: "main", device: "b", since: end)
            #expect(news == .nothing)
        }
        let after = try await zone.rowsRead()
        // The served tables, the zone, and the chain hash and fingerprint of its last revision.
        #expect(
            after.filter { $0.value > before[$0.key, default: 0] }.keys.sorted() == [
                "fingerprint", "revision", "served", "zone",
            ]
        )
        for table in ["fingerprint", "revision", "served", "zone"] {
            #expect(after[table, default: 0] - before[table, default: 0] == 40, "\(table)")
        }
    }

    /// The state of a device that has applied an answer.
    private static func tag(of answer: [UInt8]) throws -> ZoneTag {
        let answer = try Answer(answer)
        let print = try #require(answer.object["fingerprint"] as? String)
        return ZoneTag(
            epoch: try #require(answer.epoch), schema: try #require(answer.object["schema"] as? String),
            revision: Int64(try #require(answer.maxRevision)), fingerprint: try #require(Fingerprint(hex: print)))
    }
}
