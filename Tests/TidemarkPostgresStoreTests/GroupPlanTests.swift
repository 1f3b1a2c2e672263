import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgresStore

/// Requests in one group, where their order matters: answered together as one after another.
@Suite(.serialized) struct GroupPlanTests {
    private static let schema =
        PostgresZone.schema + """
            INSERT INTO team VALUES (1, 'Kiel', 1), (2, 'Ulm', 2);
            INSERT INTO player (id, team_id, name) VALUES (1, 1, 'Anna'), (2, 2, 'Ben');
            INSERT INTO tag VALUES ('old', 'grey');
            """

    private static func store() async throws -> (TestDatabase, PostgresStore) {
        let database = try await TestDatabase()
        var options = PostgresStore.Options(
            address: database.address,
            newEpoch: try #require(UUID(uuidString: "6f6d3a4e-0000-4000-8000-00000000e0c4"))
        )
        (options.schemaSQL, options.now) = (schema, { 1_700_000_000_000 })
        return (database, try await PostgresStore(options))
    }

    /// A request of a device with one change set.
    private static func request(_ number: Int, _ changeSet: String, at revision: Int = 1) -> [UInt8]
    {
        let id = "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))"
        let body = changeSet.dropFirst()
        return Array(
            #"{"maxRevision":\#(revision),"device":"\#(number)","changeSets":[{"id":"\#(id)",\#(body)]}"#
                .utf8
        )
    }

    /// What was answered; both ways of asking have to say the same.
    @discardableResult
    private func answers(to bodies: [[UInt8]], besides sql: String? = nil) async throws -> [String]
    {
        let (first, together) = try await Self.store()
        let (second, alone) = try await Self.store()
        if let sql {
            for database in [first, second] { try await database.connect().execute(sql) }
        }
        let group = try await together.sync(zone: "main", together: bodies).map(Self.text)
        var single: [String] = []
        for body in bodies {
            single += try await alone.sync(zone: "main", together: [body]).map(Self.text)
        }
        #expect(group == single)
        #expect(try await together.digest(zone: "main") == alone.digest(zone: "main"))
        await together.close()
        await alone.close()
        return group
    }

    private static func text(_ result: Result<[UInt8], any Error>) -> String {
        switch result {
        case .success(let bytes): String(decoding: bytes, as: UTF8.self)
        case .failure(let error): (error as? TidemarkError)?.code.rawValue ?? "\(error)"
        }
    }

    @Test
    func `rule 2: a child that comes before its parent in the group is refused, as it is alone`()
        async throws
    {
        let answers = try await answers(to: [
            Self.request(1, #"{"player_tag":{"create":[[1,"new"]]}}"#),
            Self.request(2, #"{"tag":{"create":["new"]}}"#),
            Self.request(3, #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":3}}}}"#),
            Self.request(4, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Lemgo"}}}}"#),
        ])
        #expect(answers[0] == "brokenReference" && answers[2] == "brokenReference")
        #expect(answers[1].contains(#""revision":2"#) && answers[3].contains(#""revision":3"#))
    }

    @Test
    func `rule 1: two devices change one record in one group, and the second learns of the first`()
        async throws
    {
        let answers = try await answers(to: [
            Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"name":"one"}}}}"#),
            Self.request(2, #"{"team":{"update":[1],"attributes":{"1":{"rank":7}}}}"#),
            Self.request(3, #"{"team":{"update":[1],"attributes":{"1":{"name":"three"}}}}"#),
            Self.request(4, #"{"team":{"update":[2],"attributes":{"2":{"name":"four"}}}}"#),
        ])
        #expect(answers[1].contains(#""name":"one""#))
        #expect(answers[2].contains(#""conflict":true"#))
        #expect(answers[3].contains(#""conflict":false"#))
    }

    @Test func `unique values that change hands within a group do so in its order`() async throws {
        let answers = try await answers(to: [
            Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"rank":2}}}}"#),
            Self.request(2, #"{"team":{"update":[2],"attributes":{"2":{"rank":9}}}}"#),
            Self.request(3, #"{"team":{"update":[1],"attributes":{"1":{"rank":8}}}}"#),
            Self.request(4, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"x","rank":1}}}}"#),
        ])
        #expect(answers[0].contains("unique"))
        #expect(answers[3].contains(#""conflict":false"#))
    }

    @Test func `a deletion takes along what an earlier one of the group has made`() async throws {
        let answers = try await answers(to: [
            Self.request(1, #"{"player":{"create":[-1],"attributes":{"-1":{"team_id":1}}}}"#),
            Self.request(2, #"{"team":{"delete":[1]}}"#),
            Self.request(3, #"{"tag":{"delete":["old"]}}"#),
        ])
        #expect(answers[1].contains(#""conflict":true"#))
        #expect(answers[2].contains(#""delete":["old"]"#))
    }

    @Test func `what the app's own trigger writes belongs to the change set that caused it`()
        async throws
    {
        let answers = try await answers(
            to: [
                Self.request(1, #"{"tag":{"create":["red"]}}"#),
                Self.request(2, #"{"team":{"update":[1],"attributes":{"1":{"name":"mine"}}}}"#),
                Self.request(3, #"{"tag":{"create":["blue"]}}"#),
            ],
            besides: """
                CREATE FUNCTION count_tags() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN UPDATE public.team SET rank = rank + 100 WHERE id = 1; RETURN NULL; END $$;
                CREATE TRIGGER count_tags AFTER INSERT ON tag FOR EACH ROW EXECUTE FUNCTION count_tags()
                """
        )
        #expect(answers[0].contains(#""rank":101"#))
        #expect(answers[2].contains(#""rank":201"#))
    }

    @Test(arguments: ["a_touch", "z_touch"])
    func `an edit is not lost when a trigger that runs before or after ours notes it in the row`(
        name: String
    ) async throws {
        let answers = try await answers(
            to: [
                Self.request(1, #"{"team":{"update":[1],"attributes":{"1":{"name":"mine"}}}}"#),
                Self.request(2, #"{"tag":{"create":["red"]}}"#),
            ],
            besides: """
                CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN UPDATE public.team SET rank = rank + 100 WHERE id = NEW.id; RETURN NULL; END $$;
                CREATE TRIGGER \(name) AFTER UPDATE OF name ON team FOR EACH ROW EXECUTE FUNCTION touch()
                """
        )
        #expect(answers[0].contains(#""name":"mine""#) && answers[0].contains(#""rank":101"#))
    }

    @Test func `each change set of a device builds on those before it in its request`() async throws
    {
        let id = { (number: Int) in "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }
        let sets = [
            #"{"id":"\#(id(1))","team":{"create":[-1],"attributes":{"-1":{"name":"new"}}}}"#,
            #"{"id":"\#(id(2))","after":"\#(id(1))","player":{"create":[-1],"attributes":{"-1":{"team_id":-1}}}}"#,
            #"{"id":"\#(id(3))","after":"\#(id(2))","team":{"update":[-1],"attributes":{"-1":{"name":"newer"}}}}"#,
            #"{"id":"\#(id(4))","after":["\#(id(3))","\#(id(1))"],"tag":{"create":["t"]}}"#,
        ]
        let body = #"{"maxRevision":1,"device":"d","changeSets":[\#(sets.joined(separator: ","))]}"#
        let answers = try await answers(to: [
            Self.request(8, #"{"tag":{"create":["a"]}}"#), Array(body.utf8),
            Self.request(9, #"{"tag":{"create":["b"]}}"#),
        ])
        #expect(answers[2].contains(#""maxRevision":7"#))
        #expect(!answers[1].contains(#""conflict":true"#))
    }
}
