import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// E4: pages by keyset: every row once, in order, whatever the order, and whatever others write meanwhile.
@Suite struct KeysetTests {
    /// Rows with NULLs and ties, under a simple and a composite key.
    private static let schema: String = {
        var sql = """
            CREATE TABLE spot (id INTEGER PRIMARY KEY, i INTEGER, r REAL, t TEXT);
            CREATE TABLE pair (a TEXT NOT NULL, b INTEGER NOT NULL, i INTEGER, r REAL, t TEXT, PRIMARY KEY (a, b));
            """
        let integers = ["NULL", "-3", "0", "7", "7"]
        let reals = ["0.5", "NULL", "-1e300", "2"]
        let texts = ["'a'", "'B'", "NULL", "''", "'ä'", "'a '", "'a'"]
        for number in 0..<15 {
            let values = "\(integers[number % 5]), \(reals[number % 4]), \(texts[number % 7])"
            sql += "INSERT INTO spot VALUES (\((number * 7) % 15 - 5), \(values));"
            sql += "INSERT INTO pair VALUES (\(["'x'", "'X'", "'ä'"][number % 3]), \(number / 3), \(values));"
        }
        return sql
    }()

    /// Every order of up to two columns, and its parts.
    private static let orders: [[(column: String, isDescending: Bool)]] = {
        let parts = ["i", "r", "t"].flatMap { [($0, false), ($0, true)] }
        let pairs = parts.flatMap { first in parts.filter { $0.0 != first.0 }.map { [first, $0] } }
        return [[]] + parts.map { [$0] } + pairs
    }()

    @Test(arguments: Store.all, ["spot", "pair"])
    func `pages of any size are one sorted read, with NULLs, ties and composite keys`(store: Store, table: String)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let rows = try await zone.page("tables/\(table)?limit=1000").records
        #expect(rows.count == 15)
        for order in Self.orders {
            let key = table == "spot" ? ["id"] : ["a", "b"]
            let all = order + key.map { ($0, order.last?.isDescending ?? false) }
            let sorted = rows.sorted { SortedRow.precedes($0, $1, all) }.map { $0["$key"] as? String ?? "" }
            let words = order.map { $0.column + ($0.isDescending ? ".desc" : "") }.joined(separator: ",")
            for limit in 1...5 {
                let path = "tables/\(table)?limit=\(limit)" + (words.isEmpty ? "" : "&order=\(words)")
                let pages = try await zone.walk(path)
                #expect(pages.flatMap(\.keys) == sorted, "\(path)")
                #expect(pages.dropLast().allSatisfy { $0.records.count == limit }, "\(path)")
            }
        }
    }

    @Test func `SQLite pages through a column of mixed types`() async throws {
        let zone = try await Zone(
            .embedded,
            """
            CREATE TABLE bag (id INTEGER PRIMARY KEY, v);
            INSERT INTO bag VALUES (1, NULL), (2, 3), (3, 2.5), (4, '2'), (5, x'00'), (6, x''),
                (7, 3), (8, 'Ä'), (9, NULL);
            """
        )
        for (order, keys) in [("v", "1 9 3 2 7 4 8 6 5"), ("v.desc", "5 6 8 4 7 2 3 9 1")] {
            for limit in 1...5 {
                let pages = try await zone.walk("tables/bag?order=\(order)&limit=\(limit)")
                #expect(pages.flatMap(\.keys).joined(separator: " ") == keys, "\(order) by \(limit)")
            }
        }
    }

    @Test(arguments: Store.all)
    func `a writer between pages: no untouched row twice or left out, and the log has the rest`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        var random = SeededGenerator(seed: 26)
        for order in ["", "&order=i", "&order=t.desc,i", "&order=r.desc"] {
            let before = try await zone.page("tables/spot?limit=1000").keys
            var touched: Set<String> = []
            let pages = try await zone.walk("tables/spot?limit=\(Int.random(in: 2...4, using: &random))\(order)") {
                let id = Int.random(in: -5..<15, using: &random)
                touched.insert(String(id))
                let value = ["NULL", "5", "-9"][Int.random(in: 0..<3, using: &random)]
                let insertion = "INSERT INTO spot VALUES (\(id), \(value), \(value), 'new')"
                let isDeletion = Bool.random(using: &random)
                try await zone.writeOutside("DELETE FROM spot WHERE id = \(id)" + (isDeletion ? "" : "; \(insertion)"))
            }
            let seen = pages.flatMap(\.keys)
            for key in before where !touched.contains(key) {
                #expect(seen.filter { $0 == key }.count == 1, "\(key) in \(order)")
            }
            try await Self.expectWhole(pages, of: zone, order)
        }
    }

    /// Rule 4: the pages and then the log from the first page's revision give the table as it is.
    private static func expectWhole(_ pages: [RecordPage], of zone: Zone, _ order: String) async throws {
        var records: [String: String] = [:]
        for record in pages.flatMap(\.records) { records[record["$key"] as? String ?? ""] = SortedRow.text(record) }
        let since = try #require(pages.first?.since)
        #expect(pages.allSatisfy { $0.since == since })
        let changed = try await zone.ask { reader in
            try reader.log.entries(after: LogPosition(revision: since), limit: 1_000).map(\.key)
        }
        let now = try await zone.page("tables/spot?limit=1000").records
        let current = Dictionary(uniqueKeysWithValues: now.map { ($0["$key"] as? String ?? "", SortedRow.text($0)) })
        for key in changed { records[key] = current[key] }
        #expect(records == current, "\(order)")
    }

    @Test(arguments: Store.all)
    func `E4: 30,000 rows under one value come in 30 pages of 1,000`(store: Store) async throws {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE dish (id INTEGER PRIMARY KEY, updated TEXT NOT NULL);
            CREATE INDEX dish_updated ON dish (updated, id);
            WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 30000)
            INSERT INTO dish SELECT n, '2026-11-25T12:00:00Z' FROM number;
            """
        )
        let pages = try await zone.walk("tables/dish?order=updated&limit=1000")
        #expect(pages.count == 30)
        #expect(pages.flatMap(\.keys) == (1...30_000).map(String.init))
    }

    @Test(arguments: Store.all)
    func `a cursor of another question, another order or a forged one is refused`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let next = try #require(try await zone.page("tables/spot?order=i&limit=2").next)
        for path in [
            "tables/spot?limit=2", "tables/spot?order=i.desc", "tables/pair?order=i", "tables/spot?order=i&i=gt.1",
        ] {
            #expect(
                try await zone.refusal(ofPage: "\(path)\(path.contains("?") ? "&" : "?")after=\(next)")
                    == .invalidCursor)
        }
        let bytes = try #require(Base64URL.bytes(next))
        for (old, new) in [(#""v":["#, #""v":[],"x":["#), (#""k":["#, #""k":["1","#)] {
            let forged = String(decoding: bytes, as: UTF8.self).replacing(old, with: new)
            let cursor = Base64URL.text(Array(forged.utf8))
            #expect(try await zone.refusal(ofPage: "tables/spot?order=i&after=\(cursor)") == .invalidCursor, "\(new)")
        }
        #expect(try await zone.refusal(ofPage: "tables/spot?order=i&after=x") == .invalidCursor)
    }
}

/// Rows as a client sorts them.
private enum SortedRow {
    /// Whether a row comes first: NULL, then numbers, then texts by bytes.
    static func precedes(_ left: [String: Any], _ right: [String: Any], _ order: [(column: String, isDescending: Bool)])
        -> Bool
    {
        for part in order {
            let comparison = compare(left[part.column], right[part.column])
            if comparison != 0 { return (comparison < 0) != part.isDescending }
        }
        return false
    }

    static func text(_ record: [String: Any]) -> String {
        record.keys.sorted().map { "\($0)=\(record[$0] ?? "")" }.joined(separator: " ")
    }

    private static func compare(_ left: Any?, _ right: Any?) -> Int {
        if let left = left as? NSNumber, let right = right as? NSNumber { return left.compare(right).rawValue }
        if let left = left as? String, let right = right as? String {
            if left.utf8.elementsEqual(right.utf8) { return 0 }
            return left.utf8.lexicographicallyPrecedes(right.utf8) ? -1 : 1
        }
        return rank(left) - rank(right)
    }

    private static func rank(_ value: Any?) -> Int { value is NSNumber ? 1 : value is String ? 2 : 0 }
}
