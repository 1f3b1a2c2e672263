import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 25, case 33: a server distinguishes two files with one identity by their session nonces.
@Suite(.serialized) struct LapTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO notes VALUES (1, 'first');
        """

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    private static func request(_ last: Int?, _ open: [Int] = [], next: Int, device: String = "a") -> String {
        let list = open.map { "\"\(id($0))\"" }.joined(separator: ",")
        let last = last.map { "\"\(id($0))\"" } ?? "null"
        return
            #"{"maxRevision":1,"device":"\#(device)","lap":{"last":\#(last),"open":[\#(list)],"next":"\#(id(next))"}}"#
    }

    @Test(arguments: Store.all) func `a chain of requests and retries with one nonce sequence counts as one device`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        for request in [
            // The first one never arrived.
            Self.request(nil, [9], next: 1), Self.request(nil, [9], next: 1), Self.request(1, next: 2),
            Self.request(1, next: 2),
            // The answer to 2 was lost, and the next request brings more.
            Self.request(1, [2], next: 3), Self.request(1, [2, 3], next: 4), Self.request(1, [2, 3, 4], next: 5),
            Self.request(5, next: 6), Self.request(nil, next: 1, device: "b"),
        ] { #expect(try await zone.refusal(of: request) == nil, "\(request)") }
    }

    @Test(arguments: Store.all) func `a request with a nonce older than the last one counts as a copied file`(
        store: Store
    )
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        for request in [Self.request(nil, next: 1), Self.request(1, next: 2)] {
            #expect(try await zone.refusal(of: request) == nil)
        }
        let before = try await zone.content()
        for stale in [
            Self.request(nil, next: 1), Self.request(1, next: 3), Self.request(nil, next: 4),
            Self.request(4, [5], next: 6),
        ] {
            let refusal = try await zone.refusal(of: stale)
            #expect(refusal?.code == .identityInUse)
            #expect(refusal?.recovery == .renew)
        }
        #expect(try await zone.content() == before)
        #expect(try await zone.column("SELECT lap FROM tidemark_lap") == [Self.id(2)])
    }

    @Test(arguments: Store.all) func `a device that the server has forgotten is told to take a new identity`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        #expect(try await zone.refusal(of: Self.request(1, next: 2))?.code == .identityInUse)
    }

    @Test(arguments: Store.all) func `a refused request does not advance the session nonce`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        #expect(try await zone.refusal(of: Self.request(nil, next: 1)) == nil)
        let bad = Self.request(1, next: 2).replacingOccurrences(of: #""maxRevision":1"#, with: #""maxRevision":9"#)
        #expect(try await zone.refusal(of: bad)?.code == .revisionAhead)
        #expect(try await zone.column("SELECT lap FROM tidemark_lap") == [Self.id(1)])
    }

    @Test(arguments: Store.all) func `a comparison is answered for any nonce and has no effect`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let set = #"{"id":"\#(Self.id(1))","notes":{"create":[-1],"attributes":{"-1":{"text":"a"}}}}"#
        let conflicting = #"{"id":"\#(Self.id(2))","notes":{"update":[1],"attributes":{"1":{"text":"b"}}}}"#
        _ = try await zone.sync(at: 1, device: "a", set)
        try await zone.writeOutside("UPDATE notes SET text = 'other' WHERE id = 1")
        _ = try await zone.sync(at: 1, device: "a", conflicting)
        let before = try await zone.content()
        let answer = try await zone.sync(
            #"{"maxRevision":999,"device":"a","epoch":"other","recall":["\#(Self.id(1))","\#(Self.id(2))","\#(Self.id(3))"],"#
                + #""known":["\#(Self.id(1).uppercased())","\#(Self.id(4))"]}"#)
        #expect(answer.changeSets.map(\.id) == [Self.id(1), Self.id(2)])
        #expect(answer.changeSets.map(\.isConflict) == [false, true])
        #expect(answer.changeSets[0].attributes("notes", "2")?["__oldId__"] as? Int == -1)
        #expect(answer.object["known"] as? [String] == [Self.id(1)])
        #expect(answer.epoch != nil)
        #expect(answer.object["seen"] is NSNull)
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all) func `B8: a comparison's answer contains the device's overruled values`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema, policies: ["notes": .lastWriter])
        for device in ["a", "b"] {
            let edit = #"{"notes":{"update":[1],"attributes":{"1":{"text":"\#(device)"}}}}"#
            _ = try await zone.sync(at: 1, device: device, edit)
        }
        // The values stay.
        for _ in 1...2 {
            let answer = try await zone.sync(#"{"maxRevision":1,"device":"a","recall":[]}"#)
            let notes = answer.object["overruled"] as? [[String: Any]] ?? []
            #expect(notes.map { $0["revision"] as? Int } == [3])
        }
        let winner = try await zone.sync(#"{"maxRevision":1,"device":"b","recall":[]}"#)
        #expect(winner.object["overruled"] == nil)
    }

    @Test(arguments: Store.all) func `a verdict that a new identity sends again is in its place, once`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let set = #"{"id":"\#(Self.id(1))","notes":{"create":[-1],"attributes":{"-1":{"text":"a"}}}}"#
        _ = try await zone.sync(at: 1, device: "a", set)
        try await zone.writeOutside("UPDATE notes SET text = 'other' WHERE id = 1")
        let answer = try await zone.sync(at: 1, device: "b", set)
        #expect(answer.revisions == [2, 3])
        #expect(answer.changeSets[0].attributes("notes", "2")?["__oldId__"] as? Int == -1)
    }
}
