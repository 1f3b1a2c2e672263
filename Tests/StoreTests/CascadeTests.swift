import StoreTestSupport
import Testing
import TidemarkCore

/// Deletions that cascade to children, against concurrent edits of those children.
@Suite(.serialized) struct CascadeTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team ON DELETE CASCADE, name TEXT);
        CREATE TABLE goal (
            id INTEGER PRIMARY KEY, player_id INTEGER REFERENCES player ON DELETE CASCADE);
        INSERT INTO team VALUES (1, 'Kiel');
        INSERT INTO player VALUES (1, 1, 'Anna');
        """

    private static let deletion = #"{"team":{"delete":[1]}}"#

    @Test(arguments: Store.all) func `A6 A7 A8: deleting a team with a player unseen by the author is a conflict`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":1,"name":"Eva"}}}}"#)
        let answer = try await zone.bytes(#"{"maxRevision":1,"changeSets":[\#(Self.deletion)]}"#)
        let text = String(decoding: answer, as: UTF8.self)
        #expect(text.contains(#""table":"player","key":2"#), "\(text)")
        #expect(try await zone.column("SELECT name FROM player ORDER BY id") == ["Anna", "Eva"])
        #expect(try await zone.column("SELECT name FROM team") == ["Kiel"])
    }

    @Test(arguments: Store.all) func `A6: a later goal two levels below a team is a conflict with the team's deletion`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let goal = #"{"goal":{"create":[-1],"attributes":{"-1":{"player_id":1}}}}"#
        _ = try await zone.sync(at: 1, goal)
        _ = try await zone.sync(at: 1, Self.deletion)
        #expect(try await zone.column("SELECT count(*) FROM goal") == ["1"])
        _ = try await zone.sync(at: 2, Self.deletion)
        #expect(try await zone.column("SELECT count(*) FROM goal") == ["0"])
        #expect(try await zone.column("SELECT count(*) FROM team") == ["0"])
    }

    @Test(arguments: Store.all) func `a child that the change set itself moves or names does not count as unseen`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(
            at: 1,
            #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Lemgo"}}}}"#,
            #"""
            {"team":{"delete":[1]},
             "player":{"update":[1],"attributes":{"1":{"team_id":2}}}}
            """#
        )
        #expect(try await zone.column("SELECT name FROM player") == ["Anna"])
        #expect(try await zone.column("SELECT name FROM team") == ["Lemgo"])
    }

    @Test(arguments: Store.all) func `A6: a base above the device's own revision counts as that revision`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, #"{"team":{"update":[1],"attributes":{"1":{"name":"THW Kiel"}}}}"#)
        _ = try await zone.sync(
            at: 1, #"{"team":{"update":[1],"attributes":{"1":{"name":"Flensburg","revision":99}}}}"#)
        #expect(try await zone.column("SELECT name FROM team") == ["THW Kiel"])
    }

    @Test(arguments: Store.all) func `A8: the conflict of a record named by its temporary id contains the record's row`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(
            at: 1, device: "a", #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":1,"name":"Eva"}}}}"#)
        try await zone.writeOutside("UPDATE player SET name = 'Evi' WHERE id = 2")
        // The device has not received the id yet, nor the other change.
        let answer = try await zone.sync(
            at: 1, device: "a", #"{"player":{"update":[-1],"attributes":{"-1":{"revision":1,"name":"Eve"}}}}"#)
        let truth = try #require(answer.changeSets.last)
        #expect(truth.isConflict == true && truth.ids("update", "player") == [2])
        #expect(truth.attributes("player", "2")?["name"] as? String == "Evi")
    }

    @Test(arguments: Store.all)
    func `A8: the conflict of a refused creation contains no id that the server may still assign`(store: Store)
        async throws
    {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE club (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE member (id INTEGER PRIMARY KEY, club_id INTEGER NOT NULL REFERENCES club, name TEXT);
            INSERT INTO club VALUES (1, 'left'), (2, 'gone');
            """
        )
        _ = try await zone.sync(at: 1, device: "a", #"{"club":{"delete":[2]}}"#)
        let creation = #"{"member":{"create":[-1],"attributes":{"-1":{"club_id":2,"name":"Eva"}}}}"#
        let answer = try await zone.sync(at: 1, device: "b", creation)
        let truth = try #require(answer.changeSets.last)
        #expect(truth.rules == ["parentDeleted"])
        #expect(truth.reasons.first?["key"] as? Int == -1)
        #expect(truth.ids("delete", "member") == [-1])
    }

    @Test(arguments: Store.all) func `rule 18: rows that reference swapped values follow them`(store: Store)
        async throws
    {
        let zone = try await Zone(
            store,
            """
            CREATE TABLE code (id INTEGER PRIMARY KEY, word TEXT UNIQUE);
            CREATE TABLE use (id INTEGER PRIMARY KEY, word TEXT REFERENCES code (word) ON UPDATE CASCADE);
            INSERT INTO code VALUES (1, 'a'), (2, 'b');
            INSERT INTO use VALUES (1, 'a'), (2, 'b');
            """
        )
        let swap = #"{"code":{"update":[1,2],"attributes":{"1":{"word":"b"},"2":{"word":"a"}}}}"#
        let answer = try await zone.sync(at: 1, device: "a", swap)
        #expect(answer.changeSets.last?.isConflict == false)
        #expect(try await zone.column("SELECT word FROM use ORDER BY id") == ["b", "a"])
    }
}
