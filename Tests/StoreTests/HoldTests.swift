import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Requests that are held for news, and requests that are answered at once.
@Suite(.serialized) struct HoldTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO notes VALUES (1, 'first');
        """
    private static let id = "6f6d3a4e-0000-4000-8000-000000000001"

    private func hold(_ zone: Zone, _ members: String, at revision: Int = 1) async throws -> Hold? {
        let body = Array(#"{"maxRevision":\#(revision)\#(members)}"#.utf8)
        guard Hold.isPossible(for: body) else { return nil }
        return try await zone.service.hold(zone: "main", body: body)
    }

    @Test(arguments: Store.all) func `a request with a wait time and without changes is held for that time`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let wait = try #require(try await hold(zone, #","wait":2500"#))
        #expect(wait.milliseconds == 2_500 && wait.revision == 1)
        #expect(try await hold(zone, #","wait":1,"changeSets":[]"#)?.milliseconds == 1)
        let max = Limits.standard.waitMillisecondsMax
        #expect(try await hold(zone, #","wait":9223372036854775807"#)?.milliseconds == max)
    }

    @Test(
        arguments: Store.all,
        [
            "", #","wait":0"#, #","wait":9,"changeSets":[{}]"#,
            #","wait":9,"recall":["6f6d3a4e-0000-4000-8000-000000000001"]"#, #","wait":9,"known":[]"#,
            #","wait":9,"schema":"another""#,
        ]
    ) func `a request without a wait time, with change sets or with a comparison is not held`(
        store: Store,
        members: String
    )
        async throws
    { #expect(try await hold(try await Zone(store, Self.schema), members) == nil) }

    @Test(arguments: Store.all) func `a device that is behind is not held, whichever device wrote the missing revision`(
        store: Store
    )
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await zone.writeOutside("UPDATE notes SET text = 'outside'")
        #expect(try await hold(zone, #","wait":9"#) == nil)
        #expect(try await hold(zone, #","wait":9"#, at: 2)?.revision == 2)
    }

    @Test(arguments: Store.all) func `a device with an unreported overruled value is not held`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema, policies: ["notes": .lastWriter])
        let edit = { (text: String) in #"{"notes":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}"# }
        _ = try await zone.sync(at: 1, device: "a", edit("a"))
        _ = try await zone.sync(at: 1, device: "b", edit("b"))
        #expect(try await hold(zone, #","wait":9,"device":"a""#, at: 3) == nil)
        #expect(try await hold(zone, #","wait":9,"device":"a","overruled":1"#, at: 3) != nil)
        #expect(try await hold(zone, #","wait":9,"device":"b""#, at: 3) != nil)
    }

    @Test(arguments: Store.all) func `a held request leaves no state: the device's next request counts as its first`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let lap = #","device":"d","lap":{"last":null,"open":[],"next":"\#(Self.id)"}"#
        let before = try await zone.content()
        #expect(try await hold(zone, #","wait":9"# + lap) != nil)
        #expect(try await zone.content() == before)
        #expect(try await zone.column("SELECT count(*) FROM tidemark_lap") == ["0"])
        _ = try await zone.sync(#"{"maxRevision":1,"wait":9\#(lap)}"#)
        #expect(try await hold(zone, #","wait":9"# + lap) != nil, "a retry may wait again")
        let stale = lap.replacingOccurrences(of: Self.id, with: Self.id.dropLast() + "2")
        await #expect(throws: TidemarkError.self) { try await hold(zone, #","wait":9"# + stale) }
    }
}
