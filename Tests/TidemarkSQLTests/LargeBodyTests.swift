import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Large bodies are staged in chunks, with equal results.
///
/// White space prevents the split: with and without it the results are equal.
@Suite struct LargeBodyTests {
    private func bench() throws -> StagingBench {
        try StagingBench(
            """
            CREATE TABLE teams (id INTEGER PRIMARY KEY, name, points REAL);
            CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
            CREATE TABLE members (team INTEGER, person TEXT, role TEXT, PRIMARY KEY (team, person));
            """
        )
    }

    /// A change set of this many records in each table, with more members before the last.
    private func changeSet(
        _ count: Int,
        keys: String = "",
        attributes: String = "",
        tags: String = "",
        table: String = "teams"
    ) -> String {
        let numbers = 1...count
        let teams = numbers.map { "-\($0)" }.joined(separator: ",")
        let values = numbers.map { #""-\#($0)":{"name":"team \#($0), ünï \\ \" ]}","points":\#($0).10}"# }
        let texts = numbers.map { #""tag \#($0)""# }
        let members = numbers.map { "[-\($0),\"Anna\"]" }
        let roles = numbers.map { #""[-\#($0), \"Anna\"]":{"role":"left","revision":\#($0)}"# }
        return #"{"id":"a","types":["teams","tags","members"],"#
            + #""\#(table)":{"create":[\#(teams)\#(keys)],"attributes":{\#(values.joined(separator: ","))\#(attributes)}},"#
            + #""tags":{"delete":[\#(texts.joined(separator: ","))\#(tags)]},"#
            + #""members":{"update":[\#(members.joined(separator: ","))],"attributes":{\#(roles.joined(separator: ","))}}}"#
    }

    @Test(arguments: [1, 20, 100, 2_000]) func `a large body staged in chunks gives the rows of a body staged at once`(
        count: Int
    ) throws {
        let body = "[{},\(changeSet(count)),\(changeSet(3))]"
        let bench = try bench()
        let staged = try bench.stage(body)
        #expect(staged.count == 3 * count + 9)
        #expect(try bench.stage(" " + body) == staged)
    }

    @Test func `escapes in a large body are decoded exactly`() throws {
        let bench = try bench()
        let body =
            "[\(changeSet(2_000, attributes: #","-2001":{"name":"a\u0000\u00e9"}"#).replacing(#"-2000]"#, with: #"-2000,-2001]"#))]"
        let staged = try bench.stage(body)
        #expect(staged.contains { $0.hasPrefix("0 create teams -2001 ") })
        #expect(try bench.stage(" " + body) == staged)
    }

    /// A fault, and a body with it.
    private var faults: [String: String] {
        [
            "a key twice, far apart": changeSet(2_000, keys: ",-7"),
            "a key of another kind": changeSet(2_000, keys: #","x""#),
            "attributes twice, far apart": changeSet(2_000, attributes: #","-7":{}"#),
            "attributes of an absent record": changeSet(2_000, attributes: #","-2001":{}"#),
            "attributes that are no object": changeSet(2_000, attributes: #","-2001":1"#),
            "an unknown column": changeSet(2_000, keys: ",-2001", attributes: #","-2001":{"x":1}"#),
            "an array": changeSet(2_000, keys: ",-2001", attributes: #","-2001":{"name":[]}"#),
            "a column twice": changeSet(2_000, keys: ",-2001", attributes: #","-2001":{"name":1,"name":2}"#),
            "a large integer": changeSet(2_000, keys: ",-2001", attributes: #","-2001":{"name":9223372036854775808}"#),
            "a key with NUL": changeSet(2_000, tags: #","a\u0000b""#),
            "half a surrogate pair": changeSet(2_000, tags: #","\ud83d""#),
            "an unknown table": changeSet(2_000, keys: ",-7", table: "team"),
            "a member twice": changeSet(2_000).replacing(#""tags":{"#, with: #""tags":{"delete":[],"#),
            "a table twice": changeSet(2_000).replacing(#""tags":{"#, with: #""tags":{},"tags":{"#),
        ]
    }

    @Test func `a large body gets the same errors as a body staged at once`() throws {
        for (fault, changeSet) in faults {
            let bench = try bench()
            let pieces = try bench.refusal("[{},\(changeSet)]")
            let whole = try bench.refusal(" [{},\(changeSet)]")
            #expect(pieces.description == whole.description, "\(fault)")
            #expect(pieces.place == whole.place, "\(fault)")
        }
    }

    @Test(arguments: [",", ",,-2001", ",-2001,", ",[1", ",}", ",\"x", ",tru", " ,-2001"])
    func `a body that is not JSON is not split`(keys: String) throws {
        let body = Array("[\(changeSet(2_000, keys: keys))]".utf8)
        try bench().queue.write { [schema = bench().schema] db in
            try EngineConnection.prepare(db, schema: schema)
            let staging = try ChangeSetStaging(body: body, limits: .standard, in: db)
            #expect(staging.outline == String(decoding: body, as: UTF8.self))
            let remainingQuery = "SELECT count(*) FROM temp.tidemark_staged_key"
            #expect(try Int.fetchOne(db, sql: remainingQuery) == 0)
        }
    }

    @Test func `a large change set has one hash, whatever its layout`() throws {
        let tight = "[\(changeSet(2_000))]"
        let bench = try bench()
        let hashes = try [tight, tight.replacing(#","-7":{"#, with: "\n, \"-7\" : {")].map { text in
            try bench.queue.write { db in
                try EngineConnection.prepare(db, schema: bench.schema)
                let body = Array(text.utf8)
                let staging = try ChangeSetStaging(body: body, limits: .standard, in: db)
                try staging.stage(changeSets: staging.outline)
                let json = try String.fetchOne(db, sql: "SELECT json FROM temp.tidemark_staged_set")
                return try staging.hash(of: 0, staged: #require(json))
            }
        }
        #expect(Set(hashes) == [ContentHash.of(changeSet(2_000))])
    }
}
