import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A device's file is the program's whole database: numbers, views, virtual tables, triggers, local tables.
@Suite struct WholeFileTests {
    private static let book = "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, sort TEXT)"
    private static let seed = "INSERT INTO book (title) VALUES ('The red room'), ('A blue door')"
    private static let search = """
        CREATE VIRTUAL TABLE found USING fts5(title, content='book', content_rowid='id');
        CREATE TRIGGER found_in AFTER INSERT ON book BEGIN
            INSERT INTO found (rowid, title) VALUES (NEW.id, NEW.title); END;
        CREATE TRIGGER found_out AFTER DELETE ON book BEGIN
            INSERT INTO found (found, rowid, title) VALUES ('delete', OLD.id, OLD.title); END;
        CREATE TRIGGER found_on AFTER UPDATE ON book BEGIN
            INSERT INTO found (found, rowid, title) VALUES ('delete', OLD.id, OLD.title);
            INSERT INTO found (rowid, title) VALUES (NEW.id, NEW.title); END
        """

    private static func numbers(_ device: TestDevice) async throws -> [String] {
        try await device.rows("PRAGMA user_version") + device.rows("PRAGMA application_id")
    }

    private static func matches(_ device: TestDevice, _ word: String) async throws -> [String] {
        try await device.rows("SELECT title FROM found WHERE found MATCH '\(word)' ORDER BY title")
    }

    // MARK: Numbers

    @Test func `a program that numbers its migrations does not migrate a device's file a second time`() async throws {
        let cluster = try Cluster(
            schema: Self.book, seed: Self.seed + "; PRAGMA user_version = 25; PRAGMA application_id = 1196444487")
        let anna = try await cluster.device("anna")
        #expect(try await Self.numbers(anna) == ["25", "1196444487"])

        // A migration of the data alone, made at the server.
        try cluster.writeOutside("UPDATE book SET sort = lower(title); PRAGMA user_version = 26")
        try await cluster.converge(anna)
        #expect(try await Self.numbers(anna) == ["26", "1196444487"])
    }

    @Test func `a device without the server's new column keeps the version that its own migration needs`() async throws
    {
        let cluster = try Cluster(schema: Self.book, seed: "PRAGMA user_version = 25")
        let anna = try await cluster.device("anna")
        try cluster.writeOutside("ALTER TABLE book ADD COLUMN stars INTEGER; PRAGMA user_version = 26")
        try await anna.engine.sync()
        #expect(try await anna.rows("PRAGMA user_version") == ["25"])
        try await anna.write("ALTER TABLE book ADD COLUMN stars INTEGER; PRAGMA user_version = 26")
        let reopened = try await anna.reopened()
        try await cluster.converge(reopened)
        #expect(try await reopened.rows("PRAGMA user_version") == ["26"])
    }

    @Test func `a device whose own migration is ahead is not set back by the server's older number`() async throws {
        let cluster = try Cluster(schema: Self.book, seed: "PRAGMA user_version = 25")
        let anna = try await cluster.device("anna")
        try await anna.write("PRAGMA user_version = 30")
        try cluster.writeOutside("PRAGMA user_version = 26; INSERT INTO book (title) VALUES ('new')")
        try await cluster.converge(anna)
        #expect(try await anna.rows("PRAGMA user_version") == ["30"])
        try cluster.writeOutside("PRAGMA user_version = 31; INSERT INTO book (title) VALUES ('newer')")
        try await cluster.converge(anna)
        #expect(try await anna.rows("PRAGMA user_version") == ["31"])
    }

    // MARK: Local tables

    @Test func `an excluded table is on the device, empty, and rows in it stay there`() async throws {
        let cluster = try Cluster(
            schema: Self.book + "; CREATE TABLE lock (host TEXT, pid INT); CREATE INDEX by_host ON lock (host)",
            seed: Self.seed + "; INSERT INTO lock VALUES ('server', 1)", excluding: ["lock"])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        #expect(try await anna.rows("SELECT * FROM lock") == [])
        try await anna.write("INSERT INTO lock VALUES ('anna', 2); INSERT INTO book (title) VALUES ('x')")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT * FROM lock INDEXED BY by_host WHERE host = 'anna'") == ["anna|2"])
        #expect(try await ben.rows("SELECT * FROM lock") == [])
        #expect(try await cluster.rows("SELECT host FROM lock") == ["server"])
    }

    // MARK: Virtual tables and views

    @Test func `search works on a device from the beginning, and follows its own and others' edits`() async throws {
        let cluster = try Cluster(schema: Self.book + ";" + Self.search, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        #expect(try await Self.matches(anna, "red") == ["The red room"])
        try await anna.write("INSERT INTO book (title) VALUES ('red sky'); UPDATE book SET title = 'x' WHERE id = 2")
        try await ben.write("UPDATE book SET title = 'red house' WHERE id = 1")
        #expect(try await Self.matches(anna, "red") == ["The red room", "red sky"])
        try await cluster.converge(anna, ben)
        for device in [anna, ben] {
            #expect(try await Self.matches(device, "red") == ["red house", "red sky"])
            #expect(try await Self.matches(device, "blue") == [])
            try await device.write("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")
        }
        #expect(try await cluster.rows("SELECT count(*) FROM found WHERE found MATCH 'red'") == ["2"])
    }

    @Test func `a full-text table with rows of its own is filled on the device by its triggers`() async throws {
        let cluster = try Cluster(
            schema: """
                \(Self.book);
                CREATE VIRTUAL TABLE found USING fts5(title);
                CREATE TRIGGER found_in AFTER INSERT ON book BEGIN
                    INSERT OR REPLACE INTO found (rowid, title) VALUES (NEW.id, NEW.title); END;
                CREATE TRIGGER found_out AFTER DELETE ON book BEGIN DELETE FROM found WHERE rowid = OLD.id; END;
                CREATE TRIGGER found_on AFTER UPDATE ON book BEGIN
                    INSERT OR REPLACE INTO found (rowid, title) VALUES (NEW.id, NEW.title); END
                """,
            seed: Self.seed
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        #expect(try await Self.matches(anna, "red") == ["The red room"])
        // Anna's waiting edit is taken back and made again around Ben's.
        try await anna.write("UPDATE book SET sort = 'r' WHERE id = 1")
        try await ben.write("UPDATE book SET title = 'red house' WHERE id = 2")
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await Self.matches(anna, "red") == ["The red room", "red house"])
    }

    @Test func `a search made at the server later reaches devices, in both forms`() async throws {
        let cluster = try Cluster(schema: Self.book, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO book (title) VALUES ('red sky')")
        try cluster.writeOutside(Self.search + "; INSERT INTO found (found) VALUES ('rebuild')")
        try await cluster.converge(anna)
        #expect(try await Self.matches(anna, "red") == ["The red room", "red sky"])

        try cluster.writeOutside(
            """
            DROP TRIGGER found_in; DROP TRIGGER found_out; DROP TRIGGER found_on; DROP TABLE found;
            CREATE VIRTUAL TABLE found USING fts5(title);
            INSERT INTO found (rowid, title) SELECT id, title FROM book;
            CREATE TRIGGER found_in AFTER INSERT ON book BEGIN
                INSERT INTO found (rowid, title) VALUES (NEW.id, NEW.title || ' again'); END
            """
        )
        try await cluster.converge(anna)
        try await cluster.converge(anna)
        #expect(try await Self.matches(anna, "again") == ["A blue door again", "The red room again", "red sky again"])
        #expect(try await anna.rows("SELECT * FROM tidemark_left_out") == [])
    }

    @Test func `views reach devices, and so do their changes and their end`() async throws {
        let cluster = try Cluster(
            schema: """
                \(Self.book);
                CREATE VIEW title AS SELECT id, title FROM book;
                CREATE TRIGGER retitle INSTEAD OF UPDATE ON title BEGIN
                    UPDATE book SET title = NEW.title WHERE id = NEW.id; END
                """,
            seed: Self.seed
        )
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE title SET title = 'by the view' WHERE id = 1")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT title FROM book WHERE id = 1") == ["by the view"])

        try cluster.writeOutside("DROP VIEW title; CREATE VIEW title AS SELECT upper(title) AS t FROM book")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT t FROM title LIMIT 1") == ["BY THE VIEW"])
        try cluster.writeOutside("DROP VIEW title")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT name FROM sqlite_master WHERE name = 'title'") == [])
    }

    @Test func `a view over a column that the device lacks is left out and named, and its own tables are not blocked`()
        async throws
    {
        let cluster = try Cluster(schema: Self.book, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try cluster.writeOutside(
            "ALTER TABLE book ADD COLUMN stars INTEGER; CREATE VIEW best AS SELECT * FROM book WHERE stars > 3")
        try await anna.engine.sync()
        let report = try await anna.database.read { try SchemaReport($0) }
        #expect(report.leftOut["best"]?.contains("stars") == true)
        try await anna.write("ALTER TABLE book ADD COLUMN stars INTEGER")
        let reopened = try await anna.reopened()
        try await cluster.converge(reopened)
    }

    @Test func `a view that the device's program has made is left alone`() async throws {
        let cluster = try Cluster(schema: Self.book, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.write("CREATE VIEW mine AS SELECT 'anna'; CREATE TABLE own (x)")
        try cluster.writeOutside("CREATE VIEW mine AS SELECT 'server'; CREATE VIEW other AS SELECT 1")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT * FROM mine") == ["anna"])
        try cluster.writeOutside("DROP VIEW mine; DROP VIEW other")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT name FROM sqlite_master WHERE name IN ('mine', 'other', 'own')").count == 2)
    }
}
