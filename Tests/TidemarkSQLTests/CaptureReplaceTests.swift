import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Rows that `REPLACE` evicts are deletions that other devices must receive.
///
/// SQLite removes them without firing delete triggers, unless `recursive_triggers` is on, and
/// capture cannot rely on that.
@Suite struct CaptureReplaceTests {
    private static let people = """
        CREATE TABLE people (
            id INTEGER PRIMARY KEY,
            email TEXT UNIQUE,
            badge INTEGER UNIQUE,
            name TEXT
        );
        """
    private static let three = """
        INSERT INTO people VALUES (1, 'a@x', 10, 'Anna'), (2, 'b@x', 20, 'Ben'), (3, 'c@x', 30, 'Cleo');
        """

    private func people(recursive: Bool) throws -> CapturedFile {
        try CapturedFile(Self.people, rows: Self.three) { db in
            try db.execute(sql: "PRAGMA recursive_triggers = \(recursive ? "ON" : "OFF")")
        }
    }

    @Test(arguments: [false, true]) func `a row replaced by its own key is an update`(recursive: Bool) throws {
        let file = try people(recursive: recursive)
        try file.write("REPLACE INTO people VALUES (1, 'a@x', 10, 'Anne')")
        let changes = try file.changes()
        #expect(changes.map(\.line) == [#"update people 1 {"name":"Anne"}"#])
        #expect(changes.first?.before == #"{"email":"a@x","badge":10,"name":"Anna"}"#)
    }

    @Test(arguments: [false, true]) func `a row evicted through a unique column is a deletion`(recursive: Bool) throws {
        let file = try people(recursive: recursive)
        try file.write("REPLACE INTO people VALUES (4, 'b@x', 40, 'Dora')")
        #expect(try file.drain() == ["delete people 2", #"create people 4 {"email":"b@x","badge":40,"name":"Dora"}"#])
    }

    @Test(arguments: [false, true]) func `one insert that evicts three rows is captured with three deletions`(
        recursive: Bool
    ) throws {
        let file = try people(recursive: recursive)
        try file.write("REPLACE INTO people VALUES (1, 'b@x', 30, 'All')")
        #expect(
            try file.drain() == [
                #"update people 1 {"email":"b@x","badge":30,"name":"All"}"#, "delete people 2", "delete people 3",
            ]
        )
    }

    @Test(arguments: [false, true]) func `an update or replace that evicts another row is captured with its deletion`(
        recursive: Bool
    )
        throws
    {
        let file = try people(recursive: recursive)
        try file.write("UPDATE OR REPLACE people SET email = 'c@x' WHERE id = 1")
        #expect(try file.drain() == [#"update people 1 {"email":"c@x"}"#, "delete people 3"])
    }

    @Test(arguments: [false, true])
    func `an update or replace that takes another row's key is captured with two deletions`(recursive: Bool) throws {
        let file = try people(recursive: recursive)
        try file.write("UPDATE OR REPLACE people SET id = 2 WHERE id = 1")
        #expect(try file.drain() == ["delete people 1", #"update people 2 {"email":"a@x","badge":10,"name":"Anna"}"#])
    }

    @Test(arguments: [false, true]) func `a table declared ON CONFLICT REPLACE evicts by plain inserts`(recursive: Bool)
        throws
    {
        let file = try CapturedFile(
            "CREATE TABLE slots (id INTEGER PRIMARY KEY, place TEXT UNIQUE ON CONFLICT REPLACE)",
            rows: "INSERT INTO slots VALUES (1, 'north'), (2, 'south')"
        ) { db in try db.execute(sql: "PRAGMA recursive_triggers = \(recursive ? "ON" : "OFF")") }
        try file.write("INSERT INTO slots VALUES (3, 'north')")
        try file.write("UPDATE slots SET place = 'south' WHERE id = 3")
        #expect(try file.drain() == ["delete slots 1", "delete slots 2", #"create slots 3 {"place":"south"}"#])
    }

    @Test func `an evicted row is captured once, whatever is written after it`() throws {
        let file = try people(recursive: false)
        try file.write(
            """
            REPLACE INTO people VALUES (4, 'b@x', 40, 'Dora');
            UPDATE people SET name = 'Anne' WHERE id = 1;
            UPDATE people SET badge = 41 WHERE id = 4;
            INSERT OR IGNORE INTO people VALUES (9, 'a@x', 90, 'nobody');
            UPDATE people SET name = 'Kleo' WHERE id = 3;
            DELETE FROM people WHERE id = 1;
            INSERT INTO people VALUES (2, 'e@x', 50, 'Emil');
            """
        )
        #expect(
            try file.drain() == [
                "delete people 1", #"update people 2 {"email":"e@x","badge":50,"name":"Emil"}"#,
                #"update people 3 {"name":"Kleo"}"#, #"create people 4 {"email":"b@x","badge":41,"name":"Dora"}"#,
            ]
        )
    }

    @Test func `a bulk replace captures each row on its own merits`() throws {
        let file = try people(recursive: false)
        try file.write(
            """
            REPLACE INTO people SELECT id + 1, email, badge, name || '!' FROM people WHERE id < 3;
            """
        )
        // Row 2 takes Anna's value, and so evicts her; row 3 takes Ben's former value.
        #expect(
            try file.drain() == [
                "delete people 1", #"update people 2 {"email":"a@x","badge":10,"name":"Anna!"}"#,
                #"update people 3 {"email":"b@x","badge":20,"name":"Ben!"}"#,
            ]
        )
    }

    @Test func `an eviction by a NOCASE unique index is captured`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT);
            CREATE UNIQUE INDEX tag_names ON tags (name COLLATE NOCASE);
            """,
            rows: "INSERT INTO tags VALUES (1, 'Harbour')"
        )
        try file.write("REPLACE INTO tags VALUES (2, 'HARBOUR')")
        #expect(try file.drain() == ["delete tags 1", #"create tags 2 {"name":"HARBOUR"}"#])
    }

    @Test func `an eviction by a unique generated column is captured`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT, folded TEXT AS (lower(name)) STORED UNIQUE);
            """,
            rows: "INSERT INTO tags (id, name) VALUES (1, 'Harbour')"
        )
        try file.write("REPLACE INTO tags (id, name) VALUES (2, 'HARBOUR')")
        #expect(try file.drain() == ["delete tags 1", #"create tags 2 {"name":"HARBOUR"}"#])
    }

    @Test func `an eviction by a partial index does not affect rows outside the index`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, done INTEGER);
            CREATE UNIQUE INDEX open_titles ON tasks (title) WHERE NOT done;
            """,
            rows: "INSERT INTO tasks VALUES (1, 'paint', 1), (2, 'paint', 0)"
        )
        try file.write("REPLACE INTO tasks VALUES (3, 'paint', 0)")
        #expect(try file.drain() == ["delete tasks 2", #"create tasks 3 {"title":"paint","done":0}"#])
    }

    @Test func `an update that moves a row into a partial index captures the evicted row`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, done INTEGER);
            CREATE UNIQUE INDEX open_titles ON tasks (title) WHERE NOT done;
            """,
            rows: "INSERT INTO tasks VALUES (1, 'paint', 1), (2, 'paint', 0)"
        )
        try file.write("UPDATE OR REPLACE tasks SET done = 0 WHERE id = 1")
        #expect(try file.drain() == [#"update tasks 1 {"done":0}"#, "delete tasks 2"])
    }

    @Test func `an eviction by an update of a generated column is captured`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT, folded TEXT AS (lower(name)) STORED UNIQUE);
            """,
            rows: "INSERT INTO tags (id, name) VALUES (1, 'Harbour'), (2, 'Quay')"
        )
        try file.write("UPDATE OR REPLACE tags SET name = 'HARBOUR' WHERE id = 2")
        #expect(try file.drain() == ["delete tags 1", #"update tags 2 {"name":"HARBOUR"}"#])
    }

    @Test func `a table with a unique index on an expression is captured`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT);
            CREATE UNIQUE INDEX tag_names ON tags (lower(name));
            """,
            rows: "INSERT INTO tags VALUES (1, 'Harbour')"
        )
        try file.write("UPDATE tags SET name = 'Quay' WHERE id = 1")
        #expect(try file.drain() == [#"update tags 1 {"name":"Quay"}"#])
    }

    @Test func `two evicted rows of a tree are deletions although SET NULL updates their children`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE nodes (
                id INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES nodes ON DELETE SET NULL,
                a TEXT UNIQUE,
                b TEXT UNIQUE
            );
            """,
            rows: """
                INSERT INTO nodes VALUES (1, NULL, 'a1', 'b1'), (2, NULL, 'a2', 'b2'), (3, 1, 'a3', 'b3'), (4, 2, 'a4', 'b4');
                """
        )
        try file.write("REPLACE INTO nodes VALUES (9, NULL, 'a1', 'b2')")
        #expect(
            try file.drain() == [
                "delete nodes 1", "delete nodes 2", #"update nodes 3 {"parent":null}"#,
                #"update nodes 4 {"parent":null}"#, #"create nodes 9 {"parent":null,"a":"a1","b":"b2"}"#,
            ]
        )
    }

    // MARK: Neighbours of REPLACE

    @Test(arguments: [false, true]) func `an upsert is an update of the columns that it sets`(recursive: Bool) throws {
        let file = try people(recursive: recursive)
        try file.write(
            """
            INSERT INTO people VALUES (9, 'b@x', 90, 'Bea')
            ON CONFLICT (email) DO UPDATE SET name = excluded.name;
            """
        )
        #expect(try file.drain() == [#"update people 2 {"name":"Bea"}"#])
    }

    @Test func `an upsert without effect captures nothing`() throws {
        let file = try people(recursive: false)
        try file.write("INSERT INTO people VALUES (1, 'z', 0, '') ON CONFLICT DO NOTHING")
        #expect(try file.captureCount() == 0)
    }

    @Test func `an ignored insert does not affect later captures`() throws {
        let file = try people(recursive: false)
        try file.write("DELETE FROM people WHERE id = 3")
        try file.write("INSERT OR IGNORE INTO people VALUES (1, 'b@x', 99, 'Nobody')")
        try file.write("DELETE FROM people WHERE id = 1")
        #expect(try file.drain() == ["delete people 1", "delete people 3"])
        // The entry of the ignored insert must not count as an eviction now.
        try file.write("UPDATE people SET name = 'Benno' WHERE id = 2")
        #expect(try file.drain() == [#"update people 2 {"name":"Benno"}"#])
        try file.write("INSERT INTO people VALUES (8, 'h@x', 80, 'Hugo')")
        #expect(try file.drain() == [#"create people 8 {"email":"h@x","badge":80,"name":"Hugo"}"#])
    }

    @Test func `a failed insert does not affect later captures`() throws {
        let file = try people(recursive: false)
        #expect(throws: DatabaseError.self) {
            try file.writeWithoutTransaction("INSERT INTO people VALUES (1, 'x', 1, 'x')")
        }
        try file.write("DELETE FROM people WHERE id = 1")
        _ = try file.drain()
        try file.write("UPDATE people SET name = 'Benno' WHERE id = 2")
        #expect(try file.drain() == [#"update people 2 {"name":"Benno"}"#])
    }
}
