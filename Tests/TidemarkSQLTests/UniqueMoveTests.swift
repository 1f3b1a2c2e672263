import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Unique values that move between records, beside triggers of the program that see each update.
@Suite struct UniqueMoveTests {
    private static let audit = """
        CREATE TABLE audit (what TEXT);
        CREATE TRIGGER updated AFTER UPDATE ON file BEGIN
            INSERT INTO audit VALUES ('update ' || OLD.name || ' to ' || coalesce(NEW.name, 'NULL')); END;
        CREATE TRIGGER deleted AFTER DELETE ON file BEGIN
            INSERT INTO audit VALUES ('delete ' || coalesce(OLD.name, 'NULL')); END;
        """
    private static let rows = "INSERT INTO file (id, name) VALUES (1, 'a'), (2, 'b')"

    private func bench(_ file: String = "CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT UNIQUE);") throws
        -> TableBench
    { try TableBench(file + Self.audit, rows: Self.rows) }

    @Test(arguments: TableBench.Writer.allCases)
    func `a trigger sees a deletion whose name a new record takes, and no update before it`(writer: TableBench.Writer)
        throws
    {
        let bench = try bench()
        try bench.apply(#"{"file":{"create":[3],"delete":[1],"attributes":{"3":{"name":"a"}}}}"#, by: writer)
        #expect(try bench.rows("SELECT what FROM audit") == ["delete a"])
        #expect(try bench.rows("SELECT name FROM file ORDER BY id") == ["b", "a"])
    }

    @Test(arguments: TableBench.Writer.allCases)
    func `a trigger sees only the new names, where no record takes the name of another`(writer: TableBench.Writer)
        throws
    {
        let bench = try bench()
        let set =
            #"{"file":{"create":[3],"update":[1,2],"attributes":{"1":{"name":"x"},"2":{"name":"y"},"3":{"name":"z"}}}}"#
        try bench.apply(set, by: writer)
        #expect(try bench.rows("SELECT what FROM audit ORDER BY what") == ["update a to x", "update b to y"])
    }

    @Test func `a parent that goes keeps its name to the end, if nobody takes it`() throws {
        let bench = try bench(
            """
            CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE part (id INTEGER PRIMARY KEY, file INTEGER REFERENCES file);
            """
        )
        try bench.apply(#"{"file":{"create":[3],"delete":[1],"attributes":{"3":{"name":"c"}}}}"#)
        #expect(try bench.rows("SELECT what FROM audit") == ["delete a"])
        try bench.apply(#"{"file":{"create":[4],"delete":[2],"attributes":{"4":{"name":"b"}}}}"#)
        #expect(try bench.rows("SELECT name FROM file ORDER BY id") == ["c", "b"])
    }

    @Test func `a record takes a pair of values from one that changes only the second`() throws {
        let bench = try TableBench(
            "CREATE TABLE seat (id INTEGER PRIMARY KEY, place INTEGER, number INTEGER, UNIQUE (place, number))",
            rows: "INSERT INTO seat VALUES (1, 1, 2), (2, 3, 2)")
        try bench.apply(#"{"seat":{"update":[1,2],"attributes":{"1":{"place":3},"2":{"number":5}}}}"#)
        #expect(try bench.rows("SELECT place, number FROM seat ORDER BY id") == ["3 2", "3 5"])
    }

    @Test func `a record takes a name that an index considers equal`() throws {
        let bench = try bench(
            """
            CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT);
            CREATE UNIQUE INDEX by_name ON file (name COLLATE NOCASE);
            """
        )
        try bench.apply(#"{"file":{"update":[1,2],"attributes":{"1":{"name":"B"},"2":{"name":"c"}}}}"#)
        #expect(try bench.rows("SELECT name FROM file ORDER BY id") == ["B", "c"])
    }

    @Test func `a new record takes a name by its column's default`() throws {
        let bench = try bench("CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT UNIQUE DEFAULT 'a');")
        try bench.apply(#"{"file":{"create":[3],"update":[1],"attributes":{"1":{"name":"c"}}}}"#)
        #expect(try bench.rows("SELECT name FROM file ORDER BY id") == ["c", "b", "a"])
    }
}
