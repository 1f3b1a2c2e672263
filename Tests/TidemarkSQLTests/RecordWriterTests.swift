import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Every valid final state must be reachable, whatever the intermediate states.
@Suite struct RecordWriterTests {
    private static let people = """
        CREATE TABLE people (
            id INTEGER PRIMARY KEY,
            email TEXT NOT NULL UNIQUE,
            badge INTEGER UNIQUE CHECK (badge > 0),
            name TEXT DEFAULT 'nobody'
        );
        """

    private func people() throws -> TableBench {
        try TableBench(
            Self.people, rows: "INSERT INTO people VALUES (1, 'a', 10, 'A'), (2, 'b', 20, 'B'), (3, 'c', 30, 'C')")
    }

    @Test(arguments: TableBench.Writer.allCases) func `two records swap a unique value`(writer: TableBench.Writer)
        throws
    {
        let bench = try people()
        try bench.apply(#"{"people":{"update":[1,2],"attributes":{"1":{"badge":20},"2":{"badge":10}}}}"#, by: writer)
        #expect(try bench.rows("SELECT id, badge FROM people ORDER BY id") == ["1 20", "2 10", "3 30"])
    }

    @Test func `three records rotate a unique value`() throws {
        let bench = try people()
        try bench.apply(
            """
            {"people":{"update":[1,2,3],"attributes":{
                "1":{"email":"b"},"2":{"email":"c"},"3":{"email":"a"}}}}
            """
        )
        #expect(try bench.rows("SELECT id, email, name FROM people") == ["1 b A", "2 c B", "3 a C"])
    }

    @Test func `a record takes one unique value and frees another`() throws {
        let bench = try people()
        try bench.apply(
            """
            {"people":{"update":[1,2],"attributes":{
                "1":{"email":"new","badge":20},"2":{"email":"a","badge":40}}}}
            """
        )
        #expect(try bench.rows("SELECT id, email, badge FROM people") == ["1 new 20", "2 a 40", "3 c 30"])
    }

    @Test func `a new record takes the unique value of a deleted one`() throws {
        let bench = try people()
        try bench.apply(
            """
            {"people":{"create":[9],"delete":[2],"attributes":{"9":{"email":"b","badge":20}}}}
            """
        )
        #expect(
            try bench.rows("SELECT id, email, badge, name FROM people") == ["1 a 10 A", "3 c 30 C", "9 b 20 nobody"])
    }

    @Test func `a server refuses to create an existing record`() throws {
        let bench = try people()
        #expect(throws: DatabaseError.self) {
            try bench.apply(#"{"people":{"create":[1],"attributes":{"1":{"email":"z"}}}}"#)
        }
        #expect(try bench.rows("SELECT count(*), min(email) FROM people") == ["3 a"])
    }

    @Test func `a device overwrites an existing record on a creation`() throws {
        let bench = try people()
        try bench.apply(
            """
            {"people":{"create":[1,2],"attributes":{
                "1":{"email":"b","badge":20,"name":"X"},"2":{"email":"a","badge":10,"name":"Y"}}}}
            """,
            by: .device
        )
        #expect(try bench.rows("SELECT * FROM people") == ["1 b 20 X", "2 a 10 Y", "3 c 30 C"])
    }

    @Test func `a unique value that two records have at the end is refused`() throws {
        let bench = try people()
        let error = #expect(throws: DatabaseError.self) {
            try bench.apply(#"{"people":{"update":[1,2],"attributes":{"1":{"badge":50},"2":{"badge":50}}}}"#)
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
        #expect(try bench.rows("SELECT badge FROM people") == ["10", "20", "30"])
    }

    @Test func `parking suspends a CHECK for placeholder values only`() throws {
        let bench = try people()
        let error = #expect(throws: DatabaseError.self) {
            try bench.apply(#"{"people":{"update":[1,2],"attributes":{"1":{"badge":20},"2":{"badge":-1}}}}"#)
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_CHECK)
        #expect(try bench.rows("PRAGMA ignore_check_constraints") == ["0"])
    }

    @Test(arguments: ["INTEGER", "REAL", "TEXT", "BLOB", "DECIMAL(5,2)", "DATE", ""])
    func `a swap works in a NOT NULL column of any type`(type: String) throws {
        let bench = try TableBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v \(type) NOT NULL UNIQUE)",
            rows: "INSERT INTO t VALUES (1, 100), (2, 200)")
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"v":200},"2":{"v":100}}}}"#)
        #expect(try bench.rows("SELECT id, CAST(v AS INTEGER) FROM t") == ["1 200", "2 100"])
    }

    @Test(arguments: ["INTEGER", "REAL", "TEXT", "BLOB", "INT", "ANY"]) func `a swap works in a STRICT table`(
        type: String
    ) throws {
        let literal = ["TEXT": #""x""#, "BLOB": #"{"$blob":"AA=="}"#][type] ?? "1"
        let other = ["TEXT": #""y""#, "BLOB": #"{"$blob":"AQ=="}"#][type] ?? "2"
        let bench = try TableBench("CREATE TABLE t (id INTEGER PRIMARY KEY, v \(type) NOT NULL UNIQUE) STRICT")
        try bench.apply(#"{"t":{"create":[1,2],"attributes":{"1":{"v":\#(literal)},"2":{"v":\#(other)}}}}"#)
        let before = try bench.rows("SELECT quote(v) FROM t ORDER BY id")
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"v":\#(other)},"2":{"v":\#(literal)}}}}"#)
        #expect(try bench.rows("SELECT quote(v) FROM t ORDER BY id") == before.reversed())
    }

    @Test func `a swap works if the unique column is generated`() throws {
        let bench = try TableBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, folded TEXT AS (lower(v)) STORED UNIQUE)",
            rows: "INSERT INTO t (id, v) VALUES (1, 'a'), (2, 'b')")
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"v":"b"},"2":{"v":"a"}}}}"#)
        #expect(try bench.rows("SELECT id, folded FROM t") == ["1 b", "2 a"])
    }

    private static let slugsAreSwapped =
        #"{"doc":{"update":[1,2],"attributes":{"1":{"body":"{\"slug\":\"b\"}"},"2":{"body":"{\"slug\":\"a\"}"}}}}"#
    private static let slugsAreNew =
        #"{"doc":{"update":[1,2],"attributes":{"1":{"body":"{\"slug\":\"d\"}"},"2":{"body":"{\"slug\":\"e\"}"}}}}"#
    private static let onePassesItsSlugOn =
        #"{"doc":{"create":[9],"delete":[1],"attributes":{"9":{"body":"{\"slug\":\"d\"}"}}}}"#
    private static let oneIsReplaced =
        #"{"doc":{"create":[9],"delete":[1],"attributes":{"9":{"body":"{\"slug\":\"f\"}"}}}}"#
    private static let slugs = "SELECT id, body ->> 'slug' FROM doc ORDER BY id"

    /// JSON documents with a unique generated column.
    private func documents(_ columns: String, _ index: String) throws -> TableBench {
        try TableBench(
            "CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT NOT NULL\(columns)); \(index)",
            rows: #"""
                INSERT INTO doc (id, body)
                VALUES (1, '{"slug":"a"}'), (2, '{"slug":"b"}'), (3, '{"slug":"c"}')
                """#
        )
    }

    @Test(arguments: [
        (", slug TEXT AS (json_extract(body, '$.slug')) UNIQUE", ""),
        (", slug TEXT AS (body ->> 'slug') STORED UNIQUE, CHECK (json_valid(body))", ""),
        (", CHECK (body ->> 'slug' > '')", "CREATE UNIQUE INDEX i ON doc (body ->> 'slug')"),
    ]) func `JSON documents change and pass on the unique value of a generated column`(columns: String, index: String)
        throws
    {
        let bench = try documents(columns, index)
        try bench.apply(Self.slugsAreSwapped)
        #expect(try bench.rows(Self.slugs) == ["1 b", "2 a", "3 c"])
        try bench.apply(Self.slugsAreNew)
        #expect(try bench.rows(Self.slugs) == ["1 d", "2 e", "3 c"])
        try bench.apply(Self.onePassesItsSlugOn)
        #expect(try bench.rows(Self.slugs) == ["2 e", "3 c", "9 d"])
    }

    @Test(arguments: [
        (", slug TEXT AS (body ->> 'slug') NOT NULL UNIQUE", ""),
        ("", "CREATE UNIQUE INDEX i ON doc (substr(body, 10, 1))"),
    ]) func `a JSON document changes where no placeholder text has a unique value`(columns: String, index: String)
        throws
    {
        let bench = try documents(columns, index)
        try bench.apply(Self.slugsAreNew)
        #expect(try bench.rows(Self.slugs) == ["1 d", "2 e", "3 c"])
        try bench.apply(Self.oneIsReplaced)
        #expect(try bench.rows(Self.slugs) == ["2 e", "3 c", "9 f"])
        let error = #expect(throws: DatabaseError.self) {
            try bench.apply(
                #"{"doc":{"update":[2,3],"attributes":{"2":{"body":"{\"slug\":\"x\"}"},"3":{"body":"{\"slug\":\"x\"}"}}}}"#
            )
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
    }

    @Test func `two JSON documents swap unique slugs where no placeholder text has one`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE doc (id INTEGER PRIMARY KEY, place INTEGER NOT NULL UNIQUE, body TEXT NOT NULL,
                slug TEXT AS (body ->> 'slug') NOT NULL UNIQUE);
            """,
            rows: #"""
                INSERT INTO doc (id, place, body)
                VALUES (1, 10, '{"slug":"a"}'), (2, 20, '{"slug":"b"}')
                """#
        )
        try bench.apply(
            #"{"doc":{"update":[1,2],"attributes":{"1":{"place":20,"body":"{\"slug\":\"c\"}"},"2":{"place":10}}}}"#)
        #expect(try bench.rows("SELECT id, place, slug FROM doc") == ["1 20 c", "2 10 b"])
    }

    @Test func `a swap works under a unique index on an expression`() throws {
        let bench = try TableBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); CREATE UNIQUE INDEX i ON t (lower(v))",
            rows: "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"v":"b"},"2":{"v":"a"}}}}"#)
        #expect(try bench.rows("SELECT id, v FROM t") == ["1 b", "2 a"])
    }

    @Test(arguments: ["REPLACE", "IGNORE", "ROLLBACK"])
    func `rule 22: a table's ON CONFLICT clause does not delete another record`(clause: String) throws {
        let bench = try TableBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE ON CONFLICT \(clause))",
            rows: "INSERT INTO t VALUES (1, 'work')")
        for writer in TableBench.Writer.allCases {
            #expect(throws: DatabaseError.self) {
                try bench.apply(#"{"t":{"create":[-1],"attributes":{"-1":{"v":"work"}}}}"#, by: writer)
            }
        }
        #expect(try bench.rows("SELECT * FROM t") == ["1 work"])
    }

    @Test(arguments: TableBench.Writer.allCases)
    func `the one primary address changes under a partial unique index, in either order`(writer: TableBench.Writer)
        throws
    {
        for (old, new) in [(1, 2), (2, 1)] {
            let bench = try TableBench(
                """
                CREATE TABLE t (id INTEGER PRIMARY KEY, person INTEGER NOT NULL, counts INTEGER NOT NULL);
                CREATE UNIQUE INDEX i ON t (person) WHERE counts;
                """,
                rows: "INSERT INTO t VALUES (\(old), 7, 1), (\(new), 7, 0)"
            )
            let attributes = #"{"\#(old)":{"counts":0},"\#(new)":{"counts":1}}"#
            try bench.apply(#"{"t":{"update":[1,2],"attributes":\#(attributes)}}"#, by: writer)
            #expect(try bench.rows("SELECT id, person FROM t WHERE counts") == ["\(new) 7"])
            #expect(try bench.rows("SELECT count(*) FROM t WHERE person = 7") == ["2"])
        }
    }

    @Test(arguments: [(1, 2), (2, 1)])
    func `the one primary address changes under a partial NOCASE index, in either order`(old: Int, new: Int) throws {
        let bench = try TableBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT, gone TEXT);
            CREATE UNIQUE INDEX i ON t (lower(mail)) WHERE gone IS NULL;
            """,
            rows: "INSERT INTO t VALUES (\(old), 'a', NULL), (\(new), 'A', 'once')"
        )
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"\#(old)":{"gone":"now"},"\#(new)":{"gone":null}}}}"#)
        #expect(try bench.rows("SELECT mail FROM t WHERE gone IS NULL") == ["A"])
        #expect(try bench.rows("SELECT mail FROM t WHERE gone = 'now'") == ["a"])
    }

    @Test func `an update outside any partial index parks nothing and fires no extra trigger`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT, gone TEXT, qty INTEGER NOT NULL);
            CREATE UNIQUE INDEX i ON t (code) WHERE gone IS NULL;
            CREATE TRIGGER positive BEFORE UPDATE OF qty ON t WHEN NEW.qty < 0
                BEGIN SELECT RAISE(ABORT, 'less than nothing'); END;
            """,
            rows: "INSERT INTO t VALUES (1, 'a', NULL, 1), (2, 'b', NULL, 2)"
        )
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"qty":10},"2":{"qty":20}}}}"#)
        #expect(try bench.rows("SELECT code, qty FROM t") == ["a 10", "b 20"])
    }

    @Test func `a restored record takes the name of one archived in the same change set`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT, gone TEXT);
            CREATE UNIQUE INDEX i ON t (mail) WHERE gone IS NULL;
            """,
            rows: "INSERT INTO t VALUES (1, 'a', NULL)"
        )
        try bench.apply(
            """
            {"t":{"create":[-1],"update":[1],"attributes":{
                "-1":{"mail":"a"},"1":{"gone":"2026-11-23"}}}}
            """
        )
        #expect(try bench.rows("SELECT id, mail FROM t ORDER BY gone IS NULL") == ["1 a", "-1 a"])
    }

    @Test func `records that share a unique pair swap one half of it`() throws {
        let bench = try TableBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b TEXT NOT NULL, UNIQUE (a, b))",
            rows: "INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'y')")
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"b":"y"},"2":{"b":"x"}}}}"#)
        #expect(try bench.rows("SELECT * FROM t") == ["1 1 y", "2 1 x"])
    }

    @Test func `two children swap their unique parents`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE seats (id INTEGER PRIMARY KEY);
            CREATE TABLE guests (id INTEGER PRIMARY KEY, seat INTEGER NOT NULL UNIQUE REFERENCES seats);
            """,
            rows: "INSERT INTO seats VALUES (1), (2); INSERT INTO guests VALUES (7, 1), (8, 2)"
        )
        try bench.apply(#"{"guests":{"update":[7,8],"attributes":{"7":{"seat":2},"8":{"seat":1}}}}"#)
        #expect(try bench.rows("SELECT * FROM guests") == ["7 2", "8 1"])
    }

    @Test func `a trigger's own OR REPLACE holds while records are created and updated`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, x);
            CREATE TABLE counts (tbl TEXT PRIMARY KEY, n INTEGER);
            CREATE TRIGGER c AFTER INSERT ON note BEGIN INSERT OR REPLACE INTO counts VALUES ('i', NEW.id); END;
            CREATE TRIGGER u AFTER UPDATE ON note BEGIN INSERT OR REPLACE INTO counts VALUES ('u', NEW.x); END;
            """,
            rows: "INSERT INTO note VALUES (1, 1); UPDATE note SET x = 2"
        )
        try bench.apply(#"{"note":{"create":[-1],"update":[1],"attributes":{"-1":{"x":5},"1":{"x":7}}}}"#)
        #expect(try bench.rows("SELECT * FROM counts ORDER BY tbl") == ["i -1", "u 7"])
    }
}
