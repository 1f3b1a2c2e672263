import StoreTestSupport
import Testing
import TidemarkCore

/// Rules 1, 2 and 6: revisions are dense and in commit order, pages skip nothing, and no change set
/// overwrites unseen changes.
@Suite(.serialized) struct OrderTests {
    private static let schema = """
        CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, writer INTEGER, n INTEGER);
        INSERT INTO counters VALUES (1, 0);
        """

    /// Adds one to the counter until the server accepts it, with a note in the same change set.
    private static func increment(_ zone: Zone, writer: Int, count: Int) async throws {
        var revision = 1
        var commits = 0
        var temporary = 0
        while commits < count {
            let state = try await zone.sync(at: Int64(revision), device: "w\(writer)")
            revision = try #require(state.maxRevision)
            let n = try #require(Int(try await zone.column("SELECT n FROM counters")[0]))
            temporary -= 1
            let answer = try await zone.sync(
                at: Int64(revision),
                device: "w\(writer)",
                #"""
                {"counters":{"update":[1],"attributes":{"1":{"n":\#(n + 1)}}},
                 "notes":{"create":[\#(temporary)],
                 "attributes":{"\#(temporary)":{"writer":\#(writer),"n":\#(commits)}}}}
                """#
            )
            if answer.changeSets.last?.isConflict == false { commits += 1 }
        }
    }

    @Test(arguments: Store.all) func `A6 A7 Rule 6: eight writers on one counter lose no increment and leave no gap`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<8 { group.addTask { try await Self.increment(zone, writer: writer, count: 12) } }
            try await group.waitForAll()
        }
        // The counter was read after the revision, so only an edit of the latest value can be
        // accepted.
        #expect(try await zone.column("SELECT n FROM counters") == ["96"])
        #expect(try await zone.column("SELECT count(*) FROM notes") == ["96"])
        let revisions = try await zone.column("SELECT revision FROM tidemark_revision ORDER BY revision")
        #expect(revisions == (2...97).map(String.init))
        #expect(try await zone.revision() == 97)
        let noteCount = try await zone.column("SELECT count(DISTINCT writer || '-' || n) FROM notes")
        #expect(noteCount == ["96"])
    }

    @Test(arguments: Store.all, [1, 2, 3])
    func `A5 E2 Rule 6: pages of any size skip and repeat nothing during writes`(store: Store, limit: Int)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        for writer in 0..<10 { _ = try await zone.sync(at: 1, Self.note(writer)) }
        var revision: Int = 1
        var pageRevisions: [Int?] = []
        var isMore = true
        while isMore {
            if revision < 8 { _ = try await zone.sync(at: 1, Self.note(revision)) }
            let answer = try await zone.sync(#"{"maxRevision":\#(revision),"limit":\#(limit)}"#)
            #expect(answer.changeSets.count <= limit)
            pageRevisions += answer.revisions
            revision = try #require(answer.maxRevision)
            #expect(answer.revisions.last == revision)
            isMore = try #require(answer.more as Bool?)
        }
        #expect(pageRevisions == Array(2...revision))
        #expect(try await zone.revision() == Int64(revision))
        #expect(revision > 11)
    }

    private static func note(_ n: Int) -> String {
        #"{"notes":{"create":[-1],"attributes":{"-1":{"writer":0,"n":\#(n)}}}}"#
    }

    @Test(arguments: Store.all) func `A5: a device far behind gets its own change set in order, but conflicts at once`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await zone.writeOutside("UPDATE counters SET n = 5")
        for n in 0..<4 { _ = try await zone.sync(at: 1, Self.note(n)) }
        // Revision 2 is the outside edit, 3 to 6 are the notes.
        let request = { (revision: Int) in
            #"""
            {"maxRevision":\#(revision),"limit":2,"device":"late","changeSets":[
             {"id":"6f6d3a4e-0000-4000-8000-000000000001",
              "notes":{"create":[-7],"attributes":{"-7":{"writer":7,"n":7}}}},
             {"id":"6f6d3a4e-0000-4000-8000-000000000002",
              "counters":{"update":[1],"attributes":{"1":{"n":9,"revision":1}}}}]}
            """#
        }
        let first = try await zone.sync(request(1))
        #expect(first.revisions == [2, 3, nil])
        #expect(first.more == true)
        #expect(first.maxRevision == 3)
        let second = try await zone.sync(#"{"maxRevision":3,"limit":2,"device":"late"}"#)
        #expect(second.revisions == [4, 5])
        let third = try await zone.sync(#"{"maxRevision":5,"limit":2,"device":"late"}"#)
        #expect(third.revisions == [6, 7])
        #expect(third.more == false)
        let own = try #require(third.changeSets.last)
        #expect(own.id == "6f6d3a4e-0000-4000-8000-000000000001")
        #expect(own.attributes("notes", "5")?["__oldId__"] as? Int == -7)
    }

    @Test(arguments: Store.all)
    func `Rule 1: a base in the future counts as the current revision, not as later ones`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        for n in 1...3 { try await zone.writeOutside("UPDATE counters SET n = \(n)") }
        _ = try await zone.sync(at: 1)
        let answer = try await zone.sync(
            at: 1, #"{"counters":{"update":[1],"attributes":{"1":{"n":50,"revision":900}}}}"#)
        #expect(answer.changeSets.last?.isConflict == true)
        #expect(try await zone.column("SELECT n FROM counters") == ["3"])
    }

    @Test(arguments: Store.all) func `Rule 2 18: two records swap a unique value in one change set`(store: Store)
        async throws
    {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE seats (id INTEGER PRIMARY KEY, number INTEGER NOT NULL UNIQUE);
            INSERT INTO seats VALUES (1, 10), (2, 20), (3, 30);
            """
        )
        let swap = try await zone.sync(
            at: 1,
            #"""
            {"seats":{"update":[1,2],"attributes":{"1":{"number":20},"2":{"number":10}}}}
            """#
        )
        #expect(swap.changeSets.first?.isConflict == false)
        #expect(try await zone.column("SELECT number FROM seats ORDER BY id") == ["20", "10", "30"])
        // The conflict names the holder of the value.
        let answer = try await zone.sync(at: 2, #"{"seats":{"create":[-1],"attributes":{"-1":{"number":30}}}}"#)
        let set = try #require(answer.changeSets.first)
        #expect(set.rules == ["unique"])
        #expect(set.attributes("seats", "3")?["number"] as? Int == 30)
        #expect(set.ids("delete", "seats") == [-1])
        #expect(answer.maxRevision == 2)
    }

    @Test(arguments: Store.all) func `rule 18: a conflict lists the holders of unique values in order of their keys`(
        store: Store
    ) async throws {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE seats (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            INSERT INTO seats VALUES (1, 'z'), (2, 'y'), (10, 'x');
            """
        )
        let answer = try await zone.sync(
            at: 1,
            #"""
            {"seats":{"create":[-1,-2,-3],
             "attributes":{"-1":{"name":"x"},"-2":{"name":"y"},"-3":{"name":"z"}}}}
            """#
        )
        let reasons = answer.changeSets.first?.reasons ?? []
        #expect(reasons.compactMap { $0["key"] as? Int } == [1, 2, 10])
    }
}
