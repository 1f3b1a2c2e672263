import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 11: resolutions of a part of a refused change set, and the information for them.
@Suite struct ResolvePartTests {
    private static let schema = """
        CREATE TABLE clubs (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE teams (
            id INTEGER PRIMARY KEY, club_id INTEGER REFERENCES clubs, name TEXT);
        CREATE TABLE players (
            id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES teams ON DELETE CASCADE, name TEXT);
        """
    private static let seed = """
        INSERT INTO clubs (name) VALUES ('THW'), ('SG');
        INSERT INTO teams (club_id, name) VALUES (2, 'Kiel'), (2, 'Ulm');
        INSERT INTO players (team_id, name) VALUES (1, 'Anna'), (1, 'Ben'), (2, 'Carla')
        """

    /// Anna did `first` and synced; Ben did `second` in one transaction, which was parked.
    private static func collided(_ first: String, _ second: String) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice, conflict: Conflict
    ) {
        let cluster = try Cluster(schema: schema, seed: seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(first)
        try await ben.write(second)
        try await anna.engine.sync()
        try await ben.engine.sync()
        return (cluster, anna, ben, try #require(try await ben.engine.conflicts().first))
    }

    /// Accepts the server's version of the named records, and retries the others.
    private static func leaving(_ names: (table: String, key: String)...) -> Resolution {
        .merge(names.map { MergedRecord(table: $0.table, key: $0.key, columns: nil) })
    }

    @Test func `a conflict lists each reference to a deleted record once, by table, key and column`() async throws {
        let (_, _, _, conflict) = try await Self.collided(
            "UPDATE teams SET club_id = 1", "DELETE FROM clubs WHERE id = 1")
        #expect(conflict.reasons.map(\.rule) == ["referenced"])
        #expect(conflict.reasons.map(\.key) == ["1"])
        let referrers = try #require(conflict.referrers.first)
        #expect(conflict.referrers.count == 1)
        #expect(referrers.table == "teams" && referrers.columns == ["club_id"])
        #expect(referrers.keys == ["1", "2"])
        #expect(referrers.parent == "clubs" && referrers.parentKey == "1")
    }

    @Test func `accepting one record and retrying the others is possible`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "UPDATE players SET name = 'Anne' WHERE id = 1", "UPDATE players SET name = name || '!'")
        try await ben.engine.resolve(conflict.id, with: Self.leaving(("players", "1")))
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT name FROM players ORDER BY id") == ["Anne", "Ben!", "Carla!"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `a new record is not retried without the new record that it refers to`() async throws {
        let (_, _, ben, conflict) = try await Self.collided(
            "UPDATE players SET name = 'Anne' WHERE id = 1",
            """
            INSERT INTO teams (name) VALUES ('Lemgo');
            INSERT INTO players (team_id, name) SELECT id, 'Dora' FROM teams WHERE name = 'Lemgo';
            UPDATE players SET name = 'Anja' WHERE id = 1
            """
        )
        let keys = conflict.records.filter { $0.operation == "create" }.map(\.key)
        let player = try #require(conflict.records.first { $0.table == "players" && $0.operation == "create" })
        let team = try #require(conflict.records.first { $0.table == "teams" })
        #expect(keys.count == 2)
        let error = await #expect(throws: TidemarkError.self) {
            try await ben.engine.resolve(conflict.id, with: Self.leaving(("teams", team.key)))
        }
        #expect(error?.message.contains("players \(player.key) refers to teams \(team.key)") == true)
        #expect(try await ben.engine.conflicts().count == 1)
        // Leaving out both is valid.
        try await ben.engine.resolve(conflict.id, with: Self.leaving(("teams", team.key), ("players", player.key)))
        #expect(try await ben.rows("SELECT name FROM players WHERE id = 1") == ["Anja"])
        #expect(try await ben.rows("SELECT count(*) FROM teams") == ["2"])
    }

    @Test func `a record cannot be left out of a retry that deletes its parent`() async throws {
        let (_, _, ben, conflict) = try await Self.collided(
            "UPDATE players SET name = 'Anne' WHERE id = 1", "DELETE FROM teams WHERE id = 1")
        let error = await #expect(throws: TidemarkError.self) {
            try await ben.engine.resolve(conflict.id, with: Self.leaving(("players", "1")))
        }
        #expect(error?.message.contains("players 1 refers to teams 1") == true)
        #expect(try await ben.rows("SELECT count(*) FROM players") == ["3"])
    }

    @Test func `a conflict lists records that a retry would recreate, and can leave them out`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "DELETE FROM players WHERE id = 2", "UPDATE players SET name = name || '!'")
        let recreated = try await ben.engine.madeAnew(byRetrying: "\(conflict.number)")
        #expect(recreated.map(\.key) == ["2"])
        await #expect(throws: TidemarkError.self) { _ = try await ben.engine.madeAnew(byRetrying: "99") }
        try await ben.engine.resolve(conflict.id, with: Self.leaving(("players", "2")))
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT name FROM players ORDER BY id") == ["Anna!", "Carla!"])
    }

    @Test func `only change sets with a verdict count as sent`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO clubs (name) VALUES ('gone')")
        try await anna.write("DELETE FROM clubs WHERE name = 'gone'")
        #expect(try await anna.events { try await anna.engine.sync() }.isEmpty)
        try await anna.write("UPDATE clubs SET name = 'THW Kiel' WHERE id = 1")
        try await ben.write("UPDATE clubs SET name = 'Kiel' WHERE id = 1")
        for device in [anna, ben] {
            let events = try await device.events { try await device.engine.sync() }
            #expect(events.first == .sent(changeSets: 1), "\(events)")
        }
    }
}
