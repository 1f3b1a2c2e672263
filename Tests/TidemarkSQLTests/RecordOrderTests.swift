import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Parents, children and defaults: the order in which records are written.
@Suite struct RecordOrderTests {
    private func lists(onDelete action: String) throws -> TableBench {
        try TableBench(
            """
            CREATE TABLE items (id INTEGER PRIMARY KEY, list INTEGER NOT NULL REFERENCES lists ON DELETE \(action));
            CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT);
            """,
            rows: "INSERT INTO lists VALUES (1, 'L'), (2, 'M'); INSERT INTO items VALUES (10, 1), (11, 1)"
        )
    }

    @Test(arguments: ["NO ACTION", "CASCADE", "RESTRICT", "SET NULL"])
    func `a child leaves the parent that the same set deletes`(action: String) throws {
        let bench = try lists(onDelete: action)
        try bench.apply(
            """
            {"lists":{"delete":[1]},"items":{"update":[10],"delete":[11],"attributes":{"10":{"list":2}}}}
            """
        )
        #expect(try bench.rows("SELECT id, list FROM items") == ["10 2"])
        #expect(try bench.rows("SELECT id FROM lists") == ["2"])
    }

    @Test func `a parent and its child arrive in one set, with the child's table first`() throws {
        let bench = try lists(onDelete: "NO ACTION")
        try bench.apply(#"{"items":{"create":[12],"attributes":{"12":{"list":3}}},"lists":{"create":[3]}}"#)
        #expect(try bench.rows("SELECT id FROM items WHERE list = 3") == ["12"])
    }

    @Test func `a child without a parent is detected, and the set is rolled back`() throws {
        let bench = try lists(onDelete: "NO ACTION")
        #expect(throws: DatabaseError.self) { try bench.apply(#"{"lists":{"delete":[1]}}"#) }
        #expect(try bench.rows("SELECT count(*) FROM lists") == ["2"])
    }

    @Test func `a dangling reference is named`() throws {
        let bench = try lists(onDelete: "NO ACTION")
        let broken = try bench.queue.writeWithoutTransaction { db in
            try EngineConnection.prepare(db, schema: bench.schema)
            try db.execute(sql: "BEGIN; PRAGMA defer_foreign_keys = ON; DELETE FROM lists WHERE id = 1")
            let check = ForeignKeyCheck(db, schema: bench.schema)
            #expect(check.hasUnresolvedReferences)
            let broken = try check.all()
            try db.execute(sql: "ROLLBACK")
            return broken
        }
        #expect(broken.map(\.key) == ["10", "11"])
        #expect(
            broken.first
                == BrokenReference(
                    table: "items", key: "10", column: "list", parent: "lists", parentKey: "1", isToKey: true))
    }

    @Test func `one set deletes a tree of any depth`() throws {
        let bench = try TableBench(
            "CREATE TABLE nodes (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES nodes ON DELETE RESTRICT)",
            rows: "INSERT INTO nodes VALUES (1, NULL), (2, 1), (3, 2), (4, 3)")
        try bench.apply(#"{"nodes":{"delete":[1,2,3,4]}}"#)
        #expect(try bench.rows("SELECT count(*) FROM nodes") == ["0"])
    }

    @Test func `one set creates records of two tables that reference each other`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE teams (id INTEGER PRIMARY KEY, captain INTEGER NOT NULL REFERENCES players);
            CREATE TABLE players (id INTEGER PRIMARY KEY, team INTEGER NOT NULL REFERENCES teams);
            """
        )
        try bench.apply(
            """
            {"teams":{"create":[1],"attributes":{"1":{"captain":7}}},
             "players":{"create":[7],"attributes":{"7":{"team":1}}}}
            """
        )
        #expect(try bench.rows("SELECT captain FROM teams") == ["7"])
    }

    @Test func `omitted columns get their defaults, record by record`() throws {
        let bench = try TableBench(
            """
            CREATE TABLE t (
                id INTEGER PRIMARY KEY,
                a TEXT NOT NULL DEFAULT 'it''s',
                b INTEGER DEFAULT (1 + 2),
                c REAL DEFAULT -1.5,
                d
            );
            """
        )
        try bench.apply(
            """
            {"t":{"create":[1,2,3],"attributes":{
                "1":{"a":"x"},"2":{"b":null,"d":"y"},"3":{"c":2.5}}}}
            """
        )
        #expect(
            try bench.rows("SELECT id, a, quote(b), c, quote(d) FROM t") == [
                "1 x 3 -1.5 NULL", "2 it's NULL -1.5 'y'", "3 it's 3 2.5 NULL",
            ]
        )
    }

    @Test func `updates of different columns leave the other columns unchanged`() throws {
        let bench = try TableBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)",
            rows: "INSERT INTO t VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2')")
        try bench.apply(#"{"t":{"update":[1,2],"attributes":{"1":{"a":null},"2":{"b":"new"}}}}"#)
        #expect(try bench.rows("SELECT quote(a), quote(b) FROM t") == ["NULL 'b1'", "'a2' 'new'"])
    }

    @Test func `updates of missing records are counted`() throws {
        let bench = try TableBench("CREATE TABLE t (id INTEGER PRIMARY KEY, a)", rows: "INSERT INTO t VALUES (1, 0)")
        let body = Array(#"[{"t":{"update":[1,2],"attributes":{"1":{"a":1},"2":{"a":2}}}}]"#.utf8)
        let unmatched = try bench.queue.write { try bench.write(body, by: .device, in: $0) }
        #expect(unmatched == 1)
    }

    @Test func `all of a table's hundred columns are written`() throws {
        let names = (1...100).map { "c\($0)" }
        let bench = try TableBench("CREATE TABLE wide (id INTEGER PRIMARY KEY, \(names.joined(separator: ", ")))")
        let first = names.map { #""\#($0)":"\#($0)""# }.joined(separator: ",")
        try bench.apply(#"{"wide":{"create":[1,2],"attributes":{"1":{\#(first)},"2":{"c7":7}}}}"#)
        #expect(try bench.rows("SELECT \(names.joined(separator: "||")) FROM wide WHERE id = 1") == [names.joined()])
        #expect(try bench.rows("SELECT c7, quote(c8) FROM wide WHERE id = 2") == ["7 NULL"])
    }

    @Test(arguments: ["", "WITHOUT ROWID"]) func `composite keys are created, updated and deleted by all parts`(
        options: String
    ) throws {
        let bench = try TableBench(
            "CREATE TABLE m (a INTEGER, b TEXT, v, PRIMARY KEY (a, b)) \(options)",
            rows: "INSERT INTO m VALUES (1, 'x', 0), (1, 'y', 0), (2, 'x', 0)")
        try bench.apply(
            """
            {"m":{"create":[[2,"y"]],"update":[[1,"x"]],"delete":[[1,"y"]],
                "attributes":{"[2,\\"y\\"]":{"v":5},"[1,\\"x\\"]":{"v":6}}}}
            """
        )
        #expect(try bench.rows("SELECT * FROM m ORDER BY a, b") == ["1 x 6", "2 x 0", "2 y 5"])
    }
}
