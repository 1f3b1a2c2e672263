import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Capture of tables of every shape that SQLite allows.
@Suite struct CaptureShapeTests {
    @Test func `the deletion of a parent captures the cascade's deletions`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE items (id INTEGER PRIMARY KEY, list INTEGER NOT NULL REFERENCES lists ON DELETE CASCADE);
            CREATE TABLE notes (id INTEGER PRIMARY KEY, item INTEGER REFERENCES items ON DELETE SET NULL);
            """,
            rows: """
                INSERT INTO lists VALUES (1, 'L'), (2, 'M');
                INSERT INTO items VALUES (10, 1), (11, 1), (12, 2);
                INSERT INTO notes VALUES (20, 10), (21, 12);
                """
        )
        try file.write("DELETE FROM lists WHERE id = 1")
        #expect(
            try file.drain() == [
                "delete items 10", "delete items 11", "delete lists 1", #"update notes 20 {"item":null}"#,
            ]
        )
    }

    @Test func `a changed parent key captures the cascade's updates of the children`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE countries (code TEXT PRIMARY KEY, name TEXT);
            CREATE TABLE cities (id INTEGER PRIMARY KEY, country TEXT REFERENCES countries ON UPDATE CASCADE);
            """,
            rows: "INSERT INTO countries VALUES ('de', 'G'); INSERT INTO cities VALUES (1, 'de')"
        )
        try file.write("UPDATE countries SET code = 'DE'")
        #expect(
            try file.drain() == [
                #"update cities 1 {"country":"DE"}"#, #"create countries "DE" {"name":"G"}"#, #"delete countries "de""#,
            ]
        )
    }

    @Test(arguments: ["", "WITHOUT ROWID"]) func `a composite key is captured as an array in key order`(options: String)
        throws
    {
        let file = try CapturedFile(
            """
            CREATE TABLE members (
                role TEXT, person INTEGER NOT NULL, team TEXT NOT NULL, PRIMARY KEY (team, person)
            ) \(options);
            """,
            rows: "INSERT INTO members VALUES ('goal', 1, 'Kiel'), ('left', 2, 'Kiel')"
        )
        try file.write(
            """
            INSERT INTO members VALUES ('right', 3, 'Lübeck');
            UPDATE members SET role = 'keeper' WHERE person = 1;
            REPLACE INTO members VALUES ('wing', 2, 'Kiel');
            """
        )
        #expect(
            try file.drain() == [
                #"update members ["Kiel",1] {"role":"keeper"}"#, #"update members ["Kiel",2] {"role":"wing"}"#,
                #"create members ["Lübeck",3] {"role":"right"}"#,
            ]
        )
        try file.write("UPDATE members SET person = 4 WHERE person = 2")
        #expect(try file.drain() == [#"delete members ["Kiel",2]"#, #"create members ["Kiel",4] {"role":"wing"}"#])
    }

    @Test func `evictions and replacements in a WITHOUT ROWID table are captured`() throws {
        let file = try CapturedFile(
            "CREATE TABLE keys (name TEXT PRIMARY KEY, slot INTEGER UNIQUE) WITHOUT ROWID",
            rows: "INSERT INTO keys VALUES ('a', 1), ('b', 2)")
        try file.write("REPLACE INTO keys VALUES ('c', 1)")
        #expect(try file.drain() == [#"delete keys "a""#, #"create keys "c" {"slot":1}"#])
    }

    @Test func `stored and virtual generated columns are not captured`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE boxes (
                id INTEGER PRIMARY KEY,
                width REAL,
                area REAL GENERATED ALWAYS AS (width * height) STORED,
                height REAL,
                label TEXT AS ('box ' || width) VIRTUAL
            );
            """,
            rows: "INSERT INTO boxes (id, width, height) VALUES (1, 2, 3)"
        )
        try file.write("UPDATE boxes SET width = 4")
        try file.write("INSERT INTO boxes (id, width, height) VALUES (2, 5, 6)")
        #expect(try file.drain() == [#"update boxes 1 {"width":4.0}"#, #"create boxes 2 {"width":5.0,"height":6.0}"#])
    }

    @Test func `a cascade through a self-referencing tree is captured down to the leaves`() throws {
        let file = try CapturedFile(
            "CREATE TABLE nodes (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES nodes ON DELETE CASCADE)",
            rows: "INSERT INTO nodes VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL)")
        try file.write("DELETE FROM nodes WHERE id = 1")
        #expect(try file.drain() == [1, 2, 3, 4].map { "delete nodes \($0)" })
    }

    @Test func `a cascade through a cycle of two tables is captured from either table`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE teams (id INTEGER PRIMARY KEY, captain INTEGER REFERENCES players DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE players (id INTEGER PRIMARY KEY, team INTEGER REFERENCES teams ON DELETE CASCADE);
            """
        )
        try file.write("INSERT INTO teams VALUES (1, 7); INSERT INTO players VALUES (7, 1)")
        #expect(try file.drain() == [#"create players 7 {"team":1}"#, #"create teams 1 {"captain":7}"#])
        try file.write("DELETE FROM teams")
        #expect(try file.drain() == ["delete players 7", "delete teams 1"])
    }

    @Test func `a table of a hundred columns is captured despite SQLite's limit of function arguments`() throws {
        let names = (1...100).map { "c\($0)" }
        let file = try CapturedFile(
            "CREATE TABLE wide (id INTEGER PRIMARY KEY, \(names.joined(separator: ", ")))",
            rows: "INSERT INTO wide (id, c1, c100) VALUES (1, 'first', 'last')")
        try file.write("UPDATE wide SET c2 = 2, c60 = 60, c61 = 61, c99 = NULL, c100 = 'end'")
        try file.write("INSERT INTO wide (id, c41, c81) VALUES (2, 41, 81)")
        let changes = try file.changes()
        #expect(changes.first?.line == #"update wide 1 {"c2":2,"c60":60,"c61":61,"c100":"end"}"#)
        let created = try #require(changes.last?.attributes)
        #expect(created.contains(#""c41":41,"#) && created.contains(#""c81":81,"#))
        #expect(created.split(separator: ",").count == 100)
        #expect(changes.first?.before?.contains(#""c1":"first","c2":null"#) == true)
    }

    @Test(
        arguments: [
            "order", "my list", "it's", "a\"quoted", "Größe", "🏐", "select", "tbl", "a.b", "x-y", "old_id", "new_",
            "seq", "kind", "key", "before", "rowid_", "%", "[bracket]", "`tick`",
        ].filter { !$0.contains("\"") }
    ) func `a name that needs quotes is captured`(name: String) throws {
        let quoted = SQLText.name(name)
        let file = try CapturedFile(
            """
            CREATE TABLE \(quoted) (id INTEGER PRIMARY KEY, \(quoted) TEXT UNIQUE, plain);
            """,
            rows: "INSERT INTO \(quoted) VALUES (1, 'a', 1), (2, 'b', 2)"
        )
        try file.write("UPDATE \(quoted) SET \(quoted) = 'c' WHERE id = 1")
        try file.write("REPLACE INTO \(quoted) VALUES (3, 'b', 3)")
        let quotedName = JSONText.quote(name)
        #expect(
            try file.drain() == [
                #"update \#(name) 1 {\#(quotedName):"c"}"#, "delete \(name) 2",
                #"create \#(name) 3 {\#(quotedName):"b","plain":3}"#,
            ]
        )
    }

    @Test(arguments: ["old_x", "x", "key", "seq", "kind", "first", "has_old", "tbl", "base", "e"])
    func `a key column named like one of capture's columns is captured correctly`(name: String) throws {
        let file = try CapturedFile(
            "CREATE TABLE t (\(name) TEXT PRIMARY KEY, old_\(name)_ INTEGER, new_\(name)_ INTEGER)",
            rows: "INSERT INTO t VALUES ('a', 1, 2)")
        try file.write("UPDATE t SET new_\(name)_ = 3; INSERT INTO t VALUES ('b', 4, 5)")
        #expect(
            try file.drain() == [
                #"update t "a" {"new_\#(name)_":3}"#, #"create t "b" {"old_\#(name)_":4,"new_\#(name)_":5}"#,
            ]
        )
    }

    @Test func `two tables whose names and columns collide with capture's prefixes stay separate`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, x, old_x, new_x, old_old_x, new_old_x)",
            rows: "INSERT INTO t VALUES (1, 1, 2, 3, 4, 5)")
        try file.write("UPDATE t SET old_x = 20, new_old_x = 50")
        #expect(try file.drain() == [#"update t 1 {"old_x":20,"new_old_x":50}"#])
    }

    @Test func `an added column is captured after capture is installed again`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a)", rows: "INSERT INTO t VALUES (1, 'old')")
        try file.write("UPDATE t SET a = 'before the migration'")
        let grown = try file.queue.write { db in
            try db.execute(sql: "ALTER TABLE t ADD COLUMN b")
            let schema = try SchemaIntrospection(db).makeSchema()
            try CaptureTables.install(schema, guardsNewIds: false, in: db)
            return schema
        }
        try file.write("UPDATE t SET b = 'after'")
        let lines = try file.queue.write { db in
            try EngineConnection.prepare(db, schema: grown)
            let range = try #require(try CapturedEffects.pendingRange(in: db))
            return try Change.read(CapturedEffects(db, schema: grown, in: range), grown, in: db).map(\.line)
        }
        #expect(lines == [#"update t 1 {"a":"before the migration","b":"after"}"#])
    }

    @Test func `a SQLite without window functions can read the file`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b UNIQUE); CREATE TABLE k (x TEXT PRIMARY KEY)",
            guardsNewIds: true)
        let statements = try file.queue.read {
            try String.fetchAll($0, sql: "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        }
        #expect(statements.count > 20)
        #expect(!statements.contains { $0.contains(/(?i)\bover\b|\bfilter\b/) })
    }
}
