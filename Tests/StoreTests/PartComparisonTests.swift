import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// E5: `POST /compare/{table}`: a client that keeps some rows gets the difference, whatever it has.
@Suite(.serialized, .timeLimit(.minutes(30))) struct PartComparisonTests {
    private static let dishes = """
        CREATE TABLE dish (id INTEGER PRIMARY KEY, city_id INTEGER NOT NULL, name TEXT NOT NULL, price INTEGER);
        CREATE INDEX dish_city ON dish (city_id);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO dish SELECT i, i % 10, 'Dish "' || i || '"', CASE WHEN i % 7 > 0 THEN i END FROM n;
        """

    @Test(arguments: ServedZone.stores)
    func `E5: the fingerprint of a table is the sum of the protocol's numbers`(store: Store) async throws {
        let league = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, name TEXT, goals INTEGER);
            INSERT INTO team VALUES (1, 'Kiel'), (2, 'Flensburg');
            INSERT INTO player VALUES (1, 1, 'Anna', 0), (2, 1, 'Ben', 0), (3, 2, 'Dora', 0);
            """
        try await ServedZone.run(store, league) { server in
            let none = #"{"rows":0,"fingerprint":"00000000000000000000000000000000"}"#
            let numbers = ["d2c242cd68160083f7f11f8eed0d6f64", "873d77a408e42df9cdf75078ea5c5588"]
            let sum = numbers.compactMap(Fingerprint.init(hex:)).reduce(.none, +)
            let kiel = try await server.post("/compare/player", #"{"filter":"team_id=eq.1",\#(none.dropFirst())"#)
            #expect(kiel.fingerprint == sum.hex)
            #expect(kiel.rows == 2)
            #expect(kiel.object["equal"] as? Bool == false)
            let right = #"{"filter":"team_id=eq.1","rows":2,"fingerprint":"\#(sum)"}"#
            #expect(try await server.post("/compare/player", right).object["equal"] as? Bool == true)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: a client without rows gets its part, and then one short answer as long as nothing changes`(store: Store)
        async throws
    {
        try await ServedZone.run(store, Self.dishes) { server in
            var client = KeptRows("dish", key: ["id"])
            let first = try await client.compare("city_id=in.(1,2)", with: server)
            #expect(first.records == 600)
            #expect(client.rows.count == 600)
            let again = try await client.compare("city_id=in.(1,2)", with: server)
            #expect(again.requests == 1)
            #expect(again.records == 0)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: rows that the client lost, damaged or should have deleted are repaired, and no others travel`(
        store: Store
    ) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            var client = KeptRows("dish", key: ["id"])
            _ = try await client.compare("", with: server)
            for key in ["1", "17", "1234", "3000"] { client.remove(key) }
            client.damage("500", "price", "1")
            client.damage("501", "name", "\"Soup\"")
            client.store(["id": 5000, "city_id": 1, "name": "No dish", "price": 1], at: "5000")
            let repair = try await client.compare("", with: server)
            #expect(client.rows["500"]?.values["price"] == "500")
            #expect(client.rows["5000"] == nil)
            #expect(repair.records == 6)
            #expect(repair.requests <= 7)
            #expect(try await client.compare("", with: server).records == 0)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: a part that an index selects was read once for each of 1,000 ranges, and the time was over`(store: Store)
        async throws
    {
        let rows = 30_000
        let dishes = Self.dishes.replacing("i < 3000", with: "i < \(rows)")
        try await ServedZone.run(store, dishes) { server in
            let ranges = (0..<1_000).map { number in
                let start = number * rows / 1_000
                return #"{"rows":6,"fingerprint":"00000000","from":"\#(start)","to":"\#(start + rows / 1_000)"}"#
            }
            let body = #"{"filter":"city_id=in.(1,2)","ranges":[\#(ranges.joined(separator: ","))]}"#
            let answer = try await server.post("/compare/dish", body)
            #expect(answer.status == 200, "\(answer.text.prefix(500))")
            #expect(answer.differing.count == 1_000)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: when the wanted cities change from 1 and 2 to 2 and 3, only the rows of 3 travel`(store: Store)
        async throws
    {
        try await ServedZone.run(store, Self.dishes) { server in
            var client = KeptRows("dish", key: ["id"])
            _ = try await client.compare("city_id=in.(1,2)", with: server)
            let change = try await client.compare("city_id=in.(2,3)", with: server)
            #expect(change.records == 300)
            #expect(Set(client.rows.values.map { $0.values["city_id"] }) == ["2", "3"])
            #expect(client.rows.count == 600)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: changes, deletions and moves between cities arrive with the comparison`(store: Store) async throws {
        try await ServedZone.run(store, Self.dishes) { server in
            var client = KeptRows("dish", key: ["id"])
            _ = try await client.compare("city_id=eq.1", with: server)
            try await server.zone.writeOutside(
                """
                UPDATE dish SET price = 9 WHERE id IN (1, 2, 11);
                UPDATE dish SET city_id = 5 WHERE id = 21;
                UPDATE dish SET city_id = 1 WHERE id = 22;
                DELETE FROM dish WHERE id IN (31, 32);
                INSERT INTO dish VALUES (4001, 1, 'Cake', 3), (4002, 2, 'Tea', 1)
                """
            )
            let news = try await client.compare("city_id=eq.1", with: server)
            #expect(news.requests == 1)
            #expect(news.records == 4)
            #expect(client.rows["1"]?.values["price"] == "9")
            #expect(client.rows["21"] == nil && client.rows["31"] == nil)
            #expect(client.rows["22"] != nil && client.rows["4001"] != nil)
            #expect(client.rows.count == 300)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: a client behind the log's horizon, or of another history, needs no list of its own`(store: Store)
        async throws
    {
        try await ServedZone.run(store, Self.dishes) { server in
            var client = KeptRows("dish", key: ["id"])
            _ = try await client.compare("", with: server)
            try await server.zone.writeOutside("UPDATE dish SET price = 9 WHERE id = 77")
            for since in ["0", "900", "1-00000000"] {
                var copy = client
                let body = #"{"rows":3000,"fingerprint":"\#(client.fingerprint)","since":"\#(since)"}"#
                let reply = try await server.post("/compare/dish", body)
                #expect(reply.object["equal"] as? Bool == false, "\(since)")
                for record in reply.records { copy.store(record, at: record["$key"] as? String ?? "") }
                _ = try await copy.compare("", with: server)
                #expect(copy.rows["77"]?.values["price"] == "9")
            }
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: keys of text and of several columns are compared in the protocol's order`(store: Store) async throws {
        let sql = """
            CREATE TABLE country (code TEXT PRIMARY KEY, name TEXT);
            CREATE TABLE state (country TEXT, code TEXT, size REAL, PRIMARY KEY (country, code));
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
            INSERT INTO country SELECT CASE i % 3 WHEN 0 THEN 'é' WHEN 1 THEN 'a"b ' ELSE 'Z,' END || i, 'N' || i FROM n;
            INSERT INTO state SELECT code, 'x' || length(code), 0.5 FROM country;
            """
        try await ServedZone.run(store, sql) { server in
            for names in [["country", "code"], ["state", "country", "code"]] {
                var client = KeptRows(names[0], key: Array(names.dropFirst()))
                _ = try await client.compare("", with: server)
                #expect(client.rows.count == 200)
                for key in client.rows.keys.sorted().prefix(3) { client.remove(key) }
                let repair = try await client.compare("", with: server)
                #expect(repair.records == 3)
                #expect(client.rows.count == 200)
            }
        }
    }

    @Test(arguments: ServedZone.stores)
    func `E5: an answer that is full says so, and asking again brings the rest`(store: Store) async throws {
        let sql = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
            INSERT INTO note SELECT i, hex(randomblob(50000)) FROM n;
            """
        try await ServedZone.run(store, sql) { server in
            var client = KeptRows("note", key: ["id"])
            let effort = try await client.compare("", with: server)
            #expect(client.rows.count == 30)
            #expect(effort.records == 30)
            #expect(effort.requests > 3)
        }
    }

    @Test(arguments: ServedZone.stores)
    func `I12: a wrong comparison is refused with its reason`(store: Store) async throws {
        let none = "00000000000000000000000000000000"
        let cases: [(body: String, code: String)] = [
            ("", "malformedRequest"), ("{}", "malformedRequest"), (#"{"rows":1}"#, "malformedRequest"),
            (#"{"rows":-1,"fingerprint":"\#(none)"}"#, "malformedRequest"),
            (#"{"rows":0,"fingerprint":"12"}"#, "malformedRequest"),
            (#"{"rows":0,"fingerprint":"\#(none)","row":1}"#, "malformedRequest"),
            (#"{"rows":0,"rows":1,"fingerprint":"\#(none)"}"#, "duplicateName"),
            (#"{"rows":0,"fingerprint":"\#(none)","ranges":[]}"#, "malformedRequest"),
            (#"{"rows":0,"fingerprint":"\#(none)","since":"x"}"#, "invalidCursor"),
            (#"{"rows":0,"fingerprint":"\#(none)","filter":"colour=eq.1"}"#, "unknownColumn"),
            (#"{"rows":0,"fingerprint":"\#(none)","filter":"limit=5"}"#, "invalidFilter"),
            (#"{"rows":0,"fingerprint":"\#(none)","filter":"price"}"#, "invalidFilter"),
            (#"{"ranges":[{"rows":0,"fingerprint":"\#(none)","from":"x"}]}"#, "invalidKey"),
            (#"{"ranges":[{"rows":0,"fingerprint":"\#(none)","from":"5","to":"4"}]}"#, "malformedRequest"),
            (
                #"{"ranges":[{"rows":0,"fingerprint":"\#(none)","to":"5"},{"rows":0,"fingerprint":"\#(none)","from":"4"}]}"#,
                "malformedRequest"
            ),
            (
                #"{"ranges":[{"rows":0,"fingerprint":"\#(none)"},{"rows":0,"fingerprint":"\#(none)"}]}"#,
                "malformedRequest"
            ),
            (#"{"ranges":[{"rows":1,"fingerprint":"1234567"}]}"#, "malformedRequest"),
            (#"{"ranges":[{"rows":1,"fingerprint":"\#(none)","have":{"1":"123"}}]}"#, "malformedRequest"),
            (#"{"ranges":[{"rows":1,"fingerprint":"\#(none)","have":{"1":"123456AB"}}]}"#, "malformedRequest"),
        ]
        try await ServedZone.run(store, Self.dishes) { server in
            for (body, code) in cases {
                let reply = try await server.post("/compare/dish", body)
                #expect(reply.code == code, "\(body)")
                #expect(reply.status == 400, "\(body)")
            }
            let ranges = (0...2_000).map { #"{"rows":0,"fingerprint":"\#(none)","from":"\#($0)","to":"\#($0 + 1)"}"# }
            let many = try await server.post("/compare/dish", #"{"ranges":[\#(ranges.joined(separator: ","))]}"#)
            #expect(many.code == "tooLarge")
            #expect(try await server.post("/compare/menu", "{}").code == "unknownTable")
        }
    }
}
