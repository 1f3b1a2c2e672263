import GRDB
import Synchronization
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Unique values move between records of change sets in any order, with placeholders in between.
@Suite struct ParkedValueTests {
    private static let people = """
        CREATE TABLE people (
            id INTEGER PRIMARY KEY,
            email TEXT NOT NULL UNIQUE,
            badge INTEGER UNIQUE CHECK (badge > 0),
            name TEXT DEFAULT 'nobody'
        );
        """

    private func people() throws -> WriterBench {
        try WriterBench(
            Self.people, rows: "INSERT INTO people VALUES (1, 'a', 10, 'A'), (2, 'b', 20, 'B'), (3, 'c', 30, 'C')")
    }

    @Test func `two records swap a unique value`() throws {
        let bench = try people()
        let swap = #"{"people":{"update":[1,2],"attributes":{"1":{"badge":20},"2":{"badge":10}}}}"#
        let error = #expect(throws: DatabaseError.self) { try bench.write(swap, parking: false) }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
        try bench.write(swap, parking: true)
        #expect(try bench.rows("SELECT id, badge FROM people ORDER BY id") == ["1 20", "2 10", "3 30"])
    }

    @Test func `three records of two change sets rotate a unique value`() throws {
        let bench = try people()
        let sets = """
            [{"people":{"update":[1,3],"attributes":{"1":{"email":"b"},"3":{"email":"a"}}}},
             {"people":{"update":[2],"attributes":{"2":{"email":"c"}}}}]
            """
        try bench.write(all: [sets], parking: true)
        #expect(try bench.rows("SELECT id, email, name FROM people ORDER BY id") == ["1 b A", "2 c B", "3 a C"])
    }

    @Test func `a unique value that two records have at the end is refused`() throws {
        let bench = try people()
        let error = #expect(throws: DatabaseError.self) {
            try bench.write(
                #"{"people":{"update":[1,2],"attributes":{"1":{"badge":20},"2":{"badge":20,"email":"x"}}}}"#,
                parking: true)
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
        #expect(try bench.rows("SELECT badge FROM people ORDER BY id") == ["10", "20", "30"])
    }

    @Test func `a CHECK is suspended for placeholders only`() throws {
        let bench = try people()
        let sets = [
            #"{"people":{"update":[1,2],"attributes":{"1":{"badge":20},"2":{"badge":-1}}}}"#,
            #"{"people":{"update":[1],"attributes":{"1":{"badge":-1}}}}"#,
        ]
        for (set, parking) in zip(sets, [true, false]) {
            let error = #expect(throws: DatabaseError.self) { try bench.write(set, parking: parking) }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_CHECK)
        }
        #expect(try bench.rows("PRAGMA ignore_check_constraints") == ["0"])
    }

    @Test(arguments: ["INTEGER", "REAL", "TEXT", "BLOB", "DECIMAL(5,2)", "DATE", ""])
    func `a swap works in a NOT NULL column of any type`(type: String) throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v \(type) NOT NULL UNIQUE CHECK (v > 0))",
            rows: "INSERT INTO t VALUES (1, 100), (2, 200)")
        try bench.write(#"{"t":{"update":[1,2],"attributes":{"1":{"v":200},"2":{"v":100}}}}"#, parking: true)
        #expect(try bench.rows("SELECT id, CAST(v AS INTEGER) FROM t ORDER BY id") == ["1 200", "2 100"])
    }

    @Test(arguments: [
        ("TEXT", "5.0", "7.0"), ("TEXT", "1e20", "2e20"), ("TEXT", "5", "7"), ("INTEGER", #""5.0""#, #""7""#),
        ("REAL", #""1e20""#, #"" 7 ""#), ("NUMERIC", #""1e2""#, "7.0"),
    ]) func `a swap works with values that the column stores as another type`(type: String, one: String, other: String)
        throws
    {
        let bench = try WriterBench("CREATE TABLE t (id INTEGER PRIMARY KEY, v \(type) UNIQUE)")
        try bench.write(#"{"t":{"create":[1,2],"attributes":{"1":{"v":\#(one)},"2":{"v":\#(other)}}}}"#)
        let before = try bench.rows("SELECT quote(v) FROM t ORDER BY id")
        try bench.write(#"{"t":{"update":[1,2],"attributes":{"1":{"v":\#(other)},"2":{"v":\#(one)}}}}"#, parking: true)
        #expect(try bench.rows("SELECT quote(v) FROM t ORDER BY id") == before.reversed())
    }

    @Test func `a swap of values that Unicode calls equivalent works`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE)",
            rows: "INSERT INTO t VALUES (1, char(0xe9)), (2, 'e' || char(0x301))")
        let set = "{\"t\":{\"update\":[1,2],\"attributes\":{\"1\":{\"v\":\"e\u{301}\"},\"2\":{\"v\":\"\u{e9}\"}}}}"
        try bench.write(set, parking: true)
        #expect(try bench.rows("SELECT hex(v) FROM t ORDER BY id") == ["65CC81", "C3A9"])
    }

    @Test(arguments: [(1, 2), (2, 1)])
    func `a record takes a pair of values from one that changes only the second`(taker: Int, holder: Int) throws {
        let bench = try WriterBench(
            "CREATE TABLE seat (id INTEGER PRIMARY KEY, place INTEGER, number INTEGER, UNIQUE (place, number))",
            rows: "INSERT INTO seat VALUES (\(taker), 1, 2), (\(holder), 3, 2)")
        try bench.write(
            #"{"seat":{"update":[1,2],"attributes":{"\#(taker)":{"place":3},"\#(holder)":{"number":5}}}}"#,
            parking: true)
        #expect(try bench.rows("SELECT place, number FROM seat WHERE id = \(taker)") == ["3 2"])
        #expect(try bench.rows("SELECT place, number FROM seat WHERE id = \(holder)") == ["3 5"])
    }

    @Test func `records that share a unique pair swap one half of it`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b TEXT NOT NULL, UNIQUE (a, b))",
            rows: "INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'y')")
        try bench.write(#"{"t":{"update":[1,2],"attributes":{"1":{"b":"y"},"2":{"b":"x"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 1 y", "2 1 x"])
    }

    // MARK: Partial indexes

    @Test(arguments: [(1, 2), (2, 1)])
    func `the one primary address changes under a partial unique index`(old: Int, new: Int) throws {
        let bench = try WriterBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, person INTEGER NOT NULL, counts INTEGER NOT NULL, note TEXT);
            CREATE UNIQUE INDEX i ON t (person) WHERE counts;
            """,
            rows: "INSERT INTO t VALUES (\(old), 7, 1, 'old'), (\(new), 7, 0, 'new')"
        )
        let attributes = #"{"\#(old)":{"counts":0},"\#(new)":{"counts":1}}"#
        try bench.write(#"{"t":{"update":[1,2],"attributes":\#(attributes)}}"#, parking: true)
        #expect(try bench.rows("SELECT person, counts, note FROM t WHERE id = \(new)") == ["7 1 new"])
        #expect(try bench.rows("SELECT person, counts, note FROM t WHERE id = \(old)") == ["7 0 old"])
    }

    @Test(arguments: [(1, 2), (2, 1)])
    func `the one primary address changes under a partial index of an expression`(old: Int, new: Int) throws {
        let bench = try WriterBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT, gone TEXT);
            CREATE UNIQUE INDEX i ON t (lower(mail)) WHERE gone IS NULL;
            """,
            rows: "INSERT INTO t VALUES (\(old), 'a', NULL), (\(new), 'A', 'once')"
        )
        let attributes = #"{"\#(old)":{"gone":"now"},"\#(new)":{"gone":null}}"#
        try bench.write(#"{"t":{"update":[1,2],"attributes":\#(attributes)}}"#, parking: true)
        #expect(try bench.rows("SELECT mail FROM t WHERE gone IS NULL") == ["A"])
        #expect(try bench.rows("SELECT mail FROM t WHERE gone = 'now'") == ["a"])
    }

    @Test func `a new record takes the name of one archived in the same change set`() throws {
        let bench = try WriterBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT, gone TEXT);
            CREATE UNIQUE INDEX i ON t (mail) WHERE gone IS NULL;
            """,
            rows: "INSERT INTO t VALUES (1, 'a', NULL)"
        )
        let set = #"{"t":{"create":[2],"update":[1],"attributes":{"2":{"mail":"a"},"1":{"gone":"2026-11-23"}}}}"#
        try bench.write(set, parking: true)
        #expect(try bench.rows("SELECT id, mail, gone FROM t ORDER BY id") == ["1 a 2026-11-23", "2 a null"])
    }

    // MARK: Values that are hard to compare

    @Test func `a record takes a name that an index considers equal`() throws {
        let bench = try WriterBench(
            """
            CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT);
            CREATE UNIQUE INDEX by_name ON file (name COLLATE NOCASE);
            """,
            rows: "INSERT INTO file VALUES (1, 'a'), (2, 'b')"
        )
        try bench.write(#"{"file":{"update":[1,2],"attributes":{"1":{"name":"B"},"2":{"name":"c"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT name FROM file ORDER BY id") == ["B", "c"])
    }

    @Test func `a new record takes a name by its column's default`() throws {
        let bench = try WriterBench(
            "CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT UNIQUE DEFAULT 'a')",
            rows: "INSERT INTO file VALUES (1, 'a')")
        try bench.write(#"{"file":{"create":[3],"update":[1],"attributes":{"1":{"name":"c"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT name FROM file ORDER BY id") == ["c", "a"])
    }

    @Test func `a sum in a unique pair keeps the number it adds to`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, v TEXT NOT NULL, UNIQUE (n, v))",
            rows: "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'x')", policies: ["t.n": .add])
        try bench.write(
            #"{"t":{"update":[1,2],"attributes":{"1":{"n":{"$add":1}},"2":{"n":{"$add":5},"v":"y"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 2 x", "2 7 y"])
    }

    @Test(arguments: [
        ("slug TEXT AS (lower(v)) STORED UNIQUE", ""), ("w", "CREATE UNIQUE INDEX i ON t (lower(v))"),
        ("w CHECK (v > '')", "CREATE UNIQUE INDEX i ON t (lower(v))"),
    ]) func `a swap works under a computed unique value`(column: String, index: String) throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, \(column)); \(index)",
            rows: "INSERT INTO t (id, v) VALUES (1, 'a'), (2, 'b')")
        try bench.write(#"{"t":{"update":[1,2],"attributes":{"1":{"v":"b"},"2":{"v":"a"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT v FROM t ORDER BY id") == ["b", "a"])
    }

    @Test func `where no placeholder has a computed value, the other values are parked`() throws {
        let bench = try WriterBench(
            """
            CREATE TABLE doc (id INTEGER PRIMARY KEY, place INTEGER NOT NULL UNIQUE, body TEXT NOT NULL,
                slug TEXT AS (body ->> 'slug') NOT NULL UNIQUE);
            """,
            rows: #"""
                INSERT INTO doc (id, place, body) VALUES (1, 10, '{"slug":"a"}'), (2, 20, '{"slug":"b"}')
                """#
        )
        try bench.write(
            #"{"doc":{"update":[1,2],"attributes":{"1":{"place":20,"body":"{\"slug\":\"c\"}"},"2":{"place":10}}}}"#,
            parking: true)
        #expect(try bench.rows("SELECT id, place, slug FROM doc ORDER BY id") == ["1 20 c", "2 10 b"])
    }

    // MARK: Deletions and references

    private static let parents = """
        CREATE TABLE audit (what TEXT);
        CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE part (id INTEGER PRIMARY KEY, file INTEGER REFERENCES file);
        CREATE TRIGGER updated AFTER UPDATE ON file BEGIN
            INSERT INTO audit VALUES ('update ' || OLD.name || ' to ' || coalesce(NEW.name, 'NULL')); END;
        CREATE TRIGGER deleted AFTER DELETE ON file BEGIN
            INSERT INTO audit VALUES ('delete ' || coalesce(OLD.name, 'NULL')); END;
        """

    @Test func `a parent that goes passes its name on, and keeps it if nobody takes it`() throws {
        let bench = try WriterBench(Self.parents, rows: "INSERT INTO file VALUES (1, 'a'), (2, 'b')")
        try bench.write(#"{"file":{"create":[3],"delete":[1,2],"attributes":{"3":{"name":"b"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT id, name FROM file") == ["3 b"])
        #expect(
            try bench.rows("SELECT what FROM audit ORDER BY what") == ["delete NULL", "delete a", "update b to NULL"])
    }

    @Test func `triggers see only the new values, where no record takes the value of another`() throws {
        let bench = try WriterBench(Self.parents, rows: "INSERT INTO file VALUES (1, 'a'), (2, NULL), (3, 'null')")
        let attributes = #"{"1":{"name":"x"},"2":{"name":"y"},"3":{"name":"z"},"4":{"name":null}}"#
        try bench.write(#"{"file":{"create":[4],"update":[1,2,3],"attributes":\#(attributes)}}"#, parking: true)
        #expect(
            try bench.rows("SELECT what FROM audit ORDER BY what") == ["null", "update a to x", "update null to z"])
    }

    @Test func `a referenced value that is swapped keeps its children`() throws {
        let bench = try WriterBench(
            """
            CREATE TABLE code (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE use (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (name) ON UPDATE SET NULL);
            """,
            rows: "INSERT INTO code VALUES (1, 'a'), (2, 'b')"
        )
        try bench.write(#"{"code":{"update":[1,2],"attributes":{"1":{"name":"b"},"2":{"name":"a"}}}}"#, parking: true)
        #expect(try bench.rows("SELECT id, name FROM code ORDER BY id") == ["1 b", "2 a"])
    }

    // MARK: Cost

    @Test func `any number of parked records share a statement`() throws {
        let bench = try WriterBench("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER NOT NULL UNIQUE, w TEXT UNIQUE)")
        let ids = Array(1...200)
        let attributes = { (shift: Int) in
            ids.map { #""\#($0)":{"v":\#(($0 + shift) % 200),"w":"\#(($0 + shift) % 200)"}"# }.joined(separator: ",")
        }
        let list = ids.map(String.init).joined(separator: ",")
        try bench.write(#"{"t":{"create":[\#(list)],"attributes":{\#(attributes(0))}}}"#)
        let statements = Mutex<Set<String>>([])
        bench.queue.writeWithoutTransaction { db in
            db.trace { event in
                guard case .statement(let statement) = event, statement.sql.contains(#"main."t""#) else { return }
                statements.withLock { _ = $0.insert(statement.sql) }
            }
        }
        try bench.write(#"{"t":{"update":[\#(list)],"attributes":{\#(attributes(1))}}}"#, parking: true)
        #expect(try bench.rows("SELECT v, w FROM t WHERE id = 200") == ["1 1"])
        #expect(statements.withLock(\.count) == 3)
    }
}
