import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 31: requests in one group whose order matters: grouped writes give the result of serial
/// execution.
///
/// An app trigger disables grouped writes. So a zone with a trigger that has no effect gives the
/// expected answers of serial execution.
@Suite(.serialized) struct GroupPlanTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rank INTEGER UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT DEFAULT 'nobody', score REAL DEFAULT 0.5 CHECK (score >= 0));
        CREATE INDEX player_team ON player (team_id);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour TEXT);
        CREATE TABLE player_tag (
            player_id INTEGER NOT NULL REFERENCES player ON DELETE CASCADE,
            tag TEXT NOT NULL REFERENCES tag, note TEXT, PRIMARY KEY (player_id, tag));
        INSERT INTO team VALUES (1, 'Kiel', 1), (2, 'Ulm', 2);
        INSERT INTO player (id, team_id, name) VALUES (1, 1, 'Anna'), (2, 2, 'Ben');
        INSERT INTO tag VALUES ('old', 'grey');
        """

    private static let idle = [
        Store.embedded: "CREATE TRIGGER idle AFTER DELETE ON tag WHEN 0 BEGIN SELECT 1; END",
        .postgres: """
        CREATE FUNCTION idle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
        CREATE TRIGGER idle AFTER DELETE ON tag FOR EACH ROW EXECUTE FUNCTION idle()
        """,
    ]

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    /// A request of a device with change sets that have no `id` yet.
    private static func request(_ number: Int, _ sets: String..., at revision: Int = 1, echo: String = "all") -> String
    {
        let sets = sets.enumerated().map { index, set in #"{"id":"\#(id(number * 100 + index))",\#(set.dropFirst())"# }
        return #"{"maxRevision":\#(revision),"device":"\#(number)","echo":"\#(echo)","#
            + #""changeSets":[\#(sets.joined(separator: ","))]}"#
    }

    private static func zone(_ store: Store) async throws -> Zone {
        try await Zone(store, schema, epoch: UUID(uuidString: id(0)) ?? UUID(), now: { 1_700_000_000_000 })
    }

    private static func text(_ result: Result<[UInt8], any Error>) -> String {
        switch result {
        case .success(let bytes): String(decoding: bytes, as: UTF8.self)
        case .failure(let error): (error as? TidemarkError)?.code.rawValue ?? "\(error)"
        }
    }

    /// Returns the answers.
    ///
    /// A group, single requests and serial change sets must give equal answers and equal rows.
    @discardableResult private func answers(_ store: Store, to bodies: [String], besides sql: [Store: String] = [:])
        async throws -> [String]
    {
        let together = try await Self.zone(store)
        let alone = try await Self.zone(store)
        let inTurn = try await Self.zone(store)
        // A sequence of PostgreSQL skips the ids of a refused request.
        for zone in [together, alone, inTurn] { try await zone.database?.dropIdentities() }
        if let sql = sql[store] { for zone in [together, alone, inTurn] { try await zone.writeOutside(sql) } }
        try await inTurn.writeOutside(#require(Self.idle[store]))
        let group = try await together.together(bodies).map(Self.text)
        var single = [String]()
        var slow = [String]()
        for body in bodies {
            single += try await alone.together([body]).map(Self.text)
            slow += try await inTurn.together([body]).map(Self.text)
        }
        #expect(group == single)
        // The trigger that excludes planning is part of the zone's schema.
        let schema = /"schema":"[0-9a-f]+",/
        #expect(group.map { $0.replacing(schema, with: "") } == slow.map { $0.replacing(schema, with: "") })
        let content = try await together.content()
        #expect(try await content == alone.content())
        #expect(try await content == inTurn.content())
        return group
    }

    @Test(arguments: Store.all)
    func `rule 2: a child before its parent in a group is refused, as in serial execution`(store: Store)
        async throws
    {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"player_tag":{"create":[[1,"new"]]}}"#),
                Self.request(2, #"{"tag":{"create":["new"]}}"#),
                Self.request(3, #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":3}}}}"#),
                Self.request(4, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Lemgo"}}}}"#),
            ]
        )
        #expect(answers[0] == "brokenReference" && answers[2] == "brokenReference")
        #expect(answers[1].contains(#""revision":2"#) && answers[3].contains(#""revision":3"#))
    }

    @Test(arguments: Store.all) func `A3: a guess at an id that the group assigns later does not reach the new record`(
        store: Store
    ) async throws {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Lemgo"}}}}"#),
                Self.request(2, #"{"team":{"update":[3],"attributes":{"3":{"name":"mine"}}}}"#),
                Self.request(3, #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":4}}}}"#),
                Self.request(4, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Jena"}}}}"#),
            ]
        )
        #expect(answers[1].contains(#""conflict":true"#))
        #expect(answers[2] == "brokenReference")
    }

    @Test(arguments: Store.all)
    func `rule 1: of two devices that change one record in a group, the second gets the first's`(store: Store)
        async throws
    {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"name":"one"}}}}"#),
                Self.request(2, #"{"team":{"update":[1],"attributes":{"1":{"rank":7}}}}"#),
                Self.request(3, #"{"team":{"update":[1],"attributes":{"1":{"name":"three"}}}}"#),
                Self.request(4, #"{"team":{"update":[2],"attributes":{"2":{"name":"four"}}}}"#),
            ]
        )
        #expect(answers[1].contains(#""name":"one""#))
        #expect(answers[2].contains(#""conflict":true"#))
        #expect(answers[3].contains(#""conflict":false"#))
    }

    @Test(arguments: Store.all) func `unique values that move between records of a group are judged in order`(
        store: Store
    )
        async throws
    {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"rank":2}}}}"#),
                Self.request(2, #"{"team":{"update":[2],"attributes":{"2":{"rank":9}}}}"#),
                Self.request(3, #"{"team":{"update":[1],"attributes":{"1":{"rank":8}}}}"#),
                Self.request(4, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"x","rank":1}}}}"#),
            ]
        )
        #expect(answers[0].contains("unique"))
        #expect(answers[3].contains(#""conflict":false"#))
    }

    @Test(arguments: Store.all) func `a unique value freed in a group can be claimed later in the group, not earlier`(
        store: Store
    ) async throws {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"rank":10}}}}"#),
                Self.request(2, #"{"team":{"update":[2],"attributes":{"2":{"rank":1}}}}"#),
                // Two values at once in one change set.
                Self.request(3, #"{"team":{"update":[1,2],"attributes":{"1":{"rank":1},"2":{"rank":10}}}}"#, at: 3),
                Self.request(4, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"x","rank":2}}}}"#),
            ]
        )
        #expect(answers[1].contains(#""conflict":false"#))
        #expect(answers[3].contains(#""conflict":false"#))
    }

    @Test(arguments: Store.all) func `a deletion cascades to records that an earlier request of the group created`(
        store: Store
    )
        async throws
    {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":1}}}}"#),
                Self.request(2, #"{"team":{"delete":[1]}}"#), Self.request(3, #"{"tag":{"delete":["old"]}}"#),
            ]
        )
        #expect(answers[1].contains(#""conflict":true"#))
        #expect(answers[2].contains(#""delete":["old"]"#))
    }

    @Test(arguments: Store.all) func `writes of the app's own trigger belong to the change set that caused them`(
        store: Store
    ) async throws {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"tag":{"create":["red"]}}"#),
                Self.request(2, #"{"team":{"update":[1],"attributes":{"1":{"name":"mine"}}}}"#),
                Self.request(3, #"{"tag":{"create":["blue"]}}"#),
            ],
            besides: [
                .embedded: """
                CREATE TRIGGER count_tags AFTER INSERT ON tag BEGIN
                    UPDATE team SET rank = rank + 100 WHERE id = 1; END
                """,
                .postgres: """
                CREATE FUNCTION count_tags() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN UPDATE public.team SET rank = rank + 100 WHERE id = 1; RETURN NULL; END $$;
                CREATE TRIGGER count_tags AFTER INSERT ON tag FOR EACH ROW EXECUTE FUNCTION count_tags()
                """,
            ]
        )
        #expect(answers[0].contains(#""rank":101"#))
        #expect(answers[2].contains(#""rank":201"#))
    }

    @Test(arguments: Store.all, ["a_touch", "z_touch"])
    func `an edit survives an app trigger that writes the same row before or after capture`(store: Store, name: String)
        async throws
    {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"name":"mine"}}}}"#),
                Self.request(2, #"{"tag":{"create":["red"]}}"#),
            ],
            besides: [
                .embedded: """
                CREATE TRIGGER \(name) AFTER UPDATE OF name ON team BEGIN
                    UPDATE team SET rank = rank + 100 WHERE id = NEW.id; END
                """,
                .postgres: """
                CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN UPDATE public.team SET rank = rank + 100 WHERE id = NEW.id; RETURN NULL; END $$;
                CREATE TRIGGER \(name) AFTER UPDATE OF name ON team FOR EACH ROW EXECUTE FUNCTION touch()
                """,
            ]
        )
        #expect(answers[0].contains(#""name":"mine""#) && answers[0].contains(#""rank":101"#))
    }

    @Test(arguments: Store.all) func `each change set of a request builds on the earlier ones`(store: Store)
        async throws
    {
        let sets = [
            #"{"id":"\#(Self.id(1))","team":{"create":[-1],"attributes":{"-1":{"name":"new"}}}}"#,
            #"{"id":"\#(Self.id(2))","after":"\#(Self.id(1))","player":{"create":[-1],"attributes":{"-1":{"team_id":-1}}}}"#,
            #"{"id":"\#(Self.id(3))","after":"\#(Self.id(2))","team":{"update":[-1],"attributes":{"-1":{"name":"newer"}}}}"#,
            #"{"id":"\#(Self.id(4))","after":["\#(Self.id(3))","\#(Self.id(1))"],"tag":{"create":["t"]}}"#,
            #"{"id":"\#(Self.id(5))","player_tag":{"create":[[-1,"t"]],"attributes":{"[-1,\"t\"]":{"note":"n"}}}}"#,
            #"{"id":"\#(Self.id(6))","player_tag":{"delete":[[-1,"t"]]},"player":{"update":[-1],"attributes":{"-1":{"name":"c"}}}}"#,
        ]
        let body = #"{"maxRevision":1,"device":"d","changeSets":[\#(sets.joined(separator: ","))]}"#
        let answers = try await answers(
            store,
            to: [Self.request(8, #"{"tag":{"create":["a"]}}"#), body, Self.request(9, #"{"tag":{"create":["b"]}}"#)])
        #expect(answers[2].contains(#""maxRevision":9"#))
        #expect(!answers[1].contains(#""conflict":true"#))
    }

    @Test(arguments: Store.all) func `with echo ids, a device gets only the ids of rows stored as sent`(store: Store)
        async throws
    {
        let whole = #"{"player":{"create":[-1],"attributes":{"-1":"# + #"{"team_id":1,"name":"whole","score":0.25}}}}"#
        let part = #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":1}}}}"#
        let note = #"{"player":{"update":[1],"attributes":{"1":{"name":"Anna"}}}}"#
        let answers = try await answers(
            store,
            to: [
                Self.request(1, whole, echo: "ids"),
                // These records get a default, which makes no difference.
                Self.request(2, part, at: 1, echo: "ids"), Self.request(3, whole, note, echo: "ids"),
            ]
        )
        #expect(answers[0].contains(#""echo":"ids""#) && !answers[0].contains("whole"))
        #expect(answers[1].contains("nobody"))
    }

    @Test(arguments: Store.all) func `rule 3: a change set committed alone or in a group is not committed again`(
        store: Store
    ) async throws {
        let first = Self.request(1, #"{"tag":{"create":["a"]}}"#)
        let copy = first.replacing(#""device":"1""#, with: #""device":"2""#)
        let other = first.replacing(#""a""#, with: #""b""#)
        let answers = try await answers(
            store,
            to: [
                first, copy, Self.request(3, #"{"tag":{"create":["c"]}}"#), first, other,
                Self.request(4, #"{"after":"\#(Self.id(999))","tag":{"create":["d"]}}"#),
            ]
        )
        #expect(answers[4] == "changeSetIdReused" && answers[5] == "predecessorMissing")
    }

    @Test(arguments: Store.all) func `a value that no column accepts fails only its own request`(store: Store)
        async throws
    {
        let answers = try await answers(
            store,
            to: [
                Self.request(1, #"{"tag":{"create":["a"]}}"#),
                Self.request(
                    2, #"{"tag":{"create":["b"]}}"#,
                    #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":1,"score":-1}}}}"#),
                Self.request(3, #"{"team":{"create":[-1],"attributes":{"-1":{"rank":5}}}}"#),
                Self.request(4, #"{"tag":{"create":["b"]}}"#),
            ]
        )
        #expect(answers[1] == "constraintViolated" && answers[2] == "constraintViolated")
        #expect(answers[3].contains(#""conflict":false"#))
    }
}
