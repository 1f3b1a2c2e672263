import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkTestSupport

/// The operator `like` on both stores: the meaning of a pattern, whatever the value's length, and its bounds.
@Suite(.serialized, .timeLimit(.minutes(5))) struct LikeTests {
    private static let letters = ["a", "b", "%", "_", "\\", ".", "ä", "\n", "(", "[", "{", "?", "$", "^", "'"]

    /// Texts of a few letters; one of three is longer than what PostgreSQL compares by its own `LIKE`.
    private static func texts(_ random: inout SeededGenerator) -> [String] {
        (0..<60).map { number in
            let word = String((0..<Int.random(in: 0...6, using: &random)).map { _ in pick(&random) }.joined())
            guard number % 3 == 0 else { return word }
            return pick(&random) + String(repeating: pick(&random), count: 5_000) + word
        }
    }

    private static func pick(_ random: inout SeededGenerator) -> String {
        letters[Int.random(in: 0..<letters.count, using: &random)]
    }

    /// A pattern that some text nearly fits.
    private static func pattern(for text: String, _ random: inout SeededGenerator) -> String {
        var pieces = [
            text.prefix(Int.random(in: 0...3, using: &random)), text.suffix(Int.random(in: 0...3, using: &random)),
        ]
        pieces.insert(text.dropFirst(1).prefix(Int.random(in: 0...2, using: &random)), at: 1)
        if Int.random(in: 0..<4, using: &random) == 0 { pieces.append(Substring(pick(&random))) }
        return pieces.joined(separator: Int.random(in: 0..<5, using: &random) == 0 ? "" : "*")
    }

    private static func fits(_ text: [Unicode.Scalar], _ pattern: [Unicode.Scalar]) -> Bool {
        // The places in the pattern that the beginning of the text reaches.
        var places: Set<Int> = [0]
        func open(_ places: Set<Int>) -> Set<Int> {
            var open = places
            for place in places.sorted() {
                var next = place
                while next < pattern.count, pattern[next] == "*" {
                    next += 1
                    open.insert(next)
                }
            }
            return open
        }
        places = open(places)
        for scalar in text {
            var next: Set<Int> = []
            for place in places where place < pattern.count {
                if pattern[place] == "*" {
                    next.insert(place)
                } else if pattern[place] == scalar {
                    next.insert(place + 1)
                }
            }
            places = open(next)
            if places.isEmpty { return false }
        }
        return places.contains(pattern.count)
    }

    private static func encode(_ text: String) -> String {
        text.utf8.map { byte in "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
    }

    @Test(arguments: Store.all) func `random texts and patterns fit as in the plainest matcher`(store: Store)
        async throws
    {
        var random = SeededGenerator(seed: 20_261_127)
        let texts = Self.texts(&random)
        let rows = texts.enumerated().map { "(\($0 + 1), '\($1.replacing("'", with: "''"))')" }.joined(separator: ", ")
        let zone = try await Zone(
            store, "CREATE TABLE doc (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO doc VALUES \(rows), (99, NULL);")
        for _ in 0..<120 {
            let pattern = Self.pattern(for: texts[Int.random(in: 0..<texts.count, using: &random)], &random)
            let scalars = Array(pattern.unicodeScalars)
            let expected = texts.indices.filter { Self.fits(Array(texts[$0].unicodeScalars), scalars) }
            // In quotes, so that a parenthesis of the pattern ends nothing.
            let quoted = pattern.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
            let question = "tables/doc?select=id&text=like.\(Self.encode("\"\(quoted)\""))"
            #expect(try await zone.page(question).keys == expected.map { "\($0 + 1)" }, "\(pattern)")
            let others = texts.indices.filter { !expected.contains($0) }
            let negated = "tables/doc?select=id&text=not.like.\(Self.encode("\"\(quoted)\""))"
            #expect(try await zone.page(negated).keys == others.map { "\($0 + 1)" }, "not \(pattern)")
        }
    }

    @Test(arguments: Store.all)
    func `a list, the feed and a comparison find a long value by the longest pattern, and refuse a longer one`(
        store: Store
    ) async throws {
        let sql = """
            CREATE TABLE doc (id INTEGER PRIMARY KEY, text TEXT);
            INSERT INTO doc VALUES (1, printf('%.*c', 300000, 'a')), (2, printf('%.*c', 300000, 'a') || 'b');
            """
        try await ServedZone.run(store, sql) { server in
            let longest = "*" + String(repeating: "a", count: TextPattern.charactersMax - 2) + "b"
            let list = try await server.get("/tables/doc?select=id&text=like.\(longest)")
            #expect(list.records.map { $0["id"] as? Int } == [2])
            try await server.zone.writeOutside("UPDATE doc SET text = text || 'b' WHERE id = 1")
            let feed = try await server.get("/changes?since=1&tables=doc&select=id&text=like.\(longest)")
            #expect(feed.changes.map { $0["key"] as? String } == ["1"])
            let none = #""rows":0,"fingerprint":"00000000000000000000000000000000"}"#
            let part = try await server.post("/compare/doc", #"{"filter":"text=like.\#(longest)",\#(none)"#)
            #expect(part.rows == 2)
            for path in ["/tables/doc?text=like.a\(longest)", "/changes?tables=doc&or=(text.like.a\(longest))"] {
                let refusal = try await server.get(path)
                #expect(refusal.status == 400)
                #expect(refusal.code == "invalidFilter")
                #expect(refusal.text.contains("at most \(TextPattern.charactersMax)"), "\(refusal.text)")
            }
            let refusal = try await server.post("/compare/doc", #"{"filter":"text=like.a\#(longest)",\#(none)"#)
            #expect(refusal.code == "invalidFilter")
        }
    }
}
