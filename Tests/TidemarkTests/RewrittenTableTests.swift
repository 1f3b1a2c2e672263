import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Programs that delete all rows of a table and insert them again keep their rows single.
@Suite struct RewrittenTableTests {
    private static let schema = """
        CREATE TABLE stats (id INTEGER PRIMARY KEY, name TEXT, n INTEGER);
        CREATE TABLE word (name TEXT PRIMARY KEY, n INTEGER);
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team);
        CREATE TABLE tagged (id INTEGER PRIMARY KEY, kind TEXT, object_id TEXT);
        """
    private static let seed = """
        INSERT INTO stats (name, n) VALUES ('Anna', 3), ('Ben', 4), ('Ben', 4);
        INSERT INTO word VALUES ('a', 1), ('b', 2);
        INSERT INTO team VALUES (1, 'Kiel');
        """
    private static let rewriting = """
        DELETE FROM stats; INSERT INTO stats (name, n) VALUES ('Anna', 3), ('Ben', 4), ('Ben', 4);
        DELETE FROM word; INSERT INTO word VALUES ('a', 1), ('b', 2)
        """

    private func pair() async throws -> (Cluster, TestDevice, TestDevice) {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    @Test func `rule 2: two devices rewrite a table whole; the rows stay single and keep their ids`() async throws {
        let (cluster, anna, ben) = try await pair()
        let revision = try await anna.engine.status().revision
        for device in [anna, ben] {
            try device.writeOutside(Self.rewriting)
            try device.writeOutside(Self.rewriting)
        }
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT * FROM stats") == ["1|Anna|3", "2|Ben|4", "3|Ben|4"])
        #expect(try await anna.engine.status().revision == revision)
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `rule 2: a rewritten table sends its changed, new and removed rows only`() async throws {
        let (cluster, anna, ben) = try await pair()
        try anna.writeOutside(
            "DELETE FROM stats; INSERT INTO stats (name, n) VALUES ('Cleo', 1), ('Ben', 4), ('Anna', 5)")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name, n FROM stats ORDER BY name") == ["Anna|5", "Ben|4", "Cleo|1"])
        #expect(try await ben.rows("SELECT id FROM stats WHERE name = 'Ben'") == ["2"])
        let sent = try #require(anna.transport.faults.requests.last)
        #expect(!sent.contains("Ben"))
    }

    @Test(arguments: [
        "ALTER TABLE team ADD COLUMN town TEXT", "ALTER TABLE stats ADD COLUMN more TEXT DEFAULT 'none'",
        "CREATE INDEX word_n ON word (n)",
        "CREATE TABLE fresh (name TEXT PRIMARY KEY, n INTEGER); INSERT INTO fresh SELECT * FROM word;"
            + "DROP TABLE word; ALTER TABLE fresh RENAME TO word",
    ]) func `rule 2: two devices rewrite a table whole before their apps' migration; the rows stay single`(
        migration: String
    ) async throws {
        let (cluster, anna, ben) = try await pair()
        for device in [anna, ben] {
            try device.writeOutside(Self.rewriting)
            try device.writeOutside(migration)
        }
        for device in [anna, ben] { try await device.engine.sync() }
        for device in [anna, ben] { try await device.engine.sync() }
        #expect(try await cluster.rows("SELECT id, name, n FROM stats") == ["1|Anna|3", "2|Ben|4", "3|Ben|4"])
        for device in [anna, ben] {
            #expect(try await device.rows("SELECT id, name, n FROM stats") == ["1|Anna|3", "2|Ben|4", "3|Ben|4"])
            #expect(try await device.engine.conflicts().isEmpty)
        }
    }

    @Test func `rule 2: a table rewritten before the rename of its column stays single`() async throws {
        let (cluster, anna, ben) = try await pair()
        try anna.writeOutside(Self.rewriting)
        try anna.writeOutside("ALTER TABLE stats RENAME COLUMN n TO count")
        let later = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: anna.transport, renames: ["stats.n": "stats.count"]
        )
        try await later.sync()
        try await cluster.converge(ben)
        #expect(try await cluster.rows("SELECT * FROM stats") == ["1|Anna|3", "2|Ben|4", "3|Ben|4"])
        #expect(try await anna.rows("SELECT id, name, count FROM stats") == ["1|Anna|3", "2|Ben|4", "3|Ben|4"])
    }

    @Test func `rule 7: a row to which a table of the app alone refers keeps its new id`() async throws {
        let (cluster, anna, _) = try await pair()
        try anna.writeOutside(Self.rewriting)
        try anna.writeOutside(
            """
            ALTER TABLE team ADD COLUMN town TEXT;
            CREATE TABLE pin (stats_id INTEGER REFERENCES stats); INSERT INTO pin SELECT max(id) FROM stats;
            """
        )
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT name FROM pin JOIN stats ON stats.id = stats_id") == ["Ben"])
        #expect(try await cluster.rows("SELECT count(*) FROM stats") == ["3"])
    }

    @Test func `rule 7: a rewritten row to which something refers keeps its new id`() async throws {
        let (cluster, anna, ben) = try await pair()
        try anna.writeOutside(
            """
            DELETE FROM stats; INSERT INTO stats (name, n) VALUES ('Anna', 3);
            INSERT INTO tagged (kind, object_id) SELECT 'stats', id FROM stats;
            DELETE FROM team; INSERT INTO team (name) VALUES ('Kiel');
            INSERT INTO player (team_id) SELECT id FROM team
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT team.id > 1, name FROM player JOIN team ON team.id = team_id") == ["1|Kiel"])
        #expect(try await ben.rows("SELECT name FROM stats WHERE id > 3") == ["Anna"])
    }

    @Test func `rule 10: a waiting edit of a rewritten row is sent with the row's id`() async throws {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("UPDATE stats SET n = 30 WHERE name = 'Anna'")
        try anna.writeOutside(
            "DELETE FROM stats; INSERT INTO stats (name, n) VALUES ('Anna', 30), ('Ben', 4), ('Ben', 4)")
        try anna.writeOutside("UPDATE stats SET n = 31 WHERE name = 'Anna'")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name, n FROM stats ORDER BY name") == ["Anna|31", "Ben|4", "Ben|4"])
    }

    @Test func `rule 2: a table rewritten between an app's edits of the same rows stays single`() async throws {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("UPDATE stats SET n = 30 WHERE name = 'Anna'")
        try anna.writeOutside(
            "DELETE FROM stats; INSERT INTO stats (name, n) VALUES ('Ben', 4), ('Anna', 30), ('Ben', 4)")
        try await anna.write("UPDATE stats SET n = 31 WHERE name = 'Anna'")
        try await anna.write("UPDATE team SET name = 'Plön'")
        try anna.writeOutside(
            "DELETE FROM stats; INSERT INTO stats (name, n) VALUES ('Ben', 4), ('Ben', 4), ('Anna', 31)")
        try await anna.write("UPDATE stats SET n = 32 WHERE name = 'Anna'")
        try ben.writeOutside(Self.rewriting)
        try await cluster.converge(anna, ben)
        for device in [anna, ben] {
            #expect(try await device.rows("SELECT * FROM stats") == ["1|Anna|32", "2|Ben|4", "3|Ben|4"])
            #expect(try await device.engine.conflicts().isEmpty)
        }
        #expect(try await cluster.rows("SELECT name FROM team") == ["Plön"])
    }

    @Test func `rule 1: a row that somebody deleted stays away when an app edits after a table was rewritten`()
        async throws
    {
        let (cluster, anna, ben) = try await pair()
        try await ben.write("DELETE FROM stats WHERE name = 'Anna'")
        try await ben.engine.sync()
        try anna.writeOutside(Self.rewriting)
        try await anna.write("INSERT INTO stats (name, n) VALUES ('Cleo', 5)")
        try await anna.write("UPDATE stats SET n = 5 WHERE id = (SELECT max(id) FROM stats WHERE name = 'Ben')")
        try await cluster.converge(anna, ben)
        for device in [anna, ben] {
            let rows = try await device.rows("SELECT name, n FROM stats ORDER BY name, n")
            #expect(rows == ["Ben|4", "Ben|5", "Cleo|5"])
            #expect(try await device.engine.conflicts().isEmpty)
        }
    }
}
