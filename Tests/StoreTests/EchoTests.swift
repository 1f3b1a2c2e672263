import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// A client that asks for ids only gets new ids alone if all rows were stored as sent; otherwise it
/// gets the whole answer.
@Suite struct EchoTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE CASCADE,
            name TEXT, score INTEGER DEFAULT 7);
        INSERT INTO team VALUES (1, 'red');
        INSERT INTO player VALUES (1, 1, 'Anna', 0);
        """

    private static func set(_ number: Int, _ tables: String) -> String {
        #"{"id":"6f6d3a4e-0000-4000-8000-\#(String(format: "%012d", number))",\#(tables)}"#
    }

    private static let family = set(
        1,
        """
        "team":{"create":[-1],"attributes":{"-1":{"name":"blue"}}},"player":{"create":[-2],"update":[1],\
        "attributes":{"-2":{"team":-1,"name":"Cleo","score":3},"1":{"score":5}}}
        """
    )

    private static func zone(_ store: Store) async throws -> Zone {
        let zone = try await Zone(store, schema)
        // From here on the zone has a fingerprint.
        _ = try await zone.sync(#"{"maxRevision":1}"#)
        return zone
    }

    private static func answer(
        _ zone: Zone, _ set: String, at revision: Int64 = 1, _ members: String = #""echo":"ids","#
    ) async throws -> String {
        let body = try await zone.bytes(#"{"maxRevision":\#(revision),"device":"a",\#(members)"changeSets":[\#(set)]}"#)
        return String(decoding: body, as: UTF8.self)
    }

    @Test(arguments: Store.all) func `A4: with echo ids, new records return with their ids only`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        let text = try await Self.answer(zone, Self.family)
        #expect(text.contains(#""echo":"ids""#))
        #expect(
            text.hasSuffix(
                #""changeSets":[{"id":"6f6d3a4e-0000-4000-8000-000000000001","revision":2,"conflict":false,"#
                    + #""types":["team","player"],"#
                    + #""team":{"create":[2],"update":[],"delete":[],"attributes":{"2":{"__oldId__":-1}}},"#
                    + #""player":{"create":[2],"update":[],"delete":[],"attributes":{"2":{"__oldId__":-2}}}}]}"#))
        // Every other device gets all of it.
        let others = try await zone.bytes(#"{"maxRevision":1}"#)
        #expect(String(decoding: others, as: UTF8.self).contains("Cleo"))
    }

    @Test(arguments: Store.all) func `without echo, or with echo all, the answer returns all records`(store: Store)
        async throws
    {
        for (number, members) in ["", #""echo":"all","#].enumerated() {
            let zone = try await Self.zone(store)
            let text = try await Self.answer(zone, Self.family, members)
            #expect(!text.contains("echo"), "\(number)")
            #expect(text.contains(#""name":"Cleo""#))
        }
    }

    @Test(arguments: Store.all)
    func `rule 3: a retry returns all records, because the rows may have changed since`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        _ = try await Self.answer(zone, Self.family)
        let again = try await Self.answer(zone, Self.family)
        #expect(!again.contains("echo"))
        #expect(again.contains(#""name":"Cleo""#) && again.contains(#""__oldId__":-2"#))
    }

    @Test(
        arguments: Store.all,
        [
            ("a default", #""player":{"create":[-2],"attributes":{"-2":{"name":"Cleo"}}}"#),
            ("a cascade", #""team":{"delete":[1]}"#),
            ("nothing new", #""player":{"update":[1],"attributes":{"1":{"name":"Anna"}}}"#),
            ("one of two columns is new", #""player":{"update":[1],"attributes":{"1":{"name":"Anna","score":1}}}"#),
            ("text in a numeric column", #""player":{"update":[1],"attributes":{"1":{"score":"8"}}}"#),
            ("a conflict", #""team":{"create":[-1],"attributes":{"-1":{"name":"red"}}}"#),
        ]
    ) func `a record stored differently from the request returns whole`(store: Store, change: (String, String))
        async throws
    {
        let zone = try await Self.zone(store)
        let text = try await Self.answer(zone, Self.set(1, change.1))
        #expect(!text.contains("echo"), "\(change.0): \(text)")
    }

    @Test(arguments: Store.all) func `a device that is behind gets all revisions in order`(store: Store) async throws {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(
            at: 1, device: "b", Self.set(9, #""team":{"update":[1],"attributes":{"1":{"name":"rot"}}}"#))
        let text = try await Self.answer(zone, Self.family)
        #expect(!text.contains("echo"))
        #expect(text.contains("rot") && text.contains("Cleo"))
    }

    @Test(arguments: Store.all, [#""some""#, "1", "true", "null", #"["ids"]"#])
    func `an echo other than all or ids is refused before any effect`(store: Store, echo: String) async throws {
        let zone = try await Self.zone(store)
        let error = try await zone.refusal(of: #"{"maxRevision":1,"echo":\#(echo),"changeSets":[\#(Self.family)]}"#)
        #expect(error?.code == .malformedRequest)
        #expect(try await zone.revision() == 1)
    }
}
