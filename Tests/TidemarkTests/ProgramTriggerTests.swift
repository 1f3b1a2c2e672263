import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A trigger of the program runs once for each write, wherever it runs.
@Suite struct ProgramTriggerTests {
    private static let counted = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE counts (tbl TEXT PRIMARY KEY, n INTEGER);
        CREATE TRIGGER counting AFTER INSERT ON note BEGIN
            INSERT OR REPLACE INTO counts
            VALUES ('note', coalesce((SELECT n FROM counts WHERE tbl = 'note'), 0) + 1);
        END;
        """
    private static let count = "SELECT n FROM counts"

    @Test func `a counter that a trigger keeps counts each note of two devices once`() async throws {
        let cluster = try Cluster(schema: Self.counted, seed: "INSERT INTO note (text) VALUES ('a')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        for device in [anna, ben] { try await device.write("INSERT INTO note (text) VALUES ('b'), ('c')") }
        try cluster.writeOutside("INSERT INTO note (text) VALUES ('d')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.count) == ["6"])
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `a trigger declared for devices runs there at once, and not again at the server or for others`()
        async throws
    {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, sort TEXT);
                CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT);
                CREATE TRIGGER sorts AFTER INSERT ON book WHEN NEW.sort IS NULL OR NEW.sort = '' -- none
                BEGIN
                    UPDATE book SET sort = lower(NEW.title) WHERE id = NEW.id;
                    INSERT INTO log (what) VALUES (NEW.title);
                END;
                """,
            objects: ObjectDeclarations(triggers: ["sorts": true])
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO book (title) VALUES ('Red')")
        #expect(try await anna.rows("SELECT sort FROM book") == ["red"])
        #expect(try await anna.rows("SELECT what FROM log") == ["Red"])
        try cluster.writeOutside("INSERT INTO book (title) VALUES ('Blue')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT what FROM log ORDER BY what") == ["Blue", "Red"])
        #expect(try await ben.rows("SELECT sort FROM book ORDER BY sort") == ["blue", "red"])
        #expect(try await cluster.rows("SELECT applying FROM tidemark_state") == ["0"])

        // A program makes its trigger again; the declaration stands.
        try cluster.writeOutside(
            """
            DROP TRIGGER sorts;
            CREATE TRIGGER sorts AFTER INSERT ON book BEGIN INSERT INTO log (what) VALUES (upper(NEW.title)); END
            """
        )
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book (title) VALUES ('new')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT what FROM log ORDER BY what") == ["Blue", "NEW", "Red"])
    }

    @Test func `the app's own copy of a declared trigger gets the condition, and has no second effect`() async throws {
        let sorts = """
            CREATE TRIGGER sorts AFTER INSERT ON book BEGIN
                UPDATE book SET sort = sort || '+' WHERE id = NEW.id; END
            """
        let cluster = try Cluster(
            schema: "CREATE TABLE book (id INTEGER PRIMARY KEY, sort TEXT); CREATE VIEW v AS SELECT 1; \(sorts)")
        let anna = try await cluster.device("anna")
        try await anna.write("DROP TRIGGER sorts; \(sorts)")
        _ = try EmbeddedStore(
            path: cluster.zonePath, newEpoch: UUID(), objects: ObjectDeclarations(triggers: ["sorts": true]))
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book (sort) VALUES ('a')")
        try cluster.writeOutside("INSERT INTO book (sort) VALUES ('b')")
        try await cluster.converge(anna)
        #expect(try await anna.rows("SELECT sort FROM book ORDER BY sort") == ["a+", "b+"])
    }

    @Test func `a rule that a trigger enforces stops the device's program, and not the server's rows`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE bill (id INTEGER PRIMARY KEY, total INTEGER, closed INTEGER NOT NULL DEFAULT 0);
                CREATE TRIGGER stays BEFORE UPDATE ON bill WHEN OLD.closed
                BEGIN SELECT RAISE(ABORT, 'the bill is closed'); END;
                """,
            seed: "INSERT INTO bill (total, closed) VALUES (5, 1), (7, 0)"
        )
        let anna = try await cluster.device("anna")
        await #expect(throws: DatabaseError.self) { try await anna.write("UPDATE bill SET total = 6 WHERE id = 1") }
        // The administrator may.
        try cluster.writeOutside(
            """
            DROP TRIGGER stays; UPDATE bill SET total = 6 WHERE id = 1;
            CREATE TRIGGER stays BEFORE UPDATE ON bill WHEN OLD.closed
            BEGIN SELECT RAISE(ABORT, 'the bill is closed'); END;
            """
        )
        try await cluster.converge(anna)
        #expect(try await anna.rows("SELECT total FROM bill WHERE id = 1") == ["6"])
        await #expect(throws: DatabaseError.self) { try await anna.write("UPDATE bill SET total = 5 WHERE id = 1") }
    }

    @Test func `a trigger with a function of the program's own is named at adoption, with its way out`() async throws {
        let schema = """
            CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, sort TEXT);
            CREATE TABLE other (id INTEGER PRIMARY KEY, x);
            CREATE TRIGGER sorts AFTER INSERT ON book BEGIN
                UPDATE book SET sort = title_sort(NEW.title) WHERE id = NEW.id; END;
            """
        let unsyncable = try #require(throws: UnsyncableSchema.self) { try Cluster(schema: schema) }
        #expect(unsyncable.problems.map(\.table) == ["book"])
        #expect("\(unsyncable)".contains("title_sort") && "\(unsyncable)".contains("--trigger sorts=device"))

        let cluster = try Cluster(schema: schema, objects: ObjectDeclarations(triggers: ["sorts": true]))
        let anna = try await cluster.device("anna", functions: ["title_sort"])
        let ben = try await cluster.device("ben")
        // The app has the function; its trigger runs here, and other devices do without the function.
        try await anna.database.write { db in
            db.add(
                function: DatabaseFunction("title_sort", argumentCount: 1) { values in
                    String.fromDatabaseValue(values[0]).map { "sorted " + $0 }
                }
            )
            try db.execute(sql: "INSERT INTO book (title) VALUES ('The x')")
        }
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT sort FROM book") == ["sorted The x"])
    }

    @Test func `a search that folds words by the program's function works where the program writes`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
                CREATE VIRTUAL TABLE found USING fts5(title);
                CREATE TRIGGER finds AFTER INSERT ON book BEGIN
                    INSERT INTO found (rowid, title) VALUES (NEW.id, folded(NEW.title)); END;
                """,
            objects: ObjectDeclarations(triggers: ["finds": true])
        )
        let anna = try await cluster.device("anna", functions: ["folded"])
        let ben = try await cluster.device("ben")
        try await anna.database.write { db in
            db.add(function: DatabaseFunction("folded", argumentCount: 1) { _ in "folded" })
            try db.execute(sql: "INSERT INTO book (title) VALUES ('Ünique')")
        }
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT title FROM found") == ["folded"])
        #expect(try await ben.rows("SELECT title FROM book") == ["Ünique"])
        #expect(try await ben.rows("SELECT title FROM found") == [])
    }

    @Test func `a trigger that fills a table which is gone is named at adoption`() throws {
        let unsyncable = try #require(throws: UnsyncableSchema.self) {
            try Cluster(
                schema: """
                    CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
                    CREATE TRIGGER finds AFTER INSERT ON book BEGIN INSERT INTO gone VALUES (NEW.id); END;
                    """
            )
        }
        #expect("\(unsyncable)".contains("book: has the trigger finds, which cannot run here: no such table"))
    }

    @Test func `a function that the server lost parks the change set that needs it, and the rest flows`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE book (id INTEGER PRIMARY KEY, title); CREATE TABLE other (id INTEGER PRIMARY KEY, x)",
            seed: "INSERT INTO other VALUES (1, 1)")
        let anna = try await cluster.device("anna")
        try cluster.writeOutside(
            """
            CREATE TRIGGER sorts AFTER INSERT ON book BEGIN
                UPDATE book SET title = title_sort(NEW.title) WHERE id = NEW.id; END
            """
        )
        try await anna.write("INSERT INTO book (title) VALUES ('The x')")
        try await anna.write("UPDATE other SET x = 2")
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT x FROM other") == ["2"])
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.count == 1)
        #expect(conflicts.first?.reasons.first?.message.contains("title_sort") == true)
        #expect(try await anna.engine.status().pendingChangeSets == 0)
    }

    @Test func `a table that calls a function of the program's own is named at adoption`() throws {
        let unsyncable = try #require(throws: UnsyncableSchema.self) {
            let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let path = folder.appending(path: "zone.sqlite").path
            try DatabaseQueue(path: path).write { db in
                db.add(function: DatabaseFunction("shape", argumentCount: 1, pure: true) { _ in 1 })
                try db.execute(sql: "CREATE TABLE place (id INTEGER PRIMARY KEY, at BLOB CHECK (shape(at)))")
            }
            _ = try EmbeddedStore(path: path, newEpoch: UUID())
        }
        #expect("\(unsyncable)".contains("place: calls the function shape"))
    }
}
