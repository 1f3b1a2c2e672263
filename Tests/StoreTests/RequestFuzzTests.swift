import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkTestSupport

/// Rule 9 by brute force: whatever the bytes, a request is answered or refused with a typed error.
@Suite(.serialized) struct RequestFuzzTests {
    /// The replacements for a token.
    private static let tokens = [
        "null", "true", "false", "0", "-0", "-1", "-10", "749", "1.5", "1e3", "1e999", "9223372036854775807",
        "-9223372036854775808", "9223372036854775808", "[]", "{}", "[[]]", "[-10]", #"{"a":1}"#, #""""#, #""-10""#,
        #""update""#, #""attributes""#, #""types""#, #""id""#, #""after""#, #""revision""#, #""__oldId__""#,
        #""screens""#, #""\u0000""#, #""\ud800""#, #"{"$blob":"AA=="}"#, #"{"$real":"Infinity"}"#,
        #""'; DROP TABLE screens; --""#,
    ]

    @Test(arguments: Store.all) func `Rule 9: mutations of the article's request find no defect`(store: Store)
        async throws
    {
        let zone = try await ArticleZone.make(store)
        var random = SeededGenerator(seed: 20_140_201)
        let original = ArticleZone.request(maxRevision: 1000)
        let parts = Self.tokens(of: original)
        var answered = 0
        var refused = 0
        let rounds = Effort.count(short: 600, long: 3_000)
        for round in 0..<rounds {
            let body =
                round.isMultiple(of: 2)
                ? Self.bytewise(Array(original.utf8), using: &random) : Self.tokenwise(parts, using: &random)
            do {
                let answer = try await zone.service.sync(zone: "main", body: body)
                _ = try Answer(answer)
                answered += 1
            } catch is TidemarkError { refused += 1 } catch {
                let text = String(decoding: body, as: UTF8.self)
                Issue.record("round \(round) ended in a defect: \(error)\n\(text)")
            }
        }
        let isMixed = answered > rounds / 60 && refused > rounds / 3
        #expect(isMixed, "answered \(answered), refused \(refused)")
        // All accepted requests are in the log, without a gap, and the file is sound.
        let revision = try await zone.revision()
        let log = try await zone.column("SELECT count(*) + 990 FROM tidemark_revision")
        #expect(log == [String(revision)])
        if store == .embedded {
            #expect(try await zone.column("PRAGMA integrity_check") == ["ok"])
            #expect(try await zone.column("PRAGMA foreign_key_check") == [])
        }
        let all = try await zone.sync(at: 990)
        #expect(all.revisions == (991...Int(revision)).map(Optional.init))
    }

    /// One to four bytes changed, removed, doubled or added, or the end cut off.
    private static func bytewise(_ body: [UInt8], using random: inout SeededGenerator) -> [UInt8] {
        var body = body
        for _ in 0..<Int.random(in: 1...4, using: &random) where !body.isEmpty {
            let place = body.indices.randomElement(using: &random) ?? 0
            let byte = UInt8.random(in: 0...255, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0: body[place] = byte
            case 1: body.remove(at: place)
            case 2: body.insert(byte, at: place)
            case 3: body[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 4: body.insert(contentsOf: body[place...].prefix(40), at: place)
            default: body.removeLast(Int.random(in: 0...3, using: &random) * body.count / 16)
            }
        }
        return body
    }

    /// One to three tokens replaced, swapped, removed or doubled.
    private static func tokenwise(_ tokens: [String], using random: inout SeededGenerator) -> [UInt8] {
        var tokens = tokens
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let place = tokens.indices.randomElement(using: &random) ?? 0
            let other = tokens.indices.randomElement(using: &random) ?? 0
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1, 2: tokens[place] = Self.tokens.randomElement(using: &random) ?? ""
            case 3: tokens.swapAt(place, other)
            case 4: tokens.remove(at: place)
            default: tokens.insert(tokens[place], at: other)
            }
        }
        return Array(tokens.joined(separator: " ").utf8)
    }

    /// The JSON tokens of a text.
    private static func tokens(of json: String) -> [String] {
        json.matches(of: /"[^"]*"|[\[\]{}:,]|[^\s\[\]{}:,"]+/).map { String($0.output) }
    }
}
