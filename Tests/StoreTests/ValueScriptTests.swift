import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkTestSupport

/// Both stores give equal bytes for the same requests with values of any kind: columns and keys of
/// every common type, in scripts from a seed.
@Suite(.serialized) struct ValueScriptTests {
    /// `TIDEMARK_DIFFERENTIAL_SEEDS=1000` compares more.
    private static let scripts = UInt64(Effort.count("TIDEMARK_DIFFERENTIAL_SEEDS", short: 3, long: 12))

    @Test(arguments: 1...ValueScriptTests.scripts)
    func `A9: both stores answer scripts with values of many types byte for byte alike`(seed: UInt64) async throws {
        var script = ValueScript(seed)
        let policies: [String: ConflictPolicy] = [
            [:], ["thing": .columns], ["thing": .lastWriter], ["thing": .latest],
        ][Int(seed % 4)]
        let epoch = try #require(UUID(uuidString: "6f6d3a4e-0000-4000-8000-0000000000aa"))
        let now: @Sendable () -> Int64 = { 1_767_312_000_000 }
        let embedded = try await Zone(.embedded, ValueScript.schema, policies: policies, epoch: epoch, now: now)
        let postgres = try await Zone(.postgres, ValueScript.schema, policies: policies, epoch: epoch, now: now)
        try await postgres.database?.dropIdentities()
        var answered = 0
        var conflicts = 0
        var refused = 0
        for number in 0..<40 {
            let request = script.request(at: try await embedded.revision())
            let mine = try await Self.answer(embedded, request)
            let theirs = try await Self.answer(postgres, request)
            guard mine == theirs else {
                Issue.record("seed \(seed), request \(number)\n\(request)\n\(mine)\n\(theirs)")
                return
            }
            if mine.contains(#""conflict":true"#) { conflicts += 1 }
            if mine.hasPrefix("refused") { refused += 1 } else { answered += 1 }
        }
        #expect(answered > 15 && conflicts > 0, "\(answered), \(conflicts), \(refused)")
        let mine = try await embedded.service.digest(zone: "main")
        let theirs = try await postgres.service.digest(zone: "main")
        #expect(mine == theirs)
    }

    private static func answer(_ zone: Zone, _ request: String) async throws -> String {
        do { return String(decoding: try await zone.bytes(request), as: UTF8.self) } catch let error as TidemarkError {
            return "refused: \(error)"
        }
    }
}

/// Requests generated from a seed.
private struct ValueScript {
    static let schema = """
        CREATE TABLE thing (id INTEGER PRIMARY KEY, i INTEGER, r REAL, b BOOLEAN, t TEXT, x BLOB,
            d DATETIME DEFAULT 'never', u TEXT UNIQUE, n INTEGER NOT NULL DEFAULT 7, c REAL CHECK (c < 1e9));
        CREATE TABLE word (name TEXT PRIMARY KEY, meaning TEXT);
        CREATE TABLE size (size REAL PRIMARY KEY, note TEXT);
        CREATE TABLE raw (bytes BLOB PRIMARY KEY, note TEXT);
        CREATE TABLE pair (a INTEGER NOT NULL, b TEXT NOT NULL, c REAL NOT NULL, thing_id INTEGER
            REFERENCES thing ON DELETE SET NULL, PRIMARY KEY (a, b, c));
        INSERT INTO thing (id, i, r, t, x) VALUES (1, 1, 1.5, 'one', x'01'), (2, 2, 2, 'two', x'');
        INSERT INTO word VALUES ('a', 'b');
        """

    private static let integers = [
        "0", "1", "-1", "7", "9223372036854775807", "-9223372036854775808", "4503599627370496",
    ]
    private static let reals = [
        "0.1", "-0.0", "1e300", "1e-320", "5e-324", "2", "123456789012345680.0", "1e15", "1e16", "0.30000000000000004",
        #"{"$real":"Infinity"}"#, "1e22", "1.5e-7", "100000.0", "1e5", "3.4028234663852886e38",
    ]
    private static let texts = [
        #""""#, #""a""#, #""A""#, #""ä""#, #""\u001f\n\t\"\\/""#, #""😀\u2028""#, #""NULL""#, #""5""#, #""0.10""#,
        #""'; DROP TABLE thing; --""#, #"" leading""#, #""{\"a\":1}""#, #""\u007f\u0080""#, #""e\u0301""#, #""\ufeff""#,
        #""\uffff""#,
    ]
    private static let blobs = [#"{"$blob":""}"#, #"{"$blob":"AA=="}"#, #"{"$blob":"AP8="}"#, #"{"$blob":"XHg="}"#]
    private static let dates = [
        "1700000000", "1700000000.5", "5.0", "-0.0", #""1e3""#, #"" 7 ""#, #""0.10""#, #""-.5""#,
        #""9223372036854775808""#, #""1e400""#, #""1e-400""#, #""+5""#, #""0x10""#, #""1e""#, "1e20",
        #""2026-11-21 10:00:00""#,
    ]
    private static let columns: [(String, [String])] = [
        ("i", integers + [#""12""#, "3.0"]), ("r", reals + ["3", #""2.5""#]), ("b", ["0", "1"]),
        ("t", texts + ["5", "-0.5", "1e20"]), ("x", blobs), ("d", texts + dates), ("u", texts), ("n", integers),
        ("c", ["0.5", "1e8", "1e10"]),
    ]

    private var random: SeededGenerator
    private var temporary = 0

    init(_ seed: UInt64) { random = SeededGenerator(seed: seed) }

    private mutating func pick(_ values: [String]) -> String {
        values[Int.random(in: 0..<values.count, using: &random)]
    }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    mutating func request(at revision: Int64) -> String {
        let base = chance(80) ? revision : Int64.random(in: 1...max(revision, 1), using: &random)
        let sets = (0..<Int.random(in: 1...3, using: &random)).map { _ in changeSet() }
        let device = chance(70) ? #","device":"\#(pick(["a", "b"]))""# : ""
        return #"{"maxRevision":\#(base)\#(device),"changeSets":[\#(sets.joined(separator: ","))]}"#
    }

    private mutating func changeSet() -> String {
        var parts: [String] = []
        if chance(75) { parts.append(#""thing":\#(things())"#) }
        for (table, column, keys) in [
            ("word", "meaning", Self.texts), ("size", "note", Self.reals), ("raw", "note", Self.blobs),
        ] where chance(25) { parts.append(#""\#(table)":\#(one(column, key: pick(keys)))"#) }
        if chance(30) { parts.append(#""pair":\#(pair())"#) }
        return "{\(parts.joined(separator: ","))}"
    }

    private mutating func things() -> String {
        var attributes: [String] = []
        var lists = ["create": [String](), "update": [String](), "delete": [String]()]
        for id in 1...6 where chance(25) {
            if chance(15) {
                lists["delete", default: []].append("\(id)")
            } else {
                lists["update", default: []].append("\(id)")
                attributes.append(#""\#(id)":{\#(cells())}"#)
            }
        }
        if chance(50) {
            temporary -= 1
            lists["create", default: []].append("\(temporary)")
            attributes.append(#""\#(temporary)":{\#(cells())}"#)
        }
        let operations = ["create", "update", "delete"].map {
            #""\#($0)":[\#(lists[$0, default: []].joined(separator: ","))]"#
        }
        return "{\(operations.joined(separator: ",")),\"attributes\":{\(attributes.joined(separator: ","))}}"
    }

    private mutating func cells() -> String {
        var cells: [String] = []
        for (name, values) in Self.columns where chance(35) {
            let value = name != "n" && chance(10) ? "null" : pick(values)
            cells.append(#""\#(name)":\#(value)"#)
        }
        return cells.joined(separator: ",")
    }

    /// A change of one record whose key is a value.
    private mutating func one(_ column: String, key: String) -> String {
        let operation = pick(["create", "create", "update", "delete"])
        guard operation != "delete" else { return #"{"delete":[\#(key)]}"# }
        let value = pick(Self.texts)
        return #"{"\#(operation)":[\#(key)],"attributes":{\#(Self.name(key)):{"\#(column)":\#(value)}}}"#
    }

    private mutating func pair() -> String {
        let key = "[\(pick(["0", "1", "-5"])),\(pick(Self.texts)),\(pick(Self.reals))]"
        let operation = pick(["create", "update", "delete"])
        guard operation != "delete" else { return #"{"delete":[\#(key)]}"# }
        return
            #"{"\#(operation)":[\#(key)],"attributes":{\#(Self.name(key)):{"thing_id":\#(pick(["1", "2", "3", "null"]))}}}"#
    }

    /// A key as the name of a member: text as it is, other values as JSON.
    private static func name(_ key: String) -> String {
        guard !key.hasPrefix("\"") else { return key }
        let escaped = key.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        return "\"\(escaped)\""
    }
}
