import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 24: edits below the horizon are judged by the author and time of each column's last value.
@Suite(.serialized) struct CompactedLogTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, done INTEGER);
        CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER);
        INSERT INTO note VALUES (1, 'milk', 0), (2, 'bread', 0);
        INSERT INTO other VALUES (1, 0);
        """

    /// A zone that keeps one revision.
    private static func zone(_ store: Store, _ policy: ConflictPolicy) async throws -> Zone {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        return try await Zone(store, schema, policies: ["note": policy], limits: limits, now: { 1_700_000_000_000 })
    }

    /// A change set that edits a note.
    private static func edit(_ id: Int, _ attributes: String, time: Int = 0) -> String {
        #"{"time":\#(1_600_000_000_000_000 + time),"#
            + #""note":{"update":[\#(id)],"attributes":{"\#(id)":{\#(attributes)}}}}"#
    }

    /// Makes revisions of other records, until the horizon is above all earlier ones.
    private static func moveOn(_ zone: Zone) async throws -> Int64 {
        for number in 1...3 {
            let set = #"{"other":{"update":[1],"attributes":{"1":{"n":\#(number)}}}}"#
            _ = try await zone.sync(at: zone.revision(), device: "other", set)
        }
        let revision = try await zone.revision()
        #expect(try await zone.column("SELECT horizon FROM tidemark_zone") == ["\(revision - 1)"])
        return revision
    }

    @Test(arguments: Store.all, [ConflictPolicy.lastWriter, .latest])
    func `B8: below the horizon, an overruled value goes to the last author of that column`(
        store: Store, policy: ConflictPolicy
    ) async throws {
        let zone = try await Self.zone(store, policy)
        _ = try await zone.sync(at: 1, device: "a", Self.edit(1, #""text":"of a""#, time: 2_000))
        _ = try await zone.sync(at: 2, device: "b", Self.edit(1, #""done":1"#, time: 9_000))
        let revision = try await Self.moveOn(zone)
        // Later than a's text, and earlier than b's edit of another column.
        let answer = try await zone.sync(
            at: revision, device: "c", Self.edit(1, #""revision":1,"text":"of c""#, time: 5_000))
        #expect(answer.changeSets.map(\.isConflict) == [false])
        #expect(try await zone.column("SELECT text FROM note WHERE id = 1") == ["of c"])
        #expect(try await zone.column("SELECT device FROM tidemark_overruled") == ["a"])
    }

    @Test(arguments: Store.all)
    func `B8: below the horizon, a change set's overruled values are reported to its author`(store: Store) async throws
    {
        let zone = try await Self.zone(store, .latest)
        _ = try await zone.sync(at: 1, device: "a", Self.edit(1, #""text":"of a""#, time: 5_000))
        let id = "6f6d3a4e-0000-4000-8000-000000000001"
        let edit = Self.edit(1, #""text":"of b""#, time: 2_000)
        _ = try await zone.sync(at: 1, device: "b", #"{"id":"\#(id)","# + String(edit.dropFirst()))
        _ = try await Self.moveOn(zone)
        let answer = try await zone.sync(#"{"maxRevision":1,"device":"b","recall":["\#(id)"]}"#)
        let records = answer.changeSets.first?.object["overruled"] as? [[String: Any]]
        let overruled = records?.first?["lost"] as? [String: Any]
        #expect(overruled?["text"] as? String == "of b")
    }

    @Test(arguments: Store.all)
    func `rule 1: below the horizon, a column counts as changed for a base before its last value`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, .columns)
        for set in [
            Self.edit(1, #""text":"first""#), Self.edit(1, #""text":"second""#), Self.edit(1, #""done":1"#),
            #"{"note":{"delete":[2]}}"#,
        ] { _ = try await zone.sync(at: zone.revision(), device: "a", set) }
        // Another program restores it.
        try await zone.writeOutside("INSERT INTO note VALUES (2, 'again', 0)")
        _ = try await zone.sync(at: 5)
        _ = try await zone.sync(at: 6, device: "a", Self.edit(2, #""done":1"#))
        var revision = try await Self.moveOn(zone)
        var conflicts: [Bool?] = []
        for (id, base) in [(1, 2), (1, 3), (2, 5), (2, 6)] {
            let text = #""revision":\#(base),"text":"\#(base)""#
            let answer = try await zone.sync(at: revision, device: "c", Self.edit(id, text))
            conflicts.append(answer.changeSets.last?.isConflict)
            revision = try await zone.revision()
        }
        #expect(conflicts == [true, false, true, false])
        #expect(try await zone.column("SELECT text FROM note ORDER BY id") == ["3", "6"])
    }

    /// A device sends a long outbox in parts, and the log is shorter than the parts.
    @Test(arguments: Store.all)
    func `a device is in conflict with its own earlier edits, which compaction has merged`(store: Store) async throws {
        let zone = try await Self.zone(store, .columns)
        _ = try await zone.sync(at: 1, device: "a", Self.edit(1, #""text":"seen""#))
        let revision = try await zone.revision()
        var after: [String] = []
        var conflicts: [Bool?] = []
        for (number, device) in [(1, "b"), (2, "b"), (3, "b"), (4, "c"), (5, "b")] {
            let id = "6f6d3a4e-0000-4000-8000-00000000000\(number)"
            let list = device == "b" ? after.map { "\"\($0)\"" }.joined(separator: ",") : ""
            let edit = Self.edit(1, #""revision":\#(revision),"text":"\#(number)""#, time: number)
            let set = #"{"id":"\#(id)","after":[\#(list)],"# + String(edit.dropFirst())
            let answer = try await zone.sync(at: zone.revision(), device: device, set)
            conflicts.append(answer.changeSets.last?.isConflict)
            if device == "b" { after = [id] }
            _ = try await Self.moveOn(zone)
        }
        #expect(conflicts == [false, false, false, true, false])
        // Another device's edit between them, which b has not seen.
        _ = try await zone.sync(at: zone.revision(), device: "c", Self.edit(1, #""text":"of c""#))
        let set = Self.edit(1, #""revision":\#(revision),"text":"6""#)
        _ = try await zone.sync(at: zone.revision(), device: "c", Self.edit(1, #""text":"of c again""#))
        _ = try await Self.moveOn(zone)
        let last = #"{"id":"6f6d3a4e-0000-4000-8000-000000000006","after":["\#(after[0])"],"# + String(set.dropFirst())
        let answer = try await zone.sync(at: zone.revision(), device: "b", last)
        #expect(answer.changeSets.last?.isConflict == true)
    }
}
