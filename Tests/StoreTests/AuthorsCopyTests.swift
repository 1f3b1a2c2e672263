import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 3: an author's copy, rebuilt from the log and the id map, equals the first answer byte for
/// byte.
@Suite(.serialized) struct AuthorsCopyTests {
    private static let schema = """
        CREATE TABLE "the team" (id INTEGER PRIMARY KEY, name TEXT DEFAULT 'none', amount REAL, photo BLOB);
        CREATE TABLE seat (team INTEGER REFERENCES "the team", place TEXT, taken INTEGER, PRIMARY KEY (team, place));
        CREATE TABLE tag (name TEXT PRIMARY KEY, note TEXT);
        INSERT INTO "the team" VALUES (1, 'Kiel', 1.5, x'00ff'), (2, 'Lemgo', NULL, NULL);
        INSERT INTO tag VALUES ('old', 'gone soon');
        """

    /// One change set with everything: new ids, also in a composite key, keys with escapes, a
    /// default, an update, a deletion.
    private static let changeSet = #"""
        {"id":"6f6d3a4e-0000-4000-8000-000000000001",
         "the team":{"create":[-1,-2],"update":[1],"delete":[2],"attributes":{
            "-1":{"name":"Köln \"am\" Rhein\n\u0001","amount":1e300,"photo":{"$blob":"AP8="}},
            "-2":{"amount":0.1},"1":{"name":"Kiel/2"}}},
         "seat":{"create":[[-1,"a\"b"]],"attributes":{"[-1,\"a\\\"b\"]":{"taken":9223372036854775807}}},
         "tag":{"create":["a\\\"b","tab\t😀"],"delete":["old"],"attributes":{"tab\t😀":{"note":null}}}}
        """#

    private static func request(at revision: Int, _ members: String = "") -> String {
        #"{"maxRevision":\#(revision),"device":"a"\#(members),"changeSets":[\#(changeSet)]}"#
    }

    /// The change sets of an answer, as text.
    private static func changeSets(_ answer: [UInt8]) throws -> String {
        let text = String(decoding: answer, as: UTF8.self)
        return String(text[try #require(text.range(of: #""changeSets":["#)).upperBound...])
    }

    @Test(arguments: Store.all)
    func `rule 3: a mixed change set has equal bytes in retry, catch-up and recall`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let first = try Self.changeSets(await zone.bytes(Self.request(at: 1)))
        #expect(first.components(separatedBy: "__oldId__").count == 4)
        #expect(try Self.changeSets(await zone.bytes(Self.request(at: 1))) == first)
        #expect(try Self.changeSets(await zone.bytes(Self.request(at: 2))) == first)
        let catchUp = #"{"maxRevision":1,"device":"a"}"#
        #expect(try Self.changeSets(await zone.bytes(catchUp)) == first)
        let recalled = #"{"maxRevision":2,"device":"a","recall":["6f6d3a4e-0000-4000-8000-000000000001"]}"#
        #expect(try Self.changeSets(await zone.bytes(recalled)) == first)
    }

    @Test(arguments: Store.all, [1, 300]) func `F4: a recall of records stored as sent returns ids only`(
        store: Store, rows: Int
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let keys = (1...rows).map { "-\($0)" }
        let id = "6f6d3a4e-0000-4000-8000-000000000002"
        let teams = keys.map { #""\#($0)":{"name":"Ulm","amount":0.5,"photo":null}"# }
        let set = #"""
            {"id":"\#(id)","the team":{"create":[\#(keys.joined(separator: ","))],"attributes":{
                \#(teams.joined(separator: ","))}},
             "tag":{"create":["new"],"attributes":{"new":{"note":"Neckar"}}}}
            """#
        let request = #"{"maxRevision":1,"device":"a","changeSets":[\#(set)]}"#
        let first = try Self.changeSets(await zone.bytes(request))
        let question = #"{"maxRevision":1,"device":"a","recall":["\#(id)"]}"#
        let answer = String(decoding: try await zone.bytes(question), as: UTF8.self)
        #expect(answer.contains(#""asSent":["\#(id)"]"#))
        #expect(answer.contains(#""3":{"__oldId__":-1}"#))
        #expect(answer.components(separatedBy: "__oldId__").count == rows + 1)
        #expect(!answer.contains("Ulm") && !answer.contains("Neckar"))
        // A retry gets all of it.
        #expect(try Self.changeSets(await zone.bytes(request)) == first)
        #expect(first.contains("Ulm") && first.contains("Neckar"))
    }

    @Test(arguments: Store.all) func `F4, rule 3: a recall returns records in which a default filled a column`(
        store: Store
    )
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let first = try Self.changeSets(await zone.bytes(Self.request(at: 1)))
        let question = #"{"maxRevision":1,"device":"a","recall":["6f6d3a4e-0000-4000-8000-000000000001"]}"#
        let answer = try await zone.bytes(question)
        #expect(String(decoding: answer, as: UTF8.self).contains(#""asSent":[],"#))
        #expect(try Self.changeSets(answer) == first)
    }

    @Test(arguments: Store.all) func `rule 3: a retry of a compacted change set returns the ids and no rows`(
        store: Store
    )
        async throws
    {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(store, Self.schema, limits: limits)
        _ = try await zone.bytes(Self.request(at: 1))
        for revision in 2...4 {
            try await zone.writeOutside("UPDATE tag SET note = '\(revision)'")
            _ = try await zone.sync(at: Int64(revision))
        }
        let again = try Self.changeSets(await zone.bytes(Self.request(at: 5)))
        #expect(again.hasPrefix(#"{"id":"6f6d3a4e-0000-4000-8000-000000000001","revision":2,"conflict":false,"#))
        #expect(again.components(separatedBy: "__oldId__").count == 4)
        #expect(again.contains(#""3":{"__oldId__":-1}"#))
        #expect(!again.contains("Rhein") && !again.contains("tab"))
    }

    @Test(arguments: Store.all) func `rule 3: a recall is complete, however few revisions the log keeps`(store: Store)
        async throws
    {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(store, Self.schema, limits: limits)
        let tags = (1...5).map {
            #"{"id":"6f6d3a4e-0000-4000-8000-00000000001\#($0)","#
                + #""tag":{"create":["t\#($0)"],"attributes":{"t\#($0)":{"note":"n\#($0)"}}}}"#
        }
        // The stored row differs from the sent one: a default fills its name.
        let team =
            #"{"id":"6f6d3a4e-0000-4000-8000-000000000020","the team":{"create":[-1],"#
            + #""attributes":{"-1":{"amount":0.5,"photo":null}}}}"#
        let sets = (tags + [team]).joined(separator: ",")
        let body = #"{"maxRevision":1,"device":"a","echo":"ids","changeSets":[\#(sets)]}"#
        let answer = try await zone.sync(body)
        #expect(try await zone.column("SELECT horizon FROM tidemark_zone") == ["6"])
        #expect(answer.object["echo"] as? String == nil)
        #expect(answer.object["fingerprint"] is String)
        try #require(answer.revisions == [2, 3, 4, 5, 6, 7])
        for number in 1...5 {
            let tag = answer.changeSets[number - 1].attributes("tag", "t\(number)")
            #expect(tag?["note"] as? String == "n\(number)")
        }
        let teamRow = answer.changeSets[5].attributes("the team", "3")
        #expect(teamRow?["name"] as? String == "none")
        #expect(teamRow?["__oldId__"] as? Int == -1)
    }
}
