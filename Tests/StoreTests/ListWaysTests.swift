import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// The ways of bringing a list to a client over plain HTTP, each with what it gets wrong.
@Suite(.serialized, .timeLimit(.minutes(30))) struct ListWaysTests {
    private static let dishes = """
        CREATE TABLE dish (id INTEGER PRIMARY KEY, name TEXT NOT NULL, updated TEXT NOT NULL);
        CREATE INDEX dish_updated ON dish (updated, id);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)
        INSERT INTO dish SELECT i, 'Dish ' || i, '2013-01-10T12:34:56' FROM n;
        """

    private static func ids(_ reply: ServedZone.Reply) -> [Int] { reply.records.compactMap { $0["id"] as? Int } }

    @Test(arguments: ServedZone.stores)
    func `E1: a whole list comes once, and then 304 until a row changes`(store: Store) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            let first = try await server.get("/tables/dish?limit=all")
            #expect(Self.ids(first) == Array(1...250))
            let tag = try #require(first.tag)
            let again = try await server.get("/tables/dish?limit=all", unlike: tag)
            #expect(again.status == 304)
            #expect(again.text.isEmpty)
            try await server.zone.writeOutside("DELETE FROM dish WHERE id = 7")
            let changed = try await server.get("/tables/dish?limit=all", unlike: tag)
            #expect(changed.status == 200)
            #expect(Self.ids(changed).count == 249)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E2: newer rows by the app's own time miss one that was committed late, and the feed does not`(store: Store)
        async throws
    {
        try await ServedZone.run(store, Self.dishes) { server in
            let since = try #require(try await server.get("/tables/dish?limit=1").object["since"] as? Int)
            try await server.zone.writeOutside(
                "UPDATE dish SET name = 'On time', updated = '2013-02-02T00:00:00' WHERE id = 1")
            let query = "/tables/dish?limit=all&updated=gt."
            #expect(Self.ids(try await server.get(query + "2013-01-10T12:34:56")) == [1])
            try await server.zone.writeOutside(
                "UPDATE dish SET name = 'Late', updated = '2013-02-01T00:00:00' WHERE id = 2")
            #expect(Self.ids(try await server.get(query + "2013-02-02T00:00:00")).isEmpty)
            let feed = try await server.get("/changes?since=\(since)")
            #expect(feed.changes.map { $0["key"] as? String } == ["1", "2"])
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E3: portions by a time that 250 rows share end after the first, and portions of the feed do not`(store: Store)
        async throws
    {
        try await ServedZone.run(store, Self.dishes) { server in
            let query = "/tables/dish?order=updated&limit=100"
            let first = try await server.get(query)
            #expect(Self.ids(first) == Array(1...100))
            #expect(Self.ids(try await server.get(query + "&updated=gt.2013-01-10T12:34:56")).isEmpty)

            let since = try #require(first.object["since"] as? Int)
            try await server.zone.writeOutside("UPDATE dish SET name = name || '!'")
            var place = String(since)
            var sizes: [Int] = []
            var isMore = true
            while isMore {
                let page = try await server.get("/changes?since=\(place)&limit=100")
                sizes.append(page.changes.count)
                place = try #require(page.next)
                isMore = page.isMore
            }
            #expect(sizes == [100, 100, 50])
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E4: portions by time and key bring 250 rows of one time once each, whatever is written between them`(
        store: Store
    ) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            let query = "/tables/dish?order=updated&limit=100"
            var page = try await server.get(query)
            var ids = Self.ids(page)
            while let next = page.next {
                try await server.zone.writeOutside("DELETE FROM dish WHERE id = \(ids.count)")
                page = try await server.get("\(query)&after=\(next)")
                ids += Self.ids(page)
            }
            #expect(ids == Array(1...250))

            try await server.zone.writeOutside("INSERT INTO dish VALUES (900, 'New', '2013-01-10T12:34:56')")
            let place = "(updated.gt.2013-01-10T12:34:56,and(updated.eq.2013-01-10T12:34:56,id.gt.250))"
            #expect(Self.ids(try await server.get("\(query)&or=\(place)")) == [900])
        }
    }
}
