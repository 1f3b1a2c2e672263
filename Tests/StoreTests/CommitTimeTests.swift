import StoreTestSupport
import Testing
import TidemarkCore

/// B4: a client asks for what changed since a time, by the server's clock and not by a device's.
@Suite(.serialized) struct CommitTimeTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES (1, 'milk'), (2, 'bread');
        """

    private static func edit(_ id: Int, _ text: String) -> String {
        #"{"time":1600000000000000,"note":{"update":[\#(id)],"attributes":{"\#(id)":{"text":"\#(text)"}}}}"#
    }

    private static func request(at revision: Int64, _ set: String) -> String {
        #"{"maxRevision":\#(revision),"changeSets":[\#(set)]}"#
    }

    @Test(arguments: Store.all)
    func `B4: a device sent old edits and the server's clock went back; the times of revisions never fall`(store: Store)
        async throws
    {
        let clock = TestClock()
        let zone = try await Zone(store, Self.schema, now: { clock.now })
        let start = clock.now
        _ = try await zone.sync(at: 1, Self.edit(1, "a"))
        clock.advance(days: 1)
        _ = try await zone.together([
            Self.request(at: 1, Self.edit(2, "b")), Self.request(at: 2, #"{"note":{"create":[-1]}}"#),
        ])
        clock.advance(days: 1)
        try await zone.writeOutside("UPDATE note SET text = 'c' WHERE id = 1")
        try await zone.service.look(zone: "main")
        clock.advance(days: -2)
        _ = try await zone.sync(at: 5, Self.edit(1, "d"))

        let day = Int64(86_400_000)
        let times = [start, start + day, start + day, start + 2 * day, start + 2 * day]
        let committed = try await zone.column("SELECT committed FROM tidemark_revision ORDER BY revision")
        #expect(committed == times.map(String.init))
        let cases: [(before: Int64, revision: Int64)] = [
            (0, 0), (start, 1), (start + 1, 2), (start + day, 2), (start + day + 1, 4), (start + 2 * day, 4),
            (start + 2 * day + 1, 6),
        ]
        for (before, revision) in cases {
            #expect(try await zone.lastRevision(committedBefore: before) == revision, "before \(before - start)")
        }
    }

    @Test(arguments: Store.all)
    func `B4: the log was compacted; a time of a compacted revision still finds it`(store: Store) async throws {
        let clock = TestClock()
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(store, Self.schema, limits: limits, now: { clock.now })
        let start = clock.now
        for revision in 1...5 {
            _ = try await zone.sync(at: Int64(revision), Self.edit(1, "\(revision)"))
            clock.advance(days: 1)
        }
        #expect(try await zone.column("SELECT horizon FROM tidemark_zone") == ["5"])
        #expect(try await zone.lastRevision(committedBefore: start + 1) == 2)
        #expect(try await zone.lastRevision(committedBefore: start + 2 * 86_400_000) == 3)
    }
}
