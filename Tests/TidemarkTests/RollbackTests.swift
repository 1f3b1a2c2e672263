import Testing
import Tidemark
import TidemarkTestSupport

/// Change sets over several tables commit whole or not at all, on the server and on the device.
@Suite struct RollbackTests {
    private static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE players (id INTEGER PRIMARY KEY,
            team_id INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE, name TEXT);
        CREATE INDEX players_team ON players (team_id);
        CREATE TABLE goals (id INTEGER PRIMARY KEY,
            player_id INTEGER NOT NULL REFERENCES players ON DELETE CASCADE, minute INTEGER);
        CREATE INDEX goals_player ON goals (player_id);
        """
    private static let seed = """
        INSERT INTO teams (name) VALUES ('Kiel'), ('Bonn');
        INSERT INTO players (team_id, name) VALUES (1, 'Anna'), (1, 'Carla'), (2, 'Dora');
        INSERT INTO goals (player_id, minute) VALUES (1, 12), (2, 77)
        """

    private static func offlinePair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    @Test func `A7, rule 2: one record in conflict rolls back both tables`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("UPDATE teams SET name = 'Kiel II' WHERE id = 1")
        try await ben.write(
            """
            UPDATE teams SET name = 'Kiel III' WHERE id = 1;
            UPDATE players SET name = 'Annika' WHERE id = 1;
            INSERT INTO players (team_id, name) VALUES (2, 'Emma');
            DELETE FROM goals WHERE id = 2
            """
        )
        let before = try await cluster.store.state().revision
        try await cluster.converge(anna, ben)
        #expect(try await cluster.store.state().revision == before + 1)
        #expect(try await ben.rows("SELECT name FROM teams ORDER BY id") == ["Kiel II", "Bonn"])
        #expect(try await ben.rows("SELECT name FROM players ORDER BY id") == ["Anna", "Carla", "Dora"])
        #expect(try await ben.rows("SELECT id FROM goals") == ["1", "2"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(
            conflict.records.map { "\($0.operation) \($0.table)" } == [
                "update teams", "update players", "create players", "delete goals",
            ]
        )
    }

    @Test func `A8: a refused deletion restores the team and its players`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("UPDATE teams SET name = 'Kiel II' WHERE id = 1")
        try await ben.write("DELETE FROM teams WHERE id = 1")
        #expect(try await ben.rows("SELECT name FROM players") == ["Dora"])
        #expect(try await ben.rows("SELECT id FROM goals") == [])
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM teams ORDER BY id") == ["Kiel II", "Bonn"])
        #expect(try await ben.rows("SELECT name FROM players ORDER BY id") == ["Anna", "Carla", "Dora"])
        #expect(try await ben.rows("SELECT minute FROM goals ORDER BY id") == ["12", "77"])
        #expect(try await ben.engine.conflicts().count == 1)
    }

    @Test func `A8: an edit two levels below a deleted team refuses the deletion`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("UPDATE goals SET minute = 13 WHERE id = 1")
        try await ben.write("DELETE FROM teams WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM players ORDER BY id") == ["Anna", "Carla", "Dora"])
        #expect(try await ben.rows("SELECT minute FROM goals ORDER BY id") == ["13", "77"])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.table) == ["goals"])
    }

    @Test func `rule 1: a cascade does not delete a player that its author never saw`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        try await ben.write("DELETE FROM teams WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT name FROM players ORDER BY id") == ["Anna", "Carla", "Dora", "Emma"])
        #expect(try await ben.rows("SELECT minute FROM goals ORDER BY id") == ["12", "77"])
        #expect(try await ben.engine.conflicts().count == 1)
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `rule 7: a player of a team deleted meanwhile is parked`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("DELETE FROM teams WHERE id = 1")
        try await ben.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM players") == ["Dora"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["parentDeleted"])
        #expect(conflict.records.first?.mine == #"{"team_id":1,"name":"Emma"}"#)
        for device in [anna, ben] { #expect(try await device.rows("PRAGMA foreign_key_check") == []) }
    }

    @Test func `rule 9: a request that breaks a CHECK changes nothing and names the place`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE scores (id INTEGER PRIMARY KEY, points INTEGER CHECK (points < 100))")
        let anna = try await cluster.device("anna")
        // Another program may ignore CHECK constraints; the server does not.
        try anna.writeOutside(
            """
            INSERT INTO scores (points) VALUES (5);
            PRAGMA ignore_check_constraints = ON;
            INSERT INTO scores (points) VALUES (500)
            """
        )
        try await anna.write("INSERT INTO scores (points) VALUES (7)")
        try await cluster.converge(anna)
        // The app's transaction is a change set of its own.
        #expect(try await cluster.rows("SELECT points FROM scores") == ["7"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.first?.rule == "constraintViolated")
        #expect(conflict.reasons.first?.table == "scores")
        #expect(conflict.records.count == 2)
    }
}
