import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// Rule 10: the server's tables have grown; apps of an older version continue to sync.
@Suite struct ServerAheadTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    private static let seed = """
        INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt');
        INSERT INTO tags VALUES ('home', 'red'), ('work', 'blue')
        """
    private static let grow = """
        ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3;
        ALTER TABLE tags ADD COLUMN icon BLOB;
        """

    private static func events(of device: TestDevice) async throws -> [DeviceEvent] {
        try await device.events { try await device.engine.sync() }
    }

    @Test func `case 54: values for columns unknown to an old app appear after its migration`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        // No restart: the server notices at the next request.
        try cluster.writeOutside(
            Self.grow + "UPDATE notes SET stars = 5 WHERE id = 2; UPDATE tags SET icon = x'00ff' WHERE name = 'work'")
        let ben = try await cluster.device("ben")
        try await ben.write("INSERT INTO notes (text, stars) VALUES ('rake', NULL)")
        try await ben.write("UPDATE notes SET stars = 1, text = 'oat milk' WHERE id = 1")
        try await ben.engine.sync()
        #expect(try await Self.events(of: anna).allSatisfy { if case .snapshotTaken = $0 { false } else { true } })
        #expect(
            try await anna.rows("SELECT id, text FROM notes ORDER BY id") == [
                "1|oat milk", "2|bread", "3|salt", "4|rake",
            ]
        )
        // After an app update.
        try anna.writeOutside(Self.grow)
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT id, stars FROM notes ORDER BY id") == ["1|1", "2|5", "3|3", "4|"])
        #expect(try await Self.events(of: anna).isEmpty)
        try await cluster.converge(anna, ben)
    }

    @Test func `case 54: a column unknown to an old app is renamed at the server, and kept`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try cluster.writeOutside(
            Self.grow + """
                UPDATE notes SET stars = 5 WHERE id = 2;
                CREATE TABLE prizes (code TEXT PRIMARY KEY, title TEXT);
                """
        )
        try cluster.writeOutside("INSERT INTO prizes VALUES ('a', 'first'), ('b', 'second')")
        try await anna.engine.sync()
        // The log has the former names of these; anna applies the revisions after the rename.
        try cluster.writeOutside("UPDATE notes SET stars = 1 WHERE id = 1")
        try cluster.writeOutside("UPDATE prizes SET title = 'third' WHERE code = 'b'")
        _ = try await cluster.device("ben")
        try cluster.writeOutside(
            """
            ALTER TABLE notes RENAME COLUMN stars TO rating;
            ALTER TABLE prizes RENAME COLUMN title TO name
            """
        )
        let store = try EmbeddedStore(
            path: cluster.zonePath,
            newEpoch: UUID(),
            renames: [
                ColumnRename(table: "notes", old: "stars", new: "rating"),
                ColumnRename(table: "prizes", old: "title", new: "name"),
            ]
        )
        try await Self.engine(anna, to: store).sync()
        // After an app update, without the network.
        try anna.writeOutside(
            """
            ALTER TABLE notes ADD COLUMN rating INTEGER DEFAULT 3;
            CREATE TABLE prizes (code TEXT PRIMARY KEY, name TEXT)
            """
        )
        let new = try await Self.engine(anna, to: store)
        #expect(try await anna.rows("SELECT id, rating FROM notes ORDER BY id") == ["1|1", "2|5", "3|3"])
        #expect(try await anna.rows("SELECT code, name FROM prizes ORDER BY code") == ["a|first", "b|third"])
        try await new.sync()
        #expect(try await new.status().conflicts == 0)
    }

    private static func engine(_ device: TestDevice, to store: EmbeddedStore) async throws -> SyncEngine {
        try await SyncEngine(
            DatabasePool(path: device.path), server: "http://cluster.test", transport: InProcessTransport(to: store))
    }

    @Test func `case 55: an old app that replaces whole rows keeps columns that it does not know`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try cluster.writeOutside(Self.grow + "UPDATE notes SET stars = 5; UPDATE tags SET icon = x'01'")
        try await anna.engine.sync()
        try await ben.engine.sync()
        try anna.writeOutside("INSERT OR REPLACE INTO notes VALUES (1, 'oat milk', 1)")
        try await anna.write("DELETE FROM tags WHERE name = 'home'; INSERT INTO tags VALUES ('home', 'green')")
        try await anna.write("UPDATE notes SET text = text || '!' WHERE id = 2")
        // A replay of all that, on an answer that changes the same record.
        try await anna.engine.sync()
        try await cluster.converge2(anna, ben)
        #expect(
            try await cluster.rows("SELECT id, text, done, stars FROM notes ORDER BY id") == [
                "1|oat milk|1|5", "2|bread!|0|5", "3|salt|0|5",
            ]
        )
        #expect(
            try await cluster.rows("SELECT name, colour, hex(icon) FROM tags ORDER BY name") == [
                "home|green|01", "work|blue|01",
            ]
        )
    }

    @Test func `C3: a record of an old app gets the server's defaults, and the app receives them`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try cluster.writeOutside(Self.grow)
        try await anna.write("INSERT INTO notes (text) VALUES ('rake')")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'new rake' WHERE text = 'rake'")
        #expect(try await cluster.rows("SELECT text, stars FROM notes WHERE id = 4") == ["rake|3"])
        // Another default than the server's: it applies to the app's own rows only.
        try anna.writeOutside(
            "ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 0; ALTER TABLE tags ADD COLUMN icon BLOB")
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT DISTINCT stars FROM notes") == ["3"])
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 4") == ["new rake"])
    }

    @Test func `C3: rows of a table unknown to an old app are stored until its migration`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let grow = """
            CREATE TABLE labels (note_id INTEGER REFERENCES notes ON DELETE CASCADE,
                tag TEXT REFERENCES tags, weight REAL, PRIMARY KEY (note_id, tag)) WITHOUT ROWID;
            CREATE TABLE clubs (id INTEGER PRIMARY KEY, name TEXT, data BLOB);
            """
        try cluster.writeOutside(
            grow + """
                INSERT INTO labels VALUES (1, 'home', 0.1), (2, 'work', 1e300), (3, 'home', NULL);
                INSERT INTO clubs VALUES (7, 'Kiel', x'00')
                """
        )
        let ben = try await cluster.device("ben")
        try await anna.engine.sync()
        try await ben.write("UPDATE labels SET weight = 2.5 WHERE note_id = 2; DELETE FROM labels WHERE note_id = 3")
        try await ben.write("INSERT INTO clubs (name) VALUES ('Lemgo')")
        try await ben.engine.sync()
        // The old app has no labels to cascade to; the server has.
        try await anna.write("DELETE FROM notes WHERE id = 1")
        try await anna.engine.sync()
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT note_id, tag FROM labels") == ["2|work"])
        try anna.writeOutside(grow)
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT note_id, tag, weight FROM labels") == ["2|work|2.5"])
        #expect(try await anna.rows("SELECT id, name FROM clubs ORDER BY id") == ["7|Kiel", "8|Lemgo"])
        try await cluster.converge(anna, ben)
    }

    @Test func `rule 10: pending edits survive the app's migration, captured before it or after`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try cluster.writeOutside(Self.grow + "UPDATE notes SET stars = 4 WHERE id = 1")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO notes (text) VALUES ('frozen')")
        anna.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try await anna.write("INSERT INTO notes (text) VALUES ('waiting')")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1; DELETE FROM notes WHERE id = 3")
        try anna.writeOutside(Self.grow + "UPDATE notes SET stars = 9 WHERE text IN ('frozen', 'waiting')")
        anna = try await anna.reopened()
        try await anna.write("UPDATE notes SET stars = 8 WHERE id = 2")
        try await cluster.converge(anna)
        #expect(
            try await cluster.rows("SELECT text, done, stars FROM notes ORDER BY id") == [
                "milk|1|4", "bread|0|8", "frozen|0|9", "waiting|0|9",
            ]
        )
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `I8: an old app deletes the target of a reference that it does not know`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let medals = """
            CREATE TABLE medals (
                id INTEGER PRIMARY KEY, note INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE);
            """
        try cluster.writeOutside(medals)
        try cluster.writeOutside("INSERT INTO medals VALUES (1, 2)")
        try await anna.engine.sync()
        try await anna.write("DELETE FROM notes WHERE id = 2; DELETE FROM notes WHERE id = 3")
        #expect(try await anna.rows("SELECT id FROM notes") == ["1"])
        // After an app update, without the network: the edit is pending and hidden.
        try anna.writeOutside(medals)
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT * FROM pragma_foreign_key_check") == [])
        #expect(try await anna.rows("SELECT id FROM medals") == ["1"])
        #expect(try await anna.rows("SELECT id FROM notes ORDER BY id") == ["1", "2", "3"])
        try await anna.engine.sync()
        // It still counts, and the server's cascade deletes the medal.
        #expect(try await anna.rows("SELECT id FROM medals") == [])
        #expect(try await anna.rows("SELECT id FROM notes") == ["1"])
        try await cluster.converge(anna)
    }

    @Test func `a migration's values are shown, also in a row with a hidden older edit`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let grow = """
            CREATE TABLE medals (
                id INTEGER PRIMARY KEY, note INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE);
            ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3;
            """
        try cluster.writeOutside(grow)
        try cluster.writeOutside("INSERT INTO medals VALUES (1, 2)")
        try await anna.engine.sync()
        try await anna.write("DELETE FROM notes WHERE id = 2; UPDATE notes SET text = 'oats' WHERE id = 1")
        try anna.writeOutside(grow + "UPDATE notes SET stars = 5 WHERE id = 1")
        anna = try await anna.reopened()
        #expect(
            try await anna.rows("SELECT id, text, stars FROM notes ORDER BY id") == [
                "1|milk|5", "2|bread|3", "3|salt|3",
            ]
        )
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id, text, stars FROM notes ORDER BY id") == ["1|oats|5", "3|salt|3"])
    }

    @Test func `rule 1: a migration that computes other values than the zone's overwrites none`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try cluster.writeOutside(Self.grow + "UPDATE notes SET stars = 5 WHERE id = 1")
        try await anna.engine.sync()
        try anna.writeOutside(Self.grow + "UPDATE notes SET stars = length(text)")
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT stars FROM notes ORDER BY id") == ["5", "5", "4"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.map(\.mine) == [#"{"stars":4}"#])
        #expect(conflict.records.first?.theirs?.contains(#""stars":5"#) == true)
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT stars FROM notes ORDER BY id") == ["4", "5", "4"])
    }

    @Test func `an old app keeps a snapshot's tables and columns that it does not know`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try cluster.writeOutside(
            Self.grow + """
                UPDATE notes SET stars = 5; CREATE TABLE clubs (id INTEGER PRIMARY KEY, name TEXT);
                INSERT INTO clubs (name) VALUES ('Kiel');
                """
        )
        let ben = try await cluster.device("ben")
        try cluster.writeOutside("UPDATE tidemark_zone SET epoch = '00000000-0000-4000-8000-00000000beef'")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.engine.sync()
        try anna.writeOutside(Self.grow + "CREATE TABLE clubs (id INTEGER PRIMARY KEY, name TEXT)")
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT DISTINCT stars FROM notes") == ["5"])
        #expect(try await anna.rows("SELECT * FROM clubs") == ["1|Kiel"])
        try await cluster.converge(anna, ben)
    }

    @Test func `a table rebuilt at the server starts a new history, and nothing is overwritten`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'mine' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'also mine' WHERE id = 2")
        try cluster.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0 CHECK (done < 9));
            INSERT INTO fresh SELECT id, CASE id WHEN 1 THEN 'unseen' ELSE text END, done FROM notes;
            DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            """
        )
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["unseen", "also mine", "salt"])
        #expect(try await anna.engine.conflicts().count == 1)
    }

    @Test func `a table renamed away and replaced at the server starts a new history, too`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'mine' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'also mine' WHERE id = 2")
        try cluster.writeOutside(
            """
            ALTER TABLE notes RENAME TO notes_old;
            CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0);
            INSERT INTO notes SELECT id, CASE id WHEN 1 THEN 'unseen' ELSE text END, done FROM notes_old;
            """
        )
        try await anna.engine.sync()
        try await cluster.converge2(anna, ben)
        let texts = "SELECT text FROM notes ORDER BY id"
        for rows in [try await cluster.rows(texts), try await anna.rows(texts), try await ben.rows(texts)] {
            #expect(rows == ["unseen", "also mine", "salt"])
        }
        #expect(try await anna.engine.conflicts().count == 1)
    }

    /// Alters the notes and reopens the server's file, with these declarations.
    private static func serve(_ cluster: Cluster, after sql: String, renames: [(old: String, new: String)]) async throws
    {
        try await cluster.store.close()
        try cluster.writeOutside(sql)
        cluster.service.store = try EmbeddedStore(
            path: cluster.zonePath, newEpoch: UUID(),
            renames: renames.map { ColumnRename(table: "notes", old: $0.old, new: $0.new) })
    }

    @Test func `a column renamed twice is the same to an old app that knows neither rename`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try await Self.serve(
            cluster, after: "ALTER TABLE notes RENAME COLUMN text TO body", renames: [("text", "body")])
        // The revision uses a name that neither side has when anna gets it.
        try cluster.writeOutside("UPDATE notes SET body = 'rye' WHERE id = 2")
        _ = try await cluster.device("ben")
        try await Self.serve(
            cluster, after: "ALTER TABLE notes RENAME COLUMN body TO content",
            renames: [("text", "body"), ("body", "content")])
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT text FROM notes ORDER BY id") == ["oat milk", "rye", "salt"])
        #expect(try await cluster.rows("SELECT content FROM notes ORDER BY id") == ["oat milk", "rye", "salt"])
        try anna.writeOutside("ALTER TABLE notes RENAME COLUMN text TO content")
        anna = try await anna.reopened()
        try await anna.write("UPDATE notes SET content = 'sea salt' WHERE id = 3")
        try await cluster.converge(anna)
    }

    @Test func `a server that skipped a version takes both renames, and so does an old app`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await Self.serve(
            cluster, after: "ALTER TABLE notes RENAME COLUMN text TO content",
            renames: [("text", "body"), ("body", "content")])
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT content FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `a rename declared late applies to every former name of the column`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await Self.serve(
            cluster, after: "ALTER TABLE notes RENAME COLUMN text TO body", renames: [("text", "body")])
        // The server gets a request before the rename is declared.
        try cluster.writeOutside("ALTER TABLE notes RENAME COLUMN body TO content")
        _ = try await cluster.device("ben")
        #expect(cluster.store.schema.history.droppedColumns["notes"] == ["body", "text"])
        try await Self.serve(
            cluster, after: "UPDATE notes SET content = 'rye' WHERE id = 2",
            renames: [("text", "body"), ("body", "content")])
        #expect(cluster.store.schema.history.renames["notes"] == ["body": "content", "text": "content"])
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT text FROM notes ORDER BY id") == ["oat milk", "rye", "salt"])
    }

    @Test func `an app that skipped a version declares both renames, and its edits arrive`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'rye' WHERE id = 2")
        try anna.writeOutside("ALTER TABLE notes RENAME COLUMN text TO content")
        let new = try await SyncEngine(
            DatabasePool(path: anna.path), server: "http://cluster.test",
            transport: InProcessTransport(to: cluster.store),
            renames: ["notes.text": "notes.body", "notes.body": "notes.content"])
        try await anna.write("UPDATE notes SET content = 'oat milk' WHERE id = 1")
        try await new.sync()
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["oat milk", "rye", "salt"])
        #expect(try await new.status().pendingChangeSets == 0)
    }

    @Test func `a new column with a former name is refused, and no old edit is written to it`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await Self.serve(
            cluster, after: "ALTER TABLE notes RENAME COLUMN text TO body", renames: [("text", "body")])
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try cluster.writeOutside("ALTER TABLE notes ADD COLUMN text TEXT")
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(error?.code == .unavailable)
        #expect(error?.fix.contains("notes.text") == true)
        try cluster.writeOutside("ALTER TABLE notes RENAME COLUMN text TO remark")
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT body, remark FROM notes WHERE id = 1") == ["oat milk|"])
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `after a table was dropped and created, an app that was away takes the server's rows`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let epoch = try await cluster.store.latest(zone: EmbeddedStore.zoneName).epoch
        try cluster.writeOutside("DROP TABLE tags")
        // A request lets the server notice that the table is dropped.
        _ = try await cluster.device("ben")
        try cluster.writeOutside(
            """
            CREATE TABLE tags (name TEXT PRIMARY KEY, icon BLOB);
            INSERT INTO tags VALUES ('work', x'01'), ('club', x'02')
            """
        )
        try await anna.engine.sync()
        #expect(try await cluster.store.latest(zone: EmbeddedStore.zoneName).epoch != epoch)
        #expect(try await anna.rows("SELECT name FROM tags ORDER BY name") == ["club", "work"])
        #expect(try await cluster.rows("SELECT name FROM tags ORDER BY name") == ["club", "work"])
        #expect(try await anna.engine.status().pendingChangeSets == 0)
    }

    @Test func `deviceBehind: a required server column that an old app cannot fill is named`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: ["notes": .columns])
        let anna = try await cluster.device("anna")
        try cluster.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0, owner TEXT NOT NULL);
            INSERT INTO fresh SELECT *, 'nobody' FROM notes; DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            """
        )
        try await anna.write("INSERT INTO notes (text) VALUES ('rake')")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["deviceBehind"])
        #expect(conflict.reasons.first?.columns == ["owner"])
        // All other edits are sent.
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }
}

extension Cluster {
    /// Syncs devices of different versions until every outbox is empty.
    func converge2(_ devices: TestDevice...) async throws {
        for _ in 0..<3 { for device in devices { try await device.engine.sync() } }
        for device in devices {
            let pending = try await device.engine.status().pendingChangeSets
            #expect(pending == 0)
        }
    }
}
