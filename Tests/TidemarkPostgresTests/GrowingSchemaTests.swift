import Foundation
import StoreTestSupport
import Testing
import Tidemark
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Rule 38: a node starts with a schema that has more than the database.
@Suite(.serialized) struct GrowingSchemaTests {
    private static let first = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT CHECK (name <> ''));
        INSERT INTO team (name) VALUES ('Kiel');
        """
    private static let second = """
        CREATE TABLE team (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL DEFAULT 'nowhere' CHECK (town <> ''),
            rank INTEGER UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT CHECK (name <> ''), friend_id INTEGER REFERENCES player ON DELETE SET NULL);
        CREATE INDEX player_friend ON player (friend_id);
        CREATE TABLE medal (
            id INTEGER PRIMARY KEY, player_id INTEGER NOT NULL REFERENCES player ON DELETE CASCADE, kind TEXT);
        CREATE TABLE kind (name TEXT PRIMARY KEY);
        INSERT INTO kind VALUES ('gold'), ('silver');
        """

    @Test func `C3: new columns and tables of the schema file are created and reported`() async throws {
        let cluster = try await PostgresCluster(schema: Self.first)
        let anna = try await cluster.device("anna")
        let node = try await cluster.node { $0.schemaSQL = Self.second }
        #expect(
            node.additions == [
                "table kind", "table medal", "column team.town", "column team.rank", "column player.friend_id",
            ]
        )
        let ben = try await cluster.device("ben")
        #expect(try await ben.rows("SELECT name FROM kind ORDER BY 1") == ["gold", "silver"])
        #expect(try await ben.rows("SELECT town FROM team") == ["nowhere"])
        try await ben.write(
            """
            INSERT INTO player (team_id, name) VALUES (1, 'Eva');
            INSERT INTO medal (player_id, kind) SELECT id, 'gold' FROM player
            """
        )
        try await anna.write("INSERT INTO player (team_id, name) VALUES (1, 'Kim')")
        try await cluster.settle([anna, ben])
        #expect(try await cluster.rows("SELECT name FROM player ORDER BY 1") == ["Eva", "Kim"])
        try await cluster.converge(ben)
        // The constraints exist, under their declared names.
        try await ben.write("UPDATE team SET rank = 1")
        try await ben.engine.sync()
        await #expect(throws: (any Error).self) {
            try await cluster.psql("INSERT INTO team (id, name, rank) VALUES (9, 'Ulm', 1)")
        }
        let bad = #"{"maxRevision":5,"changeSets":[{"team":{"update":[1],"attributes":{"1":{"town":""}}}}]}"#
        let error = await #expect(throws: TidemarkError.self) {
            try await node.sync(zone: "main", body: Array(bad.utf8))
        }
        let message = error?.message ?? ""
        #expect(message.contains("town <> ''"), "\(message)")
        // The second start has nothing to do.
        let again = try await cluster.node { $0.schemaSQL = Self.second }
        #expect(again.additions == [])
        await again.close()
        await node.close()
        await cluster.close()
    }

    @Test func `of four nodes started at once with a new schema, one creates the tables`() async throws {
        let cluster = try await PostgresCluster(schema: Self.first)
        let nodes = try await withThrowingTaskGroup(of: PostgresStore.self) { group in
            for _ in 0..<4 { group.addTask { try await cluster.node { $0.schemaSQL = Self.second } } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(nodes.filter { !$0.additions.isEmpty }.count == 1)
        for node in nodes { await node.close() }
        await cluster.close()
    }

    @Test(arguments: [
        ("CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL)", "table player"),
        ("CREATE TABLE team (id INTEGER PRIMARY KEY);" + player, "column team.name"),
        (
            "CREATE TABLE team (id INTEGER PRIMARY KEY, name INTEGER NOT NULL);" + player,
            "team.name is TEXT in the database and INTEGER in the schema"
        ),
        (
            "CREATE TABLE team (id TEXT PRIMARY KEY, name TEXT NOT NULL);"
                + player.replacingOccurrences(of: "team_id INTEGER", with: "team_id TEXT"),
            "the key of team is INTEGER (id) in the database and (id) in the schema"
        ),
        (
            "CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL);" + player,
            "team.town is NOT NULL without a default"
        ),
        (
            "CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);" + player,
            "team has other unique columns"
        ),
    ]) func `a schema that does not fit the tables gives one error with both and changes nothing`(
        schema: String, words: String
    ) async throws {
        let cluster = try await PostgresCluster(schema: Self.first)
        let error = await #expect(throws: TidemarkError.self) {
            try await cluster.node { $0.schemaSQL = schema + ";CREATE TABLE new (id INTEGER PRIMARY KEY)" }
        }
        #expect(error?.code == .schemaMismatch)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect(try await cluster.rows("SELECT to_regclass('new')") == [""])
        await cluster.close()
    }

    private static let player = """
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT CHECK (name <> ''))
        """

    @Test func `tables altered while no node ran are accepted by the next node`() async throws {
        let cluster = try await PostgresCluster(schema: Self.first)
        let anna = try await cluster.device("anna")
        await cluster.close()
        try await cluster.psql("ALTER TABLE team ADD COLUMN town text DEFAULT 'here'; UPDATE team SET town = 'Kiel'")
        let node = try await cluster.node { _ in }
        #expect(node.schema.byName["team"]?.columns.map(\.name) == ["id", "name", "town"])
        #expect(node.schema.byName["team"]?.sql.contains("INTEGER PRIMARY KEY") == true)
        try await anna.engine.sync()
        #expect(try await cluster.store.latest(zone: "main").revision == 2)
        await node.close()
    }

    @Test func `a second node on unaltered tables changes nothing`() async throws {
        let cluster = try await PostgresCluster(schema: Self.second)
        let before = try await cluster.rows("SELECT tables, catalogue, version FROM tidemark.served")
        for _ in 0..<2 {
            let node = try await cluster.node { $0.schemaSQL = Self.second }
            await node.close()
        }
        try await cluster.psql("ANALYZE; TRUNCATE medal; CREATE INDEX ON medal (kind)")
        _ = try await cluster.store.digest(zone: "main")
        #expect(try await cluster.rows("SELECT tables, catalogue, version FROM tidemark.served") == before)
        await cluster.close()
    }
}
