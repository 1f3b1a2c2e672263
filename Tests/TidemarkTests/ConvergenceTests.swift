import GRDB
import Testing
import TidemarkTestSupport

@Suite struct ConvergenceTests {
    @Test func `A3 A4: a plain insert on one device is the same record on all devices`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE players (id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES teams, name TEXT)
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(
            """
            INSERT INTO teams (name) VALUES ('Kiel');
            INSERT INTO players (team_id, name) VALUES (last_insert_rowid(), 'Anna')
            """
        )
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT p.id, t.id, t.name, p.name FROM players p JOIN teams t ON t.id = p.team_id") == [
                "1|1|Kiel|Anna"
            ])
    }

    @Test func `A3: a plain insert draws a temporary id, also with a separate unique index`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT, parent_id INTEGER);
                CREATE UNIQUE INDEX teams_name ON teams (name);
                CREATE UNIQUE INDEX teams_root ON teams (name COLLATE NOCASE) WHERE parent_id IS NULL
                """,
            seed: "INSERT INTO teams (name) VALUES ('Kiel')"
        )
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO teams (name) VALUES ('Bonn')")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id, name FROM teams ORDER BY id") == ["1|Kiel", "2|Bonn"])
    }
}
