import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// An existing file becomes a zone without changes to its tables.
///
/// A refusal names all unsuitable parts at once, with the cure.
@Suite struct AdoptionTests {
    private static let schema = """
        CREATE TABLE artists (id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE);
        CREATE TABLE albums (
            id INTEGER PRIMARY KEY AUTOINCREMENT, -- a comment that stays
            artist_id INT NOT NULL REFERENCES artists(id) ON UPDATE CASCADE,
            "title of it" TEXT DEFAULT 'untitled' CHECK (length("title of it") < 100)
        );
        CREATE UNIQUE INDEX by_title ON albums (artist_id, "title of it") WHERE artist_id > 0;
        CREATE VIEW names AS SELECT name FROM artists;
        CREATE TABLE audit (what TEXT);
        CREATE TRIGGER log_albums AFTER INSERT ON albums BEGIN INSERT INTO audit VALUES (NEW.id); END;
        CREATE VIRTUAL TABLE search USING fts5(body);
        INSERT INTO artists VALUES (1, 'AC/DC'), (2, 'Accept');
        INSERT INTO albums (artist_id, "title of it") VALUES (1, 'Rock'), (2, 'Balls');
        INSERT INTO search VALUES ('rock');
        PRAGMA user_version = 42;
        """

    /// The app's rows and schema in a file.
    private static func look(_ path: String) throws -> [String] {
        let file = try DatabaseQueue(path: path)
        defer { close(file) }
        return try file.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '')
                    FROM sqlite_master WHERE name NOT LIKE 'tidemark%'
                        AND name NOT LIKE 'sqlite_autoindex_tidemark%' ORDER BY rowid
                    """
            ) + String.fetchAll(db, sql: "SELECT name || seq FROM sqlite_sequence WHERE name = 'albums'")
                + String.fetchAll(db, sql: "SELECT id || name FROM artists")
                + String.fetchAll(db, sql: "SELECT rowid || body FROM search")
                + String.fetchAll(db, sql: "SELECT user_version FROM pragma_user_version")
        }
    }

    private static func close(_ file: DatabaseQueue) {
        do { try file.close() } catch { Issue.record("the file stays open: \(error)") }
    }

    @Test func `F5: an adopted file keeps its tables, indexes, views, triggers and rows`() async throws {
        let folder = try TestZone.newFolder()
        defer { remove(folder) }
        let path = folder.appending(path: "music.sqlite").path
        try TestZone.write(Self.schema, to: path)
        let before = try Self.look(path)
        #expect(before.count > 10)

        let store = try EmbeddedStore(path: path, newEpoch: UUID(), excluding: ["audit"])
        #expect(try Self.look(path) == before)
        #expect(store.schema.tables.map(\.name) == ["artists", "albums"])
        #expect(store.skippedTables.contains("search"))
        let state = try await store.state()
        #expect(state.revision == 1)
        let digest = try await store.digest(zone: "main")
        #expect(digest.tables.map(\.rows) == [2, 2])
        // The rows are revision 1: a device at 1 is up to date.
        let answer = try Answer(try await store.sync(zone: "main", body: Array(#"{"maxRevision":1}"#.utf8)))
        #expect(answer.changeSets.isEmpty)
        try await store.close()

        // Served again it is the same zone, with the same epoch and revision.
        let again = try EmbeddedStore(path: path, newEpoch: UUID(), excluding: ["audit"])
        #expect(try await again.state() == state)
        #expect(try await again.digest(zone: "main") == digest)
        #expect(try Self.look(path) == before)
        try await again.close()
    }

    @Test func `F5: an empty schema starts at revision 0, and devices need no snapshot`() async throws {
        let folder = try TestZone.newFolder()
        defer { remove(folder) }
        let path = folder.appending(path: "new.sqlite").path
        let sql = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
        let store = try EmbeddedStore(path: path, schemaSQL: sql, newEpoch: UUID())
        #expect(try await store.state().revision == 0)
        let body = #"{"maxRevision":0,"changeSets":[{"notes":{"create":[-1]}}]}"#
        let answer = try Answer(try await store.sync(zone: "main", body: Array(body.utf8)))
        #expect(answer.revisions == [1])
        #expect(answer.changeSets[0].ids("create", "notes") == [1])
        try await store.close()
    }

    private static let problems = """
        CREATE TABLE plain (rowid, _rowid_, oid);
        CREATE TABLE orphans (id INTEGER PRIMARY KEY, plain_id REFERENCES nowhere (id));
        CREATE TABLE loose (id INTEGER PRIMARY KEY, code TEXT);
        CREATE TABLE refers (id INTEGER PRIMARY KEY, code TEXT REFERENCES loose (code));
        CREATE TABLE named (id INTEGER PRIMARY KEY, "quo""ted" INTEGER, revision TEXT);
        CREATE TABLE "quo""ted" (id INTEGER PRIMARY KEY);
        CREATE TABLE fine (id INTEGER PRIMARY KEY);
        """

    @Test func `F5: a refusal names every unsuitable table, each with its cure`() throws {
        let unsyncable = try #require(throws: UnsyncableSchema.self) { try TestZone(Self.problems) }
        let named = unsyncable.problems.map { "\($0.table) \($0.column ?? "-")" }
        #expect(
            Set(named) == [
                "plain -", "orphans plain_id", "refers code", "named quo\"ted", "quo\"ted -",
            ]
        )
        #expect(unsyncable.problems.allSatisfy { !$0.reason.isEmpty && !$0.cure.isEmpty })
        let text = "\(unsyncable)"
        for table in ["plain", "orphans", "refers", "named"] { #expect(text.contains(table)) }
    }

    @Test func `F5: cures given as SQL work`() async throws {
        let zone = try TestZone.newFolder()
        defer { remove(zone) }
        let path = zone.appending(path: "cured.sqlite").path
        try TestZone.write(Self.problems, to: path)
        let unsyncable = try #require(throws: UnsyncableSchema.self) { try EmbeddedStore(path: path, newEpoch: UUID()) }
        for problem in unsyncable.problems where problem.table != "orphans" {
            try TestZone.write(problem.cure, to: path)
        }
        let store = try EmbeddedStore(
            path: path, newEpoch: UUID(), excluding: ["orphans"], keys: ["plain": ["rowid", "oid"]])
        #expect(store.schema.tables.count == 6)
        try await store.close()
    }

    @Test func `F5: a refused file is unchanged`() async throws {
        let folder = try TestZone.newFolder()
        defer { remove(folder) }
        let path = folder.appending(path: "refused.sqlite").path
        try TestZone.write(Self.problems, to: path)
        #expect(throws: UnsyncableSchema.self) { try EmbeddedStore(path: path, newEpoch: UUID()) }
        let file = try DatabaseQueue(path: path)
        let traces = try await file.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE name LIKE '%tidemark%'")
        }
        #expect(traces == [])
        try file.close()
    }

    @Test func `F5: unsuitable rows are reported with a query that finds them`() throws {
        let unsyncable = try #require(throws: UnsyncableSchema.self) {
            try TestZone(
                """
                CREATE TABLE teams (id INTEGER PRIMARY KEY);
                CREATE TABLE players (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES teams);
                CREATE TABLE tags (name TEXT PRIMARY KEY);
                CREATE TABLE nulls (name TEXT PRIMARY KEY);
                CREATE TABLE big (id INTEGER PRIMARY KEY);
                INSERT INTO teams VALUES (1), (-2251799813685249);
                INSERT INTO players VALUES (1, 1), (2, 77), (3, 78);
                INSERT INTO tags VALUES (x'01');
                INSERT INTO nulls VALUES (NULL);
                INSERT INTO big VALUES (4503599627370496);
                """
            )
        }
        let named = unsyncable.problems.map { "\($0.table).\($0.column ?? "-")" }
        #expect(Set(named) == ["teams.id", "players.team_id", "tags.name", "nulls.name", "big.id"])
        let rows = unsyncable.problems.filter { $0.table == "players" }.map(\.reason)
        #expect(rows.count == 2)
        #expect(rows.contains { $0.contains("row 2") && $0.contains("teams 77") })
    }

    @Test func `F5: an excluded table stays local, and a reference to it is a problem`() async throws {
        let sql = """
            CREATE TABLE teams (id INTEGER PRIMARY KEY);
            CREATE TABLE players (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES teams);
            CREATE TABLE local (a);
            """
        let zone = try TestZone(sql, excluding: ["local"])
        #expect(zone.store.schema.tables.map(\.name) == ["teams", "players"])
        try await zone.writeOutside("INSERT INTO local VALUES (1)")
        #expect(try await zone.sync(at: 0).maxRevision == 0)
        let refusal = try await zone.refusal(of: #"{"maxRevision":0,"changeSets":[{"local":{"delete":[1]}}]}"#)
        #expect(refusal?.code == .unknownTable)
        let unsyncable = try #require(throws: UnsyncableSchema.self) {
            try TestZone(sql, excluding: ["local", "teams"])
        }
        #expect(unsyncable.problems.map(\.table) == ["players"])
    }

    @Test func `F5: a device's file, a text file and a folder are refused as zones`() async throws {
        let folder = try TestZone.newFolder()
        defer { remove(folder) }
        let device = folder.appending(path: "device.sqlite").path
        try TestZone.write("CREATE TABLE tidemark_device (id)", to: device)
        let error = try #require(throws: TidemarkError.self) { try EmbeddedStore(path: device, newEpoch: UUID()) }
        #expect(error.code == .unusableFile)
        let text = folder.appending(path: "text.sqlite")
        try Data(repeating: 0x41, count: 5_000).write(to: text)
        #expect(throws: (any Error).self) { try EmbeddedStore(path: text.path, newEpoch: UUID()) }
        #expect(try Data(contentsOf: text) == Data(repeating: 0x41, count: 5_000))
        #expect(throws: (any Error).self) { try EmbeddedStore(path: folder.path, newEpoch: UUID()) }
    }

    private func remove(_ folder: URL) {
        do { try FileManager.default.removeItem(at: folder) } catch { Issue.record("the folder stays: \(error)") }
    }
}
