import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// Cursors and tags say which history they belong to, also if two histories have the same epoch and revisions.
///
/// That is so after an operator has put a backup back and has not said so.
@Suite struct HistoryTagTests {
    /// Returns the place or tag of the same revision in another history of the same epoch.
    private static func inOtherHistory(_ text: String) -> String {
        let end = text.lastIndex { $0.isHexDigit } ?? text.startIndex
        return "\(text[..<end])\(text[end] == "0" ? "1" : "0")\(text[text.index(after: end)...])"
    }

    @Test(arguments: ServedZone.stores)
    func `a reader at a revision that a restored server has given to other changes is told to list again`(store: Store)
        async throws
    {
        try await ServedZone.run(store, "CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT)") { server in
            for number in 1...3 { _ = try await server.post("/tables/note", #"{"v":"\#(number)"}"#) }
            let next = try #require(try await server.get("/changes?since=1").next)
            #expect(try await server.get("/changes?since=\(next)").status == 200)
            let other = try await server.get("/changes?since=\(Self.inOtherHistory(next))")
            #expect(other.status == 410 && other.code == "epochMismatch")
            let ahead = try await server.get("/changes?since=\(next.replacing(/^3/, with: "9"))")
            #expect(ahead.status == 410 && ahead.code == "epochMismatch")
            // A page within a revision has a longer cursor, which says the same.
            let part = try #require(try await server.get("/changes?since=0&limit=1").next)
            #expect(try await server.get("/changes?since=\(part)").changes.count == 2)
            // The state of a page is a place of the feed, and a version for each of its records.
            let page = try await server.get("/tables/note?limit=1")
            let state = try #require(page.object["state"] as? String)
            #expect(try await server.get("/changes?since=\(state)").changes.isEmpty)
            let after = try #require(page.next)
            #expect(try await server.get("/tables/note?limit=1&after=\(after)").records.count == 1)
        }
    }

    @Test(arguments: Store.all)
    func `a write with the tag of another history is refused, though epoch and revision are the same`(store: Store)
        async throws
    {
        let client = try await RowClient(store)
        let first = try await client.write(.patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(1))
        let tag = try #require(first.entityTag)
        let problem = try await RowClient.problem {
            _ = try await client.write(.patch, "player/1", #"{"goals":6}"#, ifMatch: Self.inOtherHistory(tag))
        }
        #expect(problem?.error.code == .preconditionFailed)
        #expect(problem?.current?.contains("\"goals\":5") == true)
        let state = tag.dropFirst().dropLast()
        let seen = try await client.write(.patch, "player/2", #"{"goals":6}"#, ifMatch: "\"1@\(state)\"")
        #expect(seen.status == 200)
        let other = try await RowClient.problem {
            let tag = Self.inOtherHistory("\"1@\(state)\"")
            _ = try await client.write(.delete, "team/2", ifMatch: tag, seen: 3)
        }
        #expect(other?.error.code == .preconditionFailed)
        let minimal = try await client.write(.patch, "player/1", #"{"goals":7}"#, ifMatch: tag, isMinimal: true)
        #expect(RowClient.isTag(minimal.entityTag, of: 4))
        #expect(try await client.zone.revision() == 4)
    }

    @Test(arguments: [
        "355-1b60e08c", "355-1b60e08c5d2e91aa", "0-1b60e08c",
    ]) func `a state is its text`(text: String) { #expect(StateTag(text)?.text == text) }

    @Test(arguments: [
        "", "355", "355-", "-1b60e08c", "355-1b60e08c5d", "355-1b60e08c-5d2e91aa", "x-1b60e08c", "-1-1b60e08c",
    ]) func `rule 21: another text is no state`(text: String) { #expect(StateTag(text) == nil) }

    @Test(arguments: ["\"356@355-1b60e08c5d2e91aa\"", "\"1@2@355-1b60e08c\"", "\"@355-1b60e08c\"", "355-1b60e08c"])
    func `rule 21: a record is not seen before its revision, nor without a state`(text: String) {
        #expect(RecordTag(entityTag: text) == nil)
    }
}
