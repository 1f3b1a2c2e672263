import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A program saves an object once more that still has its temporary id after a sync.
@Suite struct ReinsertTests {
    private static let schema = """
        CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT UNIQUE, points INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE badge (id INTEGER PRIMARY KEY, player_id INTEGER REFERENCES player ON DELETE CASCADE, text TEXT);
        """
    private static let players = "SELECT id, name, points FROM player ORDER BY id"

    private struct Player: Codable, FetchableRecord, MutablePersistableRecord {
        static let databaseTableName = "player"
        var id: Int64?
        var name: String
        var points = 0

        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    /// A zone with two devices, and an object whose record has got a permanent id.
    private static func start() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice, player: Player) {
        let cluster = try Cluster(schema: schema, seed: "INSERT INTO player (name) VALUES ('first')")
        let anna = try await cluster.device("anna", limits: .withoutLending)
        let ben = try await cluster.device("ben")
        let player = try await anna.database.write { db in
            var player = Player(name: "Anna")
            try player.insert(db)
            try db.execute(sql: "INSERT INTO badge (player_id, text) VALUES (?, 'old')", arguments: [player.id])
            return player
        }
        try #require(TemporaryID.isTemporary(player.id ?? 0))
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben, player)
    }

    @Test func `GRDB saves an object twice after its sync: the record is updated, and no second one made`() async throws
    {
        let (cluster, anna, ben, player) = try await Self.start()
        for points in [5, 6] {
            try await anna.database.write { db in
                var player = player
                player.name = "Anna \(points)"
                player.points = points
                try player.save(db)
                try db.execute(
                    sql: "INSERT INTO badge (player_id, text) VALUES (?, ?)", arguments: [player.id, "badge \(points)"])
            }
        }
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.players) == ["1|first|0", "2|Anna 6|6"])
        #expect(
            try await ben.rows("SELECT player_id, text FROM badge ORDER BY text") == [
                "2|badge 5", "2|badge 6", "2|old",
            ]
        )
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await anna.rows("PRAGMA foreign_key_check") == [])
    }

    @Test func `another program inserts a row under the old id, with a unique value: the record takes its values`()
        async throws
    {
        let (cluster, anna, ben, player) = try await Self.start()
        let id = try #require(player.id)
        try await ben.write("UPDATE player SET points = 9 WHERE name = 'first'")
        try anna.writeOutside(
            """
            UPDATE player SET name = 'Anna B.' WHERE id = \(id);
            INSERT INTO player (id, name, points) VALUES (\(id), 'Anna B.', 7);
            INSERT INTO badge (player_id, text) VALUES (\(id), 'new');
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.players) == ["1|first|9", "2|Anna B.|7"])
        #expect(try await ben.rows("SELECT player_id, text FROM badge ORDER BY text") == ["2|new", "2|old"])
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try anna.lastSent.flatMap { $0 }.contains("update player 2 (name, points)"))
    }

    @Test func `the record was deleted meanwhile: the object becomes a new record`() async throws {
        let (cluster, anna, ben, player) = try await Self.start()
        try await ben.write("DELETE FROM player WHERE id = 2")
        try await cluster.converge(ben, anna)
        try await anna.database.write { db in
            var player = player
            try player.save(db)
        }
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT name, id > 2 FROM player ORDER BY id") == ["first|0", "Anna|1"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `a badge refers to the old id, and the player is inserted again later: nothing captured is left`()
        async throws
    {
        let (cluster, anna, ben, player) = try await Self.start()
        let id = try #require(player.id)
        // SQLite's shell does not enforce references.
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try await DatabaseQueue(path: anna.path, configuration: configuration).write { db in
            try db.execute(sql: "INSERT INTO badge (player_id, text) VALUES (?, 'new')", arguments: [id])
        }
        try await anna.engine.takeOutsideCommits()
        try anna.writeOutside("INSERT INTO player (id, name, points) VALUES (\(id), 'Anna 2', 7)")
        try await anna.engine.takeOutsideCommits()
        for table in ["tidemark_capture", "tidemark_capture_player", "tidemark_capture_badge"] {
            #expect(try await anna.rows("SELECT count(*) FROM \(table)") == ["0"], "\(table)")
        }
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT player_id, text FROM badge ORDER BY text") == ["2|new", "2|old"])
    }
}
