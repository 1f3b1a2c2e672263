import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// B15: questions about rows, as a client without rows asks them.
@Suite struct RecordReadTests {
    private static let schema = """
        CREATE TABLE country (code TEXT PRIMARY KEY NOT NULL, name TEXT);
        CREATE TABLE city (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT REFERENCES country, population INTEGER,
            area REAL, "limit" INTEGER, photo BLOB);
        CREATE TABLE twin (
            a INTEGER NOT NULL REFERENCES city, b INTEGER NOT NULL, note TEXT, PRIMARY KEY (a, b));
        CREATE TABLE visit (
            id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, FOREIGN KEY (a, b) REFERENCES twin);
        INSERT INTO country VALUES ('CH', 'Schweiz'), ('AT', 'Österreich'), ('LI', NULL);
        INSERT INTO city VALUES
            (1, 'Zürich', 'CH', 400000, 87.9, 1, x'00ff'), (2, 'Bern', 'CH', 140000, 51.6, 2, NULL),
            (3, 'Wien', 'AT', 2000000, 414.0, NULL, x''), (4, 'a,b (c) "d" 100%_\\*', NULL, NULL, NULL, NULL, NULL),
            (5, 'wien', 'AT', 9223372036854775807, 0.5, NULL, NULL);
        INSERT INTO twin VALUES (1, 9, 'x'), (1, 10, 'y'), (3, 1, NULL);
        INSERT INTO visit VALUES (1, 1, 9), (2, 1, 9), (3, 3, 1), (4, NULL, 9);
        """

    /// Filters, and the cities that they select.
    private static let filters = [
        ("population=eq.140000", "2"), ("population=eq.140000.0", "2"), ("population=neq.140000", "1 3 5"),
        ("population=gt.400000", "3 5"), ("population=gte.400000", "1 3 5"), ("population=lt.400000", "2"),
        ("population=lte.400000.5", "1 2"), ("population=gt.1e30", ""), ("population=not.eq.140000", "1 3 5"),
        (#"population=eq.{"$int":"9223372036854775807"}"#, "5"), ("population=is.null", "4"),
        ("population=not.is.null", "1 2 3 5"), ("population=in.(140000,400000)", "1 2"),
        ("population=not.in.(140000,400000)", "3 5"), ("area=gt.51", "1 2 3"), ("area=eq.414", "3"),
        ("name=like.*ien", "3 5"), ("name=like.W*", "3"), ("name=like.*%25_\\\\**", ""), ("name=like.*%25_*", "4"),
        ("name=like._ern", ""), ("name=like.Z%C3%BC*", "1"), ("name=not.like.*ien", "1 2 4"), ("name=gt.Z", "1 4 5"),
        (#"name=eq."a,b (c) \"d\" 100%25_\\*""#, "4"), (#"or=(name.eq."a,b (c) \"d\" 100%25_\\*",id.eq.1)"#, "1 4"),
        (#"name=in.("Bern","Wien")"#, "2 3"), ("name=eq.bern", ""), (#""limit"=eq.2"#, "2"),
        ("or=(id.eq.1,and(population.gt.100000,country.eq.AT))", "1 3 5"), ("country=eq.CH&population=lt.200000", "2"),
        ("and=(country.eq.AT,or(id.eq.3,id.eq.1))", "3"), ("or=(id.eq.1,id.eq.2)&or=(id.eq.2,id.eq.3)", "2"),
        ("country=is.null", "4"), (#"photo=eq.{"$blob":"AP8="}"#, "1"), (#"photo=gt.{"$blob":""}"#, "1"),
    ]

    @Test(arguments: Store.all) func `every operator selects the same records in both stores`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        for (filter, keys) in Self.filters {
            #expect(try await zone.page("tables/city?\(filter)").keys.joined(separator: " ") == keys, "\(filter)")
            let count = try await zone.page("tables/city?\(filter)&count=exact&limit=1").object["count"]
            #expect(count as? Int == keys.split(separator: " ").count, "\(filter)")
        }
    }

    @Test(arguments: Store.all) func `a list has the selected columns, the key and the revision`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, #"{"city":{"update":[2],"attributes":{"2":{"area":52}}}}"#)
        let json = try await zone.json("tables/city?select=id,area&order=id.desc&id=lte.2&limit=5")
        #expect(
            json.hasSuffix(
                #""records":[{"id":2,"area":52.0,"$key":"2","$revision":2},"#
                    + #"{"id":1,"area":87.9,"$key":"1","$revision":1}]}"#))
        let record = try await zone.json("tables/city/5?select=population,photo")
        #expect(record == #"{"population":{"$int":"9223372036854775807"},"photo":null,"$revision":1}"#)
        #expect(try await zone.json("tables/twin/1,9") == #"{"a":1,"b":9,"note":"x","$revision":1}"#)
    }

    @Test(arguments: Store.all) func `long values are cut by their characters, and blobs have a length only`(
        store: Store
    )
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await zone.writeOutside("UPDATE country SET name = 'Öster\"reich' WHERE code = 'AT'")
        let cut = try await zone.json("tables/country/AT?truncate=6")
        #expect(cut == #"{"code":"AT","name":{"$cut":{"type":"text","length":12,"start":"Öster\""}},"$revision":2}"#)
        #expect(try await zone.json("tables/country/AT?truncate=11").contains(#""name":"Öster\"reich""#))
        let photo = try await zone.json("tables/city/1?select=photo,population&truncate=1")
        #expect(photo == #"{"photo":{"$cut":{"type":"blob","length":2}},"population":400000,"$revision":1}"#)
    }

    @Test(arguments: Store.all) func `records come with their children, their parents and composite references`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let json = try await zone.json("tables/country?select=code,city(id,name)&order=code")
        #expect(
            json.contains(
                #"{"code":"CH","city":[{"id":1,"name":"Zürich","$revision":1},{"id":2,"name":"Bern","$revision":1}]"#))
        #expect(json.contains(#"{"code":"LI","city":[],"#))
        let city = try await zone.json("tables/city/3?select=name,country(name)")
        #expect(city == #"{"name":"Wien","country":{"name":"Österreich","$revision":1},"$revision":1}"#)
        let twins = try await zone.json("tables/twin?select=note,visit(id)&order=a.desc,b.desc")
        #expect(twins.contains(#"{"note":null,"visit":[{"id":3,"$revision":1}],"$key":"3,1""#))
        #expect(twins.contains(#"{"note":"x","visit":[{"id":1,"$revision":1},{"id":2,"$revision":1}],"$key":"1,9""#))
        let visit = try await zone.json("tables/visit/4?select=a(note)")
        #expect(visit == #"{"a":null,"$revision":1}"#)
    }

    @Test(arguments: Store.all) func `what the server does not know is refused with a code`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        for (path, code) in [
            ("tables/none", ErrorCode.unknownTable), ("tables/city?color=eq.1", .unknownColumn),
            ("tables/city?select=id,color", .unknownColumn), ("tables/city?order=color", .unknownColumn),
            ("tables/city?or=(color.eq.1)", .unknownColumn), ("tables/city?id=is.5", .invalidFilter),
            ("tables/city?id=matches.5", .invalidFilter), ("tables/city?limit=0", .invalidFilter),
            ("tables/city?limit=5&limit=6", .invalidFilter), ("tables/city?population=like.1*", .invalidFilter),
            ("tables/city?select=id,river(name)", .invalidFilter), ("tables/city?truncate=0", .invalidFilter),
            ("tables/city/7", .unknownRecord), ("tables/city/x", .invalidKey), ("tables/twin/1", .invalidKey),
            ("tables/twin/1,11", .unknownRecord), ("tables/city/1?limit=5", .invalidFilter),
            (#"tables/city?photo=eq.{"$blob":"?"}"#, .invalidValue),
            (#"tables/city?name=eq.{"$x":"1"}"#, .invalidValue),
        ] { #expect(try await zone.refusal(ofPage: path) == code, "\(path)") }
    }

    @Test func `PostgreSQL refuses a value that the column cannot hold, and names the column`() async throws {
        let zone = try await Zone(.postgres, Self.schema)
        let error = await #expect(throws: TidemarkError.self) {
            try await zone.json("tables/city?population=gt.many")
        }
        #expect(error?.code == .invalidValue)
        #expect(error?.place.table == "city")
        #expect(error?.place.column == "population")
        #expect(try await zone.refusal(ofPage: "tables/city?area=eq.wide") == .invalidValue)
    }

    @Test(arguments: Store.all) func `a key is found in another spelling`(store: Store) async throws {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE size (size REAL PRIMARY KEY NOT NULL, note TEXT);
            CREATE TABLE seat (row TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (row, number));
            INSERT INTO size VALUES (9.0, 'nine');
            INSERT INTO seat VALUES ('A', 3), ('A,B', 4), ('{"$', 5);
            """
        )
        for key in ["9", "9.0", "900e-2"] {
            #expect(try await zone.page("tables/size/\(key)").object["note"] as? String == "nine", "\(key)")
        }
        for (key, number) in [("A,3", 3), ("A,3.0", 3), ("A%2CB,4", 4)] {
            #expect(try await zone.page("tables/seat/\(key)").object["number"] as? Int == number, "\(key)")
        }
        for key in try await zone.page("tables/seat").keys {
            #expect(try await zone.page("tables/seat/\(key)").object["number"] != nil, "\(key)")
        }
        #expect(try await zone.refusal(ofPage: "tables/seat/A,3.5") == .unknownRecord)
    }

    @Test(arguments: Store.all) func `rule 3: a page has what other programs have written before it`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        for number in 1...3 {
            try await zone.writeOutside("UPDATE city SET population = \(number) WHERE id = 1")
            let page = try await zone.page("tables/city?id=eq.1")
            #expect(page.values("population") == ["\(number)"])
            #expect(page.revision == Int64(number) + 1)
            #expect(page.values("$revision") == ["\(number + 1)"])
        }
        try await zone.writeOutside("DELETE FROM visit WHERE id = 4")
        #expect(try await zone.refusal(ofPage: "tables/visit/4") == .unknownRecord)
    }

    @Test(arguments: Store.all) func `a page of large values ends early, with a cursor`(store: Store) async throws {
        let zone = try await Zone(store, "CREATE TABLE page (id INTEGER PRIMARY KEY, text TEXT, scan BLOB);")
        let fill = store == .embedded ? "printf('%.*c', $, 'x')" : "repeat('x', $)"
        for (id, length) in [(1, 700_000), (2, 300_000), (3, 300_000), (4, 2_000_000), (5, 10), (6, 10)] {
            let text = fill.replacing("$", with: "\(length)")
            try await zone.writeOutside("INSERT INTO page VALUES (\(id), \(text), NULL)")
        }
        let pages = try await zone.walk("tables/page?order=id")
        #expect(pages.map(\.keys) == [["1", "2"], ["3"], ["4"], ["5", "6"]])
        let cut = try await zone.walk("tables/page?truncate=20")
        #expect(cut.map(\.keys) == [["1", "2", "3", "4", "5", "6"]])
        let all = try await zone.ask { reader in
            var query = RowQuery(try reader.schema.table("page"), limit: 10, bytesMax: 800_000)
            query.keys = ["5", "4", "1", "7"]
            return try reader.rows(query)
        }
        #expect(all.rows.map(\.key) == ["5"])
        #expect(all.hasMore)
    }

    @Test(arguments: Store.all) func `a query that runs for too long names the index that helps`(store: Store)
        async throws
    {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE word (id INTEGER PRIMARY KEY, kind TEXT, text TEXT NOT NULL);
            WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 250000)
            INSERT INTO word SELECT n, 'a', printf('%.*c', 400, 'a') FROM number;
            """
        )
        let patterns = (0..<199).map { "text.like.*b\($0)*" }.joined(separator: ",")
        let error = await #expect(throws: TidemarkError.self) {
            try await zone.json("tables/word?kind=eq.a&or=(\(patterns))&order=text")
        }
        #expect(error?.code == .queryTooCostly)
        #expect(error?.place.table == "word")
        #expect(error?.fix.contains("CREATE INDEX") == true)
        #expect(error?.fix.contains("kind") == true)
        #expect(try await zone.page("tables/word?limit=1").keys == ["1"], "the store still answers")
    }
}
