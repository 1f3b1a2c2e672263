import GRDB
import Testing
import TidemarkCore
import TidemarkTestSupport

@testable import TidemarkSQL

/// Rule 2: a `REPLACE` whose evicted row cascades: writes of the same table run between the trigger
/// that records a row and the one that finds it deleted.
@Suite struct NestedReplaceTests {
    private func file(_ tables: String, rows: String, recursive: Bool = false) throws -> CapturedFile {
        try CapturedFile(tables, rows: rows) { db in
            try db.execute(
                sql: """
                    PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = \(recursive ? "ON" : "OFF")
                    """
            )
        }
    }

    private static let staff = """
        CREATE TABLE p (id INTEGER PRIMARY KEY, email TEXT UNIQUE,
            boss INTEGER REFERENCES p ON DELETE SET NULL, pos INTEGER, UNIQUE (boss, pos));
        """
    private static let three = """
        INSERT INTO p VALUES (1, 'a', NULL, 1), (2, 'b', 1, 1), (3, 'c', NULL, 2);
        """

    @Test func `an evicted parent is a deletion although SET NULL makes its children evict rows`() throws {
        // With recursive triggers, SQLite itself refuses this update.
        let file = try file(Self.staff, rows: Self.three)
        try file.write("UPDATE OR REPLACE p SET email = 'a' WHERE id = 3")
        try file.write("UPDATE p SET email = 'q' WHERE id = 3")
        #expect(try file.drain() == ["delete p 1", #"update p 2 {"boss":null}"#, #"update p 3 {"email":"q"}"#])
    }

    @Test(arguments: [false, true]) func `an evicted parent is a deletion under a partial index, too`(recursive: Bool)
        throws
    {
        let file = try file(
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY, email TEXT UNIQUE,
                boss INTEGER REFERENCES p ON DELETE SET NULL, pos INTEGER);
            CREATE UNIQUE INDEX places ON p (pos) WHERE boss IS NOT NULL;
            """,
            rows: Self.three,
            recursive: recursive
        )
        try file.write("INSERT OR REPLACE INTO p VALUES (9, 'a', 3, 7)")
        #expect(
            try file.drain() == [
                "delete p 1", #"update p 2 {"boss":null}"#, #"create p 9 {"email":"a","boss":3,"pos":7}"#,
            ]
        )
    }

    @Test func `rows that cascade from an evicted row over two levels are captured once`() throws {
        let file = try file(
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY, email TEXT UNIQUE,
                boss INTEGER REFERENCES p ON DELETE CASCADE, pos INTEGER, UNIQUE (boss, pos));
            CREATE TABLE desk (name TEXT PRIMARY KEY, p INTEGER UNIQUE REFERENCES p ON DELETE SET NULL)
                WITHOUT ROWID;
            """,
            rows: """
                \(Self.three) INSERT INTO p VALUES (4, 'd', 2, 1);
                INSERT INTO desk VALUES ('x', 4), ('y', 1);
                """
        )
        try file.write("REPLACE INTO p VALUES (8, 'a', NULL, 8)")
        #expect(
            try file.drain() == [
                #"update desk "x" {"p":null}"#, #"update desk "y" {"p":null}"#, "delete p 1", "delete p 2",
                "delete p 4", #"create p 8 {"email":"a","boss":null,"pos":8}"#,
            ]
        )
    }

    @Test func `an update whose own row cascades with its evicted row is captured as two deletions`() throws {
        let file = try file(
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY, email TEXT UNIQUE,
                boss INTEGER REFERENCES p ON DELETE CASCADE);
            """,
            rows: "INSERT INTO p VALUES (1, 'a', NULL), (2, 'b', 1)"
        )
        try file.write("UPDATE OR REPLACE p SET email = 'a' WHERE id = 2")
        #expect(try file.value("SELECT count(*) FROM p") == 0)
        #expect(try file.drain() == ["delete p 1", "delete p 2"])
    }

    @Test func `a SET DEFAULT that causes a clash fails the statement and leaves no capture entries`() throws {
        let file = try file(
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY, email TEXT UNIQUE,
                boss INTEGER DEFAULT 3 REFERENCES p ON DELETE SET DEFAULT, pos INTEGER, UNIQUE (boss, pos));
            """,
            rows: Self.three
        )
        // Row 2 moves to (3, 1), which the new row wants.
        #expect(throws: DatabaseError.self) { try file.writeWithoutTransaction("REPLACE INTO p VALUES (9, 'a', 3, 1)") }
        #expect(try file.captureCount() == 0)
    }

    @Test func `a two-column reference is set to NULL, and the evicted row is a deletion`() throws {
        let file = try file(
            """
            CREATE TABLE node (a INTEGER, b TEXT, name TEXT UNIQUE, up_a INTEGER, up_b TEXT,
                PRIMARY KEY (a, b), UNIQUE (up_a, up_b),
                FOREIGN KEY (up_a, up_b) REFERENCES node ON DELETE SET NULL) WITHOUT ROWID;
            """,
            rows: """
                INSERT INTO node VALUES (1, 'x', 'one', NULL, NULL), (2, 'x', 'two', 1, 'x');
                """
        )
        try file.write("REPLACE INTO node VALUES (3, 'y', 'one', NULL, NULL)")
        #expect(
            try file.drain() == [
                #"delete node [1,"x"]"#, #"update node [2,"x"] {"up_a":null,"up_b":null}"#,
                #"create node [3,"y"] {"name":"one","up_a":null,"up_b":null}"#,
            ]
        )
    }

    @Test(arguments: [false, true]) func `a REPLACE in an app's trigger hides no eviction`(recursive: Bool) throws {
        for moment in ["BEFORE", "AFTER"] {
            let file = try file(
                """
                CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b TEXT UNIQUE);
                CREATE TRIGGER mirror \(moment) INSERT ON t WHEN NEW.b IS NULL
                BEGIN UPDATE OR REPLACE t SET b = NEW.a WHERE id = 4; END;
                """,
                rows: """
                    INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'a'), (4, 'd', 'z');
                    """,
                recursive: recursive
            )
            try file.write("REPLACE INTO t VALUES (9, 'a', NULL)")
            #expect(
                try file.drain() == [
                    "delete t 1", "delete t 3", #"update t 4 {"b":"a"}"#, #"create t 9 {"a":"a","b":null}"#,
                ]
            )
        }
    }

    @Test func `a row recorded by an ignored insert and then deleted is captured once`() throws {
        let file = try file(Self.staff, rows: Self.three)
        try file.write("INSERT OR IGNORE INTO p VALUES (8, 'a', NULL, 9)")
        try file.write("DELETE FROM p WHERE id = 1")
        #expect(try file.drain() == ["delete p 1", #"update p 2 {"boss":null}"#])
        // The engine inserts it again, and deletes it again: neither is captured.
        try file.write("UPDATE tidemark_state SET applying = 1; INSERT INTO p VALUES (1, 'a', NULL, 1)")
        try file.write("UPDATE tidemark_state SET applying = 0")
        try file.write("INSERT OR IGNORE INTO p VALUES (8, 'a', NULL, 9)")
        try file.write("UPDATE p SET id = 11 WHERE id = 1")
        try file.write("INSERT INTO p VALUES (12, 'new', NULL, 12)")
        try file.write("UPDATE p SET email = 'a2' WHERE id = 11")
        try file.write("INSERT INTO p VALUES (13, 'a', NULL, 13)")
        #expect(
            try file.drain() == [
                "delete p 1", #"create p 11 {"email":"a2","boss":null,"pos":1}"#,
                #"create p 12 {"email":"new","boss":null,"pos":12}"#,
                #"create p 13 {"email":"a","boss":null,"pos":13}"#,
            ]
        )
    }

    @Test func `entries of ignored inserts do not make every later write scan them`() throws {
        let file = try file(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b TEXT)",
            rows: """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                INSERT INTO t SELECT i, 'a' || i, 'b' FROM n;
                """
        )
        try file.write("INSERT OR IGNORE INTO t SELECT -id, a, b FROM t")
        #expect(try file.value("SELECT count(*) FROM tidemark_evicted_t") == 2_000)
        let plans = try file.queue.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%evicted%'
                    """
            ).flatMap { trigger in
                // The statements of a trigger, with numbers for the rows.
                let body = try #require(trigger.split(separator: "BEGIN\n").last)
                return try body.split(separator: ";").dropLast().flatMap { statement in
                    let text = statement.replacing(/\b(NEW|OLD)\."\w+"/, with: "?1")
                    return try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN \(text)", arguments: [1]).map {
                        $0["detail"] as String
                    }
                }
            }
        }
        #expect(plans.contains { $0.contains("tidemark_noted_1_t") })
        #expect(plans.allSatisfy { !$0.hasPrefix("SCAN e") && !$0.hasPrefix("SCAN tidemark_ev") }, "\(plans)")
    }

    // MARK: Random statements

    private static let worlds = [
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, up INTEGER REFERENCES t ON DELETE SET NULL,
            pos INTEGER, UNIQUE (up, pos));
        """,
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, up INTEGER REFERENCES t ON DELETE CASCADE, pos INTEGER);
        CREATE UNIQUE INDEX places ON t (pos) WHERE up > 2;
        """,
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE,
            up INTEGER DEFAULT 1 REFERENCES t ON DELETE SET DEFAULT, pos INTEGER, UNIQUE (up, pos));
        """,
        """
        CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, a INTEGER UNIQUE,
            up TEXT REFERENCES t ON DELETE SET NULL, pos INTEGER, UNIQUE (up, pos)) WITHOUT ROWID;
        """,
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, up INTEGER REFERENCES t ON DELETE SET NULL,
            pos INTEGER, UNIQUE (up, pos));
        CREATE TRIGGER shift AFTER UPDATE OF a ON t WHEN NEW.a = 3
        BEGIN UPDATE OR REPLACE t SET pos = 2 WHERE id = 4; END;
        CREATE TRIGGER moved AFTER DELETE ON t WHEN OLD.pos = 1 BEGIN UPDATE t SET a = a + 10 WHERE id = 5; END;
        """,
        """
        CREATE TABLE t (id INTEGER, up INTEGER, a INTEGER UNIQUE, pos INTEGER, PRIMARY KEY (id),
            FOREIGN KEY (up, pos) REFERENCES t (id, a) ON DELETE SET NULL ON UPDATE CASCADE, UNIQUE (up, pos),
            UNIQUE (id, a));
        """,
    ]

    @Test(arguments: 0..<worlds.count, [false, true])
    func `for random statements, the captured changes equal the difference of the rows`(world: Int, recursive: Bool)
        throws
    {
        var random = SeededGenerator(seed: UInt64(world * 2 + (recursive ? 1 : 0)))
        for round in 0..<30 {
            let file = try file(
                Self.worlds[world],
                rows: "INSERT OR IGNORE INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
                recursive: recursive)
            var log: [String] = []
            for _ in 0..<4 {
                let before = try Self.rows(file)
                for _ in 0..<Int.random(in: 1...6, using: &random) {
                    let sql = Self.statement(&random, isText: world == 3)
                    // A statement that SQLite refuses leaves no trace, except `OR FAIL`.
                    do {
                        try file.writeWithoutTransaction(sql)
                        log.append(sql)
                    } catch let error as DatabaseError { log.append("\(sql) -- \(error.resultCode)") }
                }
                let after = try Self.rows(file)
                let capturedChanges = try file.changes()
                #expect(
                    Self.applied(capturedChanges, to: before) == after,
                    "world \(world), round \(round): \(log) \(capturedChanges)")
                guard Self.applied(capturedChanges, to: before) == after else { return }
            }
        }
    }

    private static func statement(_ random: inout SeededGenerator, isText: Bool) -> String {
        let number = { (random: inout SeededGenerator) in Int.random(in: 1...6, using: &random) }
        let or = ["", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL"][Int.random(in: 0..<5, using: &random)]
        let id = { (random: inout SeededGenerator) -> String in
            let value = number(&random)
            return isText ? (Bool.random(using: &random) ? "'k\(value)'" : "'K\(value)'") : "\(value)"
        }
        let mine = id(&random)
        let other = id(&random)
        let up = Bool.random(using: &random) ? "NULL" : other
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1:
            return
                "INSERT \(or) INTO t (id, a, up, pos) VALUES (\(mine), \(number(&random)), \(up), \(number(&random) % 3))"
        case 2: return "INSERT INTO t (id, a) VALUES (\(mine), \(number(&random))) ON CONFLICT DO UPDATE SET a = a + 1"
        case 3: return "DELETE FROM t WHERE id = \(mine)"
        case 4: return "UPDATE \(or) t SET a = \(number(&random)) WHERE id = \(mine)"
        case 5: return "UPDATE \(or) t SET up = \(up), pos = \(number(&random) % 3) WHERE id = \(mine)"
        case 6: return "UPDATE \(or) t SET id = \(other) WHERE id = \(mine)"
        default: return "UPDATE \(or) t SET a = a % 3, pos = pos + 1 WHERE a > \(number(&random))"
        }
    }

    /// All rows, by key.
    private static func rows(_ file: CapturedFile) throws -> [String: [String: String]] {
        try file.queue.write { db in
            try EngineConnection.prepare(db, schema: file.schema)
            let table = try #require(file.schema.byName["t"])
            let columns = table.valueColumns.map(\.name)
            let rows = try Row.fetchAll(
                db, sql: "SELECT \(RowJSON.key(table)) AS key, \(RowJSON.object(columns)) AS row FROM t")
            return try Dictionary(uniqueKeysWithValues: rows.map { ($0["key"], try members($0["row"])) })
        }
    }

    private static let parser = Result { try DatabaseQueue() }

    private static func members(_ json: String) throws -> [String: String] {
        try parser.get().read { db in
            let rows = try Row.fetchAll(
                db, sql: "SELECT key, json_quote(value) AS value FROM json_each(?)", arguments: [json])
            return Dictionary(uniqueKeysWithValues: rows.map { ($0["key"], $0["value"]) })
        }
    }

    /// The rows after captured changes.
    private static func applied(_ changes: [Change], to rows: [String: [String: String]]) -> [String: [String: String]]
    {
        var rows = rows
        for change in changes {
            guard change.operation != "delete" else {
                rows[change.key] = nil
                continue
            }
            // A JSON change from a query.
            let values = (try? members(change.attributes ?? "{}")) ?? [:]
            rows[change.key] = (change.operation == "create" ? [:] : rows[change.key] ?? [:]).merging(values) { $1 }
        }
        return rows
    }
}
