import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkTestSupport

/// `GET /changes`: the feed of changes, over HTTP.
@Suite(.serialized, .timeLimit(.minutes(30))) struct FeedTests {
    private static let dishes = """
        CREATE TABLE dish (id INTEGER PRIMARY KEY, city_id INTEGER NOT NULL, name TEXT NOT NULL);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
        INSERT INTO dish SELECT i, i % 3, 'Dish ' || i FROM n;
        """

    @Test(arguments: ServedZone.stores)
    func `E6: an item that is there or not, and gone or not, has one of four effects`(store: Store) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            let start = try await server.get("/tables/dish?limit=all")
            let since = try #require(start.object["since"] as? Int)
            let rules: [(change: String, key: String, isThere: Bool, after: String?)] = [
                ("UPDATE dish SET name = 'Soup' WHERE id = 1", "1", true, #""Soup""#),
                ("INSERT INTO dish VALUES (10, 1, 'Cake')", "10", false, #""Cake""#),
                ("DELETE FROM dish WHERE id = 2", "2", true, nil), ("DELETE FROM dish WHERE id = 3", "3", false, nil),
            ]
            var client = KeptRows("dish", key: ["id"])
            for record in start.records { client.store(record, at: record["$key"] as? String ?? "") }
            client.remove("3")
            for rule in rules {
                #expect((client.rows[rule.key] != nil) == rule.isThere)
                try await server.zone.writeOutside(rule.change)
            }
            let feed = try await server.get("/changes?since=\(since)&tables=dish")
            #expect(feed.changes.count == 4)
            client.apply(changes: feed.changes)
            for rule in rules { #expect(client.rows[rule.key]?.values["name"] == rule.after, "\(rule.change)") }
            let rows = client.rows
            client.apply(changes: feed.changes)
            #expect(client.rows.mapValues(\.fingerprint) == rows.mapValues(\.fingerprint), "twice is once")
        }
    }

    @Test(arguments: ServedZone.stores)
    func `of two new records with keys that look the same, the feed had one twice`(store: Store) async throws {
        let schema = "CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, note TEXT)"
        try await ServedZone.run(store, schema) { server in
            let one = "\u{e9}"
            let other = "e\u{301}"
            let since = try await server.zone.revision()
            try await server.zone.writeOutside("INSERT INTO tag VALUES ('\(one)', 'one'), ('\(other)', 'other')")
            let feed = try await server.get("/changes?since=\(since)")
            let notes = feed.changes.compactMap { ($0["record"] as? [String: Any])?["note"] as? String }
            #expect(notes.sorted() == ["one", "other"])
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E6: deletions come alone when a client asks for nothing else`(store: Store) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            let start = try await server.get("/tables/dish?limit=1")
            let since = try #require(start.object["since"] as? Int)
            try await server.zone.writeOutside("DELETE FROM dish WHERE id IN (4, 7); UPDATE dish SET name = 'Tea'")
            try await server.zone.writeOutside("INSERT INTO dish VALUES (4, 1, 'Back again')")
            let feed = try await server.get("/changes?since=\(since)&deleted=only")
            #expect(feed.changes.map { $0["key"] as? String } == ["7"])
            #expect(feed.changes.allSatisfy { $0["gone"] as? Bool == true })
        }
    }

    @Test(arguments: ServedZone.stores)
    func `B4: a client knows a time only; it asks for the deletions since then, and later goes on from there`(
        store: Store
    ) async throws {
        let clock = TestClock()
        try await ServedZone.run(store, Self.dishes, clock: clock) { server in
            try await server.zone.writeOutside("DELETE FROM dish WHERE id = 1")
            _ = try await server.get("/tables")
            clock.advance(days: 2)
            try await server.zone.writeOutside("DELETE FROM dish WHERE id = 2; UPDATE dish SET name = 'Tea'")
            _ = try await server.get("/tables")
            clock.advance(days: 1)
            let moment = Date(timeIntervalSince1970: Double(clock.now / 1_000 - 2 * 86_400))
            let since = moment.formatted(.iso8601)
            let feed = try await server.get("/changes?since=\(since)&deleted=only")
            #expect(feed.changes.map { $0["key"] as? String } == ["2"])
            #expect(feed.changes.allSatisfy { $0["gone"] as? Bool == true })
            let all = try await server.get("/changes?since=\(since)")
            #expect(all.changes.count == 8)
            try await server.zone.writeOutside("DELETE FROM dish WHERE id = 3")
            let next = try #require(feed.next)
            let later = try await server.get("/changes?since=\(next)&deleted=only")
            #expect(later.changes.map { $0["key"] as? String } == ["3"])
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5, E6: a record leaves a filter only if a column of the filter changed, in pages of one as in one page`(
        store: Store
    ) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            let start = try await server.get("/tables/dish?limit=1")
            let since = try #require(start.object["since"] as? Int)
            try await server.zone.writeOutside("UPDATE dish SET city_id = 2, name = 'Moved' WHERE id IN (1, 4)")
            try await server.zone.writeOutside("UPDATE dish SET name = 'Other' WHERE id IN (1, 2, 7)")
            try await server.zone.writeOutside("UPDATE dish SET name = 'Other still' WHERE id IN (1, 3)")
            for limit in ["1", "2", "all"] {
                var place = String(since)
                var gone: [String] = []
                var keptKeys: [String] = []
                var isMore = true
                while isMore {
                    let page = try await server.get("/changes?since=\(place)&tables=dish&city_id=eq.1&limit=\(limit)")
                    for change in page.changes {
                        let key = change["key"] as? String ?? ""
                        if change["record"] == nil { gone.append(key) } else { keptKeys.append(key) }
                    }
                    place = try #require(page.next)
                    isMore = page.isMore
                }
                #expect(Set(gone) == ["1", "4"], "\(limit)")
                #expect(keptKeys == ["7"], "\(limit)")
            }
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E2: behind the log's horizon the feed answers 410, and in another history, too`(store: Store) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            try await server.zone.begin(at: 50, nextIds: ["dish": 100])
            let behind = try await server.get("/changes?since=49")
            #expect(behind.status == 410)
            #expect(behind.code == "snapshotRequired")
            let other = try await server.get("/changes?since=50-00000000")
            #expect(other.status == 410)
            #expect(other.code == "epochMismatch")
            #expect(try await server.get("/changes?since=50").status == 200)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E2: a stream that is cut at any byte and resumed by its last id loses nothing and brings nothing twice`(
        store: Store
    ) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            let start = try await server.get("/tables/dish?limit=1")
            let since = try #require(start.object["since"] as? Int)
            for id in 1...4 {
                try await server.zone.writeOutside("UPDATE dish SET name = 'Cut \(id)' WHERE id = \(id)")
                _ = try await server.get("/tables")
            }
            let relay = TCPRelay(targetPort: server.port)
            let port = try await relay.start()
            var cut = 0
            var isWhole = false
            while !isWhole {
                relay.follow(RelayPlan([.cut(.down, after: cut)]))
                var listener = Listener(port: port, since: since)
                isWhole = try await listener.listen()
                // A part of an event is none: the rest of the stream begins after the last whole one.
                if !isWhole { _ = try await listener.listen() }
                #expect(listener.names == ["Cut 1", "Cut 2", "Cut 3", "Cut 4"], "cut after \(cut) bytes")
                cut += Self.cutStride
            }
            #expect(cut > 400)
            try await relay.stop()
        }
    }

    /// The bytes between two cuts.
    private static let cutStride = Effort.isLong ? 1 : 7

    /// A client of the stream, as browsers have one.
    private struct Listener {
        let port: Int
        let since: Int
        var names: [String] = []
        var lastID: String?

        /// Listens until the fourth change, or the end of the stream.
        ///
        /// - Returns: Whether the fourth change came.
        mutating func listen() async throws -> Bool {
            var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/changes?since=\(since)&limit=1")
            request.headers = ["Accept": "text/event-stream", "Connection": "close"]
            if let lastID { request.headers.add(name: "Last-Event-ID", value: lastID) }
            do {
                let response = try await HTTPClient.shared.execute(request, timeout: .minutes(10))
                var text = ""
                for try await part in response.body {
                    text += String(buffer: part)
                    while let end = text.range(of: "\n\n") {
                        try take(String(text[..<end.lowerBound]))
                        text = String(text[end.upperBound...])
                    }
                    if names.count >= 4 { return true }
                }
            } catch is HTTPClientError { return false } catch is IOError { return false } catch is HTTPParserError {
                return false
            }
            return false
        }

        private mutating func take(_ event: String) throws {
            for line in event.split(separator: "\n") {
                if line.hasPrefix("id: ") { lastID = String(line.dropFirst(4)) }
                guard line.hasPrefix("data: ") else { continue }
                let page = try ServedZone.Reply(status: 200, text: String(line.dropFirst(6)))
                names += page.changes.compactMap { ($0["record"] as? [String: Any])?["name"] as? String }
            }
        }
    }
}
