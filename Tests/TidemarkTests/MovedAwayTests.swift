import Testing
import TidemarkCore
import TidemarkTestSupport

/// Rule 1: a deletion cascades only to rows that its author saw.
@Suite struct MovedAwayTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, name TEXT,
            team_id INTEGER REFERENCES team ON DELETE CASCADE);
        CREATE TABLE contract (
            player_id INTEGER PRIMARY KEY REFERENCES player ON DELETE CASCADE, terms TEXT);
        CREATE TABLE country (code TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE city (
            id INTEGER PRIMARY KEY, name TEXT, code TEXT REFERENCES country ON DELETE CASCADE);
        """
    private static let seed = """
        INSERT INTO team VALUES (1, 'Kiel'), (2, 'Lemgo');
        INSERT INTO player VALUES (1, 'Anna', 1), (2, 'Ben', 1);
        INSERT INTO country VALUES ('DD', 'East'), ('DE', 'All');
        INSERT INTO city VALUES (1, 'Jena', 'DD');
        """

    @Test(arguments: [
        // The move is in a change set with an edit that conflicts.
        (
            "UPDATE team SET name = 'a' WHERE id = 2; UPDATE player SET team_id = 2 WHERE id = 1",
            "DELETE FROM team WHERE id = 1; INSERT INTO contract VALUES (1, 'new')",
            "UPDATE team SET name = 'b' WHERE id = 2"
        ),
        (
            "UPDATE country SET name = 'a' WHERE code = 'DE'; UPDATE city SET code = 'DE'",
            "DELETE FROM country WHERE code = 'DD'", "UPDATE country SET name = 'b' WHERE code = 'DE'"
        ),
        // The rows of the cascade were deleted before, by the refused change set.
        (
            "UPDATE team SET name = 'a' WHERE id = 2; DELETE FROM player", "DELETE FROM team WHERE id = 1",
            "UPDATE team SET name = 'b' WHERE id = 2"
        ),
        (
            "UPDATE country SET name = 'a' WHERE code = 'DE'; DELETE FROM city",
            "DELETE FROM country WHERE code = 'DD'", "UPDATE country SET name = 'b' WHERE code = 'DE'"
        ),
    ]) func `a child that was moved away or deleted first survives the refusal of that`(
        move: String, deletion: String, other: String
    ) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(move)
        try await anna.write(deletion)
        try await ben.write(other)
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        let rules = try await anna.engine.conflicts().map(\.reasons.first?.rule)
        #expect(rules == ["changed", "predecessor"])
        #expect(
            try await cluster.rows("SELECT name FROM player UNION ALL SELECT name FROM city") == [
                "Anna", "Ben", "Jena",
            ]
        )
    }

    @Test func `a new child that the same change set would cascade to is not lost unseen`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        // No device sends this: its own tables would have cascaded to the row.
        let request = #"""
            {"maxRevision":1,"changeSets":[
             {"team":{"delete":[1]},
              "player":{"create":[-5],"attributes":{"-5":{"name":"Carla","team_id":1}}}},
             {"team":{"delete":[1]},
              "player":{"update":[1],"attributes":{"1":{"name":"Anna II"}}}}]}
            """#
        let answer = try await cluster.service.sync(zone: "main", body: Array(request.utf8))
        #expect(String(decoding: answer, as: UTF8.self).contains(#""rule":"parentDeleted""#))
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT name FROM player") == ["Anna", "Ben"])
    }
}
