import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkTestSupport

/// Rule 35: a conditional GET with a tag gets the answer of the full request, or the demand for
/// one.
@Suite struct NewsTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO notes VALUES (1, 'first');
        """

    private static func edit(_ text: String, _ number: Int) -> String {
        let id = "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))"
        return #"{"id":"\#(id)","notes":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}"#
    }

    /// A zone in which device `a` has committed a number of revisions after the first, each with a
    /// fingerprint.
    private static func zone(
        _ store: Store, edits: Int, policies: [String: ConflictPolicy] = [:], limits: Limits = .standard
    ) async throws -> Zone {
        let zone = try await Zone(store, schema, policies: policies, limits: limits)
        _ = try await Self.state(of: zone, at: 1)
        for number in 1...max(1, edits) {
            _ = try await zone.sync(at: Int64(number), device: "a", edit("\(number)", number))
        }
        return zone
    }

    /// The state of a device at a revision; the zone has to exist.
    private struct State {
        var epoch: String
        var schema: String
        var revision: Int64
        var fingerprint: Fingerprint

        var tag: ZoneTag { ZoneTag(epoch: epoch, schema: schema, revision: revision, fingerprint: fingerprint) }

        /// The same state as a full request.
        func request(_ device: String, _ members: String = "") -> String {
            #"{"maxRevision":\#(revision),"device":"\#(device)","epoch":"\#(epoch)","#
                + #""schema":"\#(schema)","settled":true,"fingerprint":"\#(fingerprint)"\#(members)}"#
        }
    }

    private static func state(of zone: Zone, at revision: Int64) async throws -> State {
        let answer = try await zone.sync(#"{"maxRevision":\#(revision)}"#)
        let print = try #require(answer.object["fingerprint"] as? String)
        return State(
            epoch: try #require(answer.epoch), schema: try #require(answer.object["schema"] as? String),
            revision: Int64(try #require(answer.maxRevision)), fingerprint: try #require(Fingerprint(hex: print)))
    }

    @Test(arguments: Store.all) func `the conditional GET returns the same bytes as the full request`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, edits: 1)
        var states = [try await Self.state(of: zone, at: 2)]
        for number in 2...12 {
            _ = try await zone.sync(at: Int64(number), device: "a", Self.edit("x\(number)", number))
            states.append(try await Self.state(of: zone, at: Int64(number + 1)))
        }
        let last = try #require(states.last)
        let before = try await zone.content()
        for state in states.reversed() {
            let news = try await zone.service.news(zone: "main", device: "b", since: state.tag)
            let full = try await zone.bytes(state.request("b"))
            #expect(news == (state.revision == 13 ? .nothing : .answer(full, last.tag)))
        }
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all) func `D2: a commit made a moment ago is in the answer, whichever device wrote it`(
        store: Store
    )
        async throws
    {
        let zone = try await Self.zone(store, edits: 1)
        for number in 2...6 {
            let state = try await Self.state(of: zone, at: try await zone.revision())
            #expect(try await zone.service.news(zone: "main", device: "b", since: state.tag) == .nothing)
            if number.isMultiple(of: 2) {
                _ = try await zone.sync(at: state.revision, device: "a", Self.edit("\(number)", number))
            } else {
                try await zone.writeOutside("UPDATE notes SET text = 'psql \(number)'")
            }
            let news = try await zone.service.news(zone: "main", device: "b", since: state.tag)
            #expect(news != .nothing)
            if let news {
                let full = try await zone.bytes(state.request("b"))
                let end = try await Self.state(of: zone, at: state.revision + 1)
                #expect(news == .answer(full, end.tag))
            }
        }
    }

    @Test(arguments: Store.all) func `rules 14, 17: another epoch, schema, revision or fingerprint never gets a 304`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store, edits: 3)
        let right = try await Self.state(of: zone, at: 4)
        var wrong = Array(repeating: right, count: 6)
        wrong[0].epoch = "00000000-0000-4000-8000-000000000000"
        wrong[1].schema = String(right.schema.reversed())
        wrong[2].fingerprint.low &+= 1
        wrong[3].fingerprint.high ^= 1 << 63
        wrong[4].revision = 5
        wrong[5].revision = 3
        for state in wrong {
            let news = try await zone.service.news(zone: "main", device: "b", since: state.tag)
            #expect(news == nil)
        }
        // Another revision with the right remaining parts is no match either.
        for revision: Int64 in [0, 3, 5, .max] {
            let tag = ZoneTag(revision: revision, hash: right.tag.hash)
            #expect(try await zone.service.news(zone: "main", device: "b", since: tag) == nil)
        }
        #expect(try await zone.service.news(zone: "main", device: "b", since: right.tag) == .nothing)
    }

    @Test(arguments: Store.all) func `C3: after an ALTER TABLE a moment ago the answer is no 304`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, edits: 2)
        let state = try await Self.state(of: zone, at: 3)
        try await zone.writeOutside("ALTER TABLE notes ADD COLUMN colour TEXT")
        #expect(try await zone.service.news(zone: "main", device: "b", since: state.tag) == nil)
        let now = try await Self.state(of: zone, at: 3)
        #expect(now.schema != state.schema)
        #expect(try await zone.service.news(zone: "main", device: "b", since: state.tag) == nil)
        #expect(try await zone.service.news(zone: "main", device: "b", since: now.tag) == .nothing)
    }

    @Test(arguments: Store.all)
    func `B8: a device with an unreported overruled value gets no 304 until it has the value`(store: Store) async throws
    {
        let zone = try await Self.zone(store, edits: 1, policies: ["notes": .lastWriter])
        _ = try await zone.sync(at: 1, device: "b", Self.edit("mine", 90))
        let state = try await Self.state(of: zone, at: 3)
        #expect(try await zone.service.news(zone: "main", device: "a", since: state.tag) == nil)
        #expect(try await zone.service.news(zone: "main", device: "c", since: state.tag) == .nothing)
        let answer = try await zone.sync(state.request("a"))
        #expect((answer.object["overruled"] as? [Any])?.count == 1)
        #expect(try await zone.service.news(zone: "main", device: "a", since: state.tag) == nil)
        _ = try await zone.sync(state.request("a", #","overruled":1"#))
        #expect(try await zone.service.news(zone: "main", device: "a", since: state.tag) == .nothing)
    }

    @Test(arguments: Store.all) func `case 33: a copy that lacks its own revision is told so by the full request`(
        store: Store
    )
        async throws
    {
        let zone = try await Self.zone(store, edits: 1)
        let state = try await Self.state(of: zone, at: 2)
        _ = try await zone.sync(at: 2, device: "a", Self.edit("later", 7))
        #expect(try await zone.service.news(zone: "main", device: "a", since: state.tag) == nil)
        #expect(try await zone.refusal(of: state.request("a"))?.code == .identityInUse)
        let other = try await zone.service.news(zone: "main", device: "b", since: state.tag)
        #expect(other != nil && other != .nothing)
    }

    @Test(arguments: Store.all) func `a device far behind, or below the horizon, has to send the full request`(
        store: Store
    ) async throws {
        var limits = Limits.standard
        limits.revisionsPerAnswerMax = 4
        limits.revisionsKept = 8
        limits.compactionStepMin = 1
        limits.compactionStepMax = 100
        let zone = try await Self.zone(store, edits: 1, limits: limits)
        var states = [try await Self.state(of: zone, at: 2)]
        for number in 2...14 {
            _ = try await zone.sync(at: Int64(number), device: "a", Self.edit("x\(number)", number))
            states.append(try await Self.state(of: zone, at: Int64(number + 1)))
        }
        for state in states {
            let news = try await zone.service.news(zone: "main", device: "b", since: state.tag)
            #expect((news == nil) == (state.revision < 11), "\(state.revision)")
        }
    }

    @Test(arguments: Store.all) func `a request for an unknown zone gets the unknown-zone error`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, edits: 1)
        let state = try await Self.state(of: zone, at: 2)
        let error = await #expect(throws: TidemarkError.self) {
            try await zone.service.news(zone: "other", device: "b", since: state.tag)
        }
        #expect(error?.code == .unknownZone)
    }
}
