import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// Rule 10: an app was updated before its server: columns and rows unknown to the server stay, and
/// are sent later.
@Suite struct DeviceAheadTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0);
        """
    private static let seed = "INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt')"
    private static let grow = "ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3;"

    @Test func `C3: a column unknown to the server keeps its values and is sent once it is known`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(Self.grow + "UPDATE notes SET stars = 5 WHERE id = 2")
        anna = try await anna.reopened()
        try await anna.write("INSERT INTO notes (text, stars) VALUES ('rake', 1)")
        try await anna.write("UPDATE notes SET stars = 4 WHERE id = 1")
        try await anna.write("UPDATE notes SET stars = 2, text = 'sea salt' WHERE id = 3")
        try await ben.write("UPDATE notes SET done = 1")
        try await ben.engine.sync()
        try await anna.engine.sync()
        // Refused under `reject`: the text is the server's again, the new column stays local.
        for conflict in try await anna.engine.conflicts() { try await anna.engine.resolve(conflict.id, with: .retry) }
        try await anna.engine.sync()
        #expect(try await anna.engine.status().pendingChangeSets == 0)
        #expect(
            try await anna.rows("SELECT id, text, done, stars FROM notes ORDER BY id") == [
                "1|milk|1|4", "2|bread|1|5", "3|sea salt|1|2", "4|rake|0|1",
            ]
        )
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["milk", "bread", "sea salt", "rake"])
        try cluster.writeOutside(Self.grow)
        let carla = try await cluster.device("carla")
        try await cluster.converge(anna, carla)
        #expect(try await cluster.rows("SELECT stars FROM notes ORDER BY id") == ["4", "5", "2", "1"])
    }

    @Test func `a refused deletion restores columns that only this file has`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(Self.grow + "UPDATE notes SET stars = 5 WHERE id = 2")
        anna = try await anna.reopened()
        try await anna.engine.sync()
        try await anna.write("DELETE FROM notes WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'rye' WHERE id = 2")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT text, stars FROM notes WHERE id = 2") == ["rye|5"])
    }

    @Test func `a retry does not restore a local-only value from before a later edit`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(Self.grow)
        anna = try await anna.reopened()
        try await anna.write("UPDATE notes SET stars = 1 WHERE id = 1; UPDATE notes SET text = 'rye' WHERE id = 2")
        try await anna.write("UPDATE notes SET text = 'sea salt' WHERE id = 3")
        try await anna.write("UPDATE notes SET stars = 2 WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'rolls' WHERE id = 2")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT stars FROM notes") == ["2", "3", "3"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(conflict.id, with: .retry)
        #expect(try await anna.rows("SELECT text, stars FROM notes WHERE id < 3") == ["milk|2", "rye|3"])
        try await anna.engine.sync()
        try cluster.writeOutside(Self.grow)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT stars FROM notes") == ["2", "3", "3"])
    }

    @Test func `a refused creation keeps its local-only columns`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, done INTEGER);",
            seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(Self.grow)
        anna = try await anna.reopened()
        try await anna.write("INSERT INTO notes (text, stars) VALUES ('rake', 1)")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.write("UPDATE notes SET stars = NULL, done = 7 WHERE text = 'rake'")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await anna.write("UPDATE notes SET stars = 2 WHERE text = 'rake'")
        try await ben.write("INSERT INTO notes (text) VALUES ('rake')")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT done, stars FROM notes WHERE text = 'rake'") == ["|3"])
        try await ben.write("DELETE FROM notes WHERE text = 'rake'")
        try await ben.engine.sync()
        try await anna.engine.sync()
        for conflict in try await anna.engine.conflicts() { try await anna.engine.resolve(conflict.id, with: .retry) }
        #expect(try await anna.rows("SELECT done, stars FROM notes WHERE text = 'rake'") == ["7|2"])
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT done, stars FROM notes WHERE text = 'rake'") == ["7|2"])
    }

    @Test func `rule 1: two apps that filled a column before the server had it do not overwrite it`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        var ben = try await cluster.device("ben")
        for device in [anna, ben] { try device.writeOutside(Self.grow) }
        anna = try await anna.reopened()
        ben = try await ben.reopened()
        try await anna.write("UPDATE notes SET stars = 1 WHERE id = 1")
        try await ben.write("UPDATE notes SET stars = 2 WHERE id = 1; UPDATE notes SET stars = 2 WHERE id = 3")
        try await anna.engine.sync()
        try await ben.engine.sync()
        try cluster.writeOutside(Self.grow)
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(try await ben.engine.conflicts().count == 1)
        #expect(try await cluster.rows("SELECT stars FROM notes ORDER BY id") == ["1", "3", "3"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stars FROM notes ORDER BY id") == ["2", "3", "2"])
    }

    @Test func `C3: rows of a table older than the server's count as this device's creations`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let grow = """
            CREATE TABLE clubs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, parent_id INTEGER REFERENCES clubs);
            CREATE TABLE members (club_id INTEGER REFERENCES clubs, who TEXT, PRIMARY KEY (club_id, who));
            ALTER TABLE notes ADD COLUMN club_id INTEGER REFERENCES clubs;
            """
        try anna.writeOutside(
            grow + """
                INSERT INTO clubs VALUES (1, 'Kiel', NULL), (2, 'Kiel II', 1);
                INSERT INTO members VALUES (2, 'Anna');
                UPDATE notes SET club_id = 2 WHERE id = 3;
                """
        )
        anna = try await anna.reopened()
        try await anna.engine.sync()
        try cluster.writeOutside(grow + "INSERT INTO clubs (name) VALUES ('Lemgo')")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        #expect(
            try await cluster.rows("SELECT id, name, parent_id FROM clubs ORDER BY id") == [
                "1|Lemgo|", "2|Kiel|", "3|Kiel II|2",
            ]
        )
        #expect(try await cluster.rows("SELECT * FROM members") == ["3|Anna"])
        #expect(try await cluster.rows("SELECT club_id FROM notes WHERE id = 3") == ["3"])
    }

    @Test func `a local-only reference follows its record to the permanent id`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try anna.writeOutside(
            """
            ALTER TABLE notes ADD COLUMN follows INTEGER REFERENCES notes;
            CREATE TABLE drafts (id INTEGER PRIMARY KEY, note_id INTEGER REFERENCES notes, text TEXT);
            """
        )
        anna = try await anna.reopened()
        try await anna.write("INSERT INTO notes (text) VALUES ('rake')")
        try await anna.write("UPDATE notes SET follows = (SELECT max(id) FROM notes) WHERE id = 1")
        try await anna.write("INSERT INTO drafts (note_id, text) SELECT max(id), 'x' FROM notes")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT follows FROM notes WHERE id = 1") == ["4"])
        #expect(try await anna.rows("SELECT note_id FROM drafts") == ["4"])
        #expect(try await anna.rows("PRAGMA foreign_key_check") == [])
    }

    @Test func `C3: a rename that both sides declare, in either order, keeps one column`() async throws {
        for serverFirst in [true, false] {
            let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
            let anna = try await cluster.device("anna")
            let ben = try await cluster.device("ben")
            try await anna.write("UPDATE notes SET text = 'captured before' WHERE id = 1")
            try await anna.write("INSERT INTO notes (text) VALUES ('frozen')")
            anna.transport.faults.add(.answerLost)
            await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
            try await anna.write("UPDATE notes SET text = 'waits' WHERE id = 2")
            var store = cluster.store
            if serverFirst { store = try await Self.renameServer(cluster) }
            try anna.writeOutside(
                "ALTER TABLE notes RENAME COLUMN text TO body; UPDATE notes SET body = 'after' WHERE id = 3")
            let new = try await Self.renamed(anna, to: store)
            try await new.sync()
            let old = try await SyncEngine(
                DatabasePool(path: ben.path), server: "http://cluster.test", transport: InProcessTransport(to: store))
            try await old.sync()
            #expect(
                try await ben.rows("SELECT text FROM notes ORDER BY id") == [
                    "captured before", "waits", "after", "frozen",
                ]
            )
            try ben.writeOutside("UPDATE notes SET text = 'by the old app' WHERE id = 1")
            try await old.sync()
            if !serverFirst { store = try await Self.renameServer(cluster) }
            let last = try await Self.renamed(anna, to: store)
            try await last.sync()
            #expect(
                try await anna.rows("SELECT body FROM notes ORDER BY id") == [
                    "by the old app", "waits", "after", "frozen",
                ]
            )
            #expect(
                try await cluster.rows("SELECT body FROM notes ORDER BY id") == [
                    "by the old app", "waits", "after", "frozen",
                ]
            )
        }
    }

    @Test func `rule 15: a column rename also renames the bases of pending edits`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try anna.writeOutside("ALTER TABLE notes RENAME COLUMN text TO body")
        let new = try await Self.renamed(anna, to: cluster.store)
        try await new.sync()
        let records = try await new.conflicts().flatMap(\.records)
        #expect(records.map(\.base) == [#"{"body":"milk","done":0}"#])
    }

    private static func renameServer(_ cluster: Cluster) async throws -> EmbeddedStore {
        try cluster.writeOutside("ALTER TABLE notes RENAME COLUMN text TO body")
        return try EmbeddedStore(
            path: cluster.zonePath, newEpoch: UUID(), renames: [ColumnRename(table: "notes", old: "text", new: "body")])
    }

    private static func renamed(_ device: TestDevice, to store: EmbeddedStore) async throws -> SyncEngine {
        try await SyncEngine(
            DatabasePool(path: device.path), server: "http://cluster.test", transport: InProcessTransport(to: store),
            renames: ["notes.text": "notes.body"])
    }

    @Test func `rule 10: an edit of a column that the app dropped is still sent`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET done = 7 WHERE id = 1")
        try anna.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL);
            INSERT INTO fresh SELECT id, text FROM notes; DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            """
        )
        anna = try await anna.reopened()
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT done FROM notes ORDER BY id") == ["7", "0", "0"])
        // And when the column comes back, the zone's values come back.
        try anna.writeOutside("ALTER TABLE notes ADD COLUMN done INTEGER DEFAULT 0")
        anna = try await anna.reopened()
        try await cluster.converge(anna)
    }

    @Test func `a comparison finds a migration's values in a rebuilt table`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try anna.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL CHECK (text <> ''),
                done INTEGER DEFAULT 0);
            INSERT INTO fresh SELECT id, upper(text), done FROM notes WHERE id < 3;
            DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            INSERT INTO notes (text) VALUES ('without a trigger');
            """
        )
        // SQLite gave the new row the id of the row that the migration left out: it is that record.
        try await ben.write("UPDATE notes SET done = 5 WHERE id = 2")
        try await ben.engine.sync()
        anna = try await anna.reopened()
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(
            try await cluster.rows("SELECT id, text, done FROM notes ORDER BY id") == [
                "1|MILK|1", "2|BREAD|5", "3|without a trigger|0",
            ]
        )
    }

    @Test func `a comparison finds a migration's values in a table that took another one's name`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(
            """
            ALTER TABLE notes RENAME TO notes_old;
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, done INTEGER DEFAULT 0);
            INSERT INTO notes SELECT id, upper(text), done FROM notes_old;
            """
        )
        anna = try await anna.reopened()
        // The app's changes of its own table are not edits of the zone any more.
        try anna.writeOutside("DELETE FROM notes_old WHERE id = 1")
        try await anna.engine.sync()
        try await cluster.converge2(anna, ben)
        let texts = "SELECT text FROM notes ORDER BY id"
        for rows in [try await cluster.rows(texts), try await anna.rows(texts), try await ben.rows(texts)] {
            #expect(rows == ["MILK", "BREAD", "SALT"])
        }
    }

    @Test(arguments: [FaultPlan.Fault.answerLost, .requestLost])
    func `a migration's values in a record with an edit in flight are not lost`(fault: FaultPlan.Fault) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        anna.transport.faults.add(fault)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try anna.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL CHECK (text <> ''),
                done INTEGER DEFAULT 0);
            INSERT INTO fresh SELECT id, upper(text), done FROM notes;
            DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            """
        )
        anna = try await anna.reopened()
        try await anna.engine.sync()
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text, done FROM notes WHERE id = 1") == ["MILK|1"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `a rebuilt table under a snapshot keeps uncaptured values as a conflict`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try anna.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, done INTEGER DEFAULT 0);
            INSERT INTO fresh SELECT id, upper(text), done FROM notes;
            DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            """
        )
        try cluster.writeOutside("UPDATE tidemark_zone SET epoch = '00000000-0000-4000-8000-00000000beef'")
        anna = try await anna.reopened()
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.map(\.mine).first == #"{"text":"MILK"}"#)
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["MILK", "BREAD", "SALT"])
    }

    @Test func `C3: incompatible keys and types give one error with both sides and change nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try anna.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, text BLOB, done INTEGER DEFAULT 0);
            INSERT INTO fresh SELECT * FROM notes; DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
            """
        )
        let reopened = try await anna.reopened()
        try await reopened.write("UPDATE notes SET done = 1 WHERE id = 1")
        let error = await #expect(throws: TidemarkError.self) { try await reopened.engine.sync() }
        #expect(error?.code == .schemaMismatch)
        #expect(error?.message.contains("BLOB in this file and TEXT in the zone") == true)
        #expect(try await reopened.engine.status().pendingChangeSets == 1)
    }
}
