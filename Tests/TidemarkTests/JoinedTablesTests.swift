import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkSQL
import TidemarkTestSupport

/// A served file can be joined, because the server tries a join before it serves a file for the first time.
@Suite struct JoinedTablesTests {
    @Test(arguments: [
        """
        CREATE TABLE a (k TEXT NOT NULL, j TEXT NOT NULL); CREATE UNIQUE INDEX ak ON a (k, j);
        CREATE TABLE b (k TEXT NOT NULL, j TEXT NOT NULL, FOREIGN KEY (k, j) REFERENCES a (k, j));
        CREATE UNIQUE INDEX bk ON b (k, j);
        """,
        """
        CREATE TABLE a (id INTEGER PRIMARY KEY, k TEXT NOT NULL, j TEXT); CREATE UNIQUE INDEX ak ON a (k);
        CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT REFERENCES a (k) ON DELETE CASCADE, j TEXT);
        """,
        """
        CREATE TABLE a (k TEXT NOT NULL, j TEXT NOT NULL); CREATE UNIQUE INDEX ak ON a (k, j);
        CREATE TABLE b (
            id INTEGER PRIMARY KEY, k TEXT NOT NULL, j TEXT NOT NULL, FOREIGN KEY (k, j) REFERENCES a (k, j));
        """,
    ])
    func `a reference to columns that an index of their own makes unique: two devices join, edit and agree`(
        schema: String
    ) async throws {
        let cluster = try Cluster(
            schema: schema,
            seed: "INSERT INTO a (k, j) VALUES ('x', '1'), ('y', '2'); INSERT INTO b (k, j) VALUES ('x', '1')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO a (k, j) VALUES ('z', '3'); INSERT INTO b (k, j) VALUES ('z', '3')")
        try await ben.write("INSERT INTO b (k, j) VALUES ('y', '2'); DELETE FROM b WHERE k = 'x'")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT k FROM b ORDER BY k") == ["y", "z"])
        #expect(try await anna.rows("PRAGMA foreign_key_check") == [])
        // The file has the zone's indexes, and an ordinary copy of the zone has its tables, too.
        #expect(try await ben.rows("SELECT name FROM sqlite_master WHERE name = 'ak'") == ["ak"])
        let copy = cluster.folder.appending(path: "copy.sqlite").path
        let plain = try await DeviceFileJoin(transport: anna.transport, server: "http://cluster.test").copy(path: copy)
        #expect(plain.rows == 5)
    }

    @Test func `a table that stays at the server is in an ordinary copy, empty, whatever its columns`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
                CREATE TABLE lock (at TEXT DEFAULT (datetime('now')), pid REFERENCES gone (id));
                """,
            seed: "INSERT INTO note (text) VALUES ('a')",
            excluding: ["lock"]
        )
        let copy = cluster.folder.appending(path: "copy.sqlite").path
        let transport = InProcessTransport(to: cluster.service)
        let plain = try await DeviceFileJoin(transport: transport, server: "http://cluster.test").copy(path: copy)
        #expect(plain.rows == 1)
        #expect(try await DatabaseQueue(path: copy).read { try $0.textRows("SELECT * FROM lock") } == [])
    }

    @Test func `a trigger whose upsert needs a separate unique index is on the device, asleep`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE note (id INTEGER PRIMARY KEY, kind TEXT);
                CREATE TABLE total (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, count INTEGER);
                CREATE UNIQUE INDEX total_kind ON total (kind);
                CREATE TRIGGER counts AFTER INSERT ON note BEGIN
                    INSERT INTO total (kind, count) VALUES (NEW.kind, 1)
                    ON CONFLICT (kind) DO UPDATE SET count = count + 1; END;
                """
        )
        let anna = try await cluster.device("anna")
        #expect(try await anna.rows("SELECT * FROM tidemark_left_out") == [])
        try await anna.write("INSERT INTO note (kind) VALUES ('a'), ('a')")
        try await cluster.converge(anna)
        #expect(try await anna.rows("SELECT kind, count FROM total") == ["a|2"])
    }

    @Test(arguments: [
        "CREATE UNIQUE INDEX ak ON a (k) WHERE k <> ''", "CREATE UNIQUE INDEX ak ON a (k COLLATE NOCASE)",
        "CREATE UNIQUE INDEX A_k ON a (k) WHERE k <> ''",
    ])
    func `a reference by which SQLite finds no parent is refused when the file is served, with a cure that works`(
        index: String
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appending(path: "zone.sqlite").path
        let file = try DatabaseQueue(path: path)
        try await file.write {
            try $0.execute(
                sql: """
                    CREATE TABLE a (id INTEGER PRIMARY KEY, k TEXT); \(index);
                    CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT REFERENCES a (k));
                    """
            )
        }
        let refusal = try #require(throws: UnsyncableSchema.self) { try EmbeddedStore(path: path, newEpoch: UUID()) }
        let problem = try #require(refusal.problems.first)
        #expect(problem.table == "b" && problem.column == "k")
        #expect(problem.reason.contains("foreign key mismatch"))
        // A refusal changes nothing in the file, not even its journal mode.
        #expect(try await file.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "delete")
        try await file.write { try $0.execute(sql: problem.cure) }
        try await EmbeddedStore(path: path, newEpoch: UUID()).close()
        try file.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test func `the language of a phone stays on it: Android's own table is there, local and named`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE Android_Metadata (locale TEXT);
                CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
                """,
            seed: "INSERT INTO android_metadata VALUES ('en_GB')"
        )
        #expect(cluster.store.skippedTables == ["Android_Metadata"])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        for (device, language) in [(anna, "fr_FR"), (ben, "de_DE")] {
            try await device.write(
                """
                CREATE TABLE IF NOT EXISTS android_metadata (locale TEXT);
                DELETE FROM android_metadata; INSERT INTO android_metadata VALUES ('\(language)');
                INSERT INTO note (text) VALUES ('\(language)');
                """
            )
        }
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT locale FROM android_metadata") == ["de_DE"])
        #expect(try await cluster.rows("SELECT count(*) FROM note") == ["2"])
    }
}
