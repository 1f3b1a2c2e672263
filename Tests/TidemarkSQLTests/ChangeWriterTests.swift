import GRDB
import Synchronization
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Change sets become rows, value by value and in an order that no constraint rejects.
@Suite struct ChangeWriterTests {
    // MARK: Values

    private static let values: [(json: String, value: Value)] = [
        ("null", .null), ("true", .integer(1)), ("false", .integer(0)), ("0", .integer(0)),
        ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)), ("0.0", .real(0.0)),
        ("-0.0", .real(-0.0)), ("1.5e300", .real(1.5e300)), (#"{"$real":"Infinity"}"#, .real(.infinity)),
        (#"{"$real":"-Infinity"}"#, .real(-.infinity)), (#""""#, .text("")), (#""plain""#, .text("plain")),
        (#""a\"b\\\n\u00e9""#, .text("a\"b\\\né")), ("\"\u{e9}\"", .text("\u{e9}")),
        ("\"e\u{301}\"", .text("e\u{301}")),
        (#""a\u0000b""#, .rawText([97, 0, 98])), (#"{"$text":"/w=="}"#, .rawText([255])),
        (#"{"$blob":""}"#, .blob([])), (#"{"$blob":"AP8="}"#, .blob([0, 255])),
    ]

    @Test(arguments: values.indices) func `a value is created and updated with its type and bytes`(index: Int) throws {
        let (json, value) = Self.values[index]
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
            rows: "INSERT INTO t VALUES (1, 'old'), (2, NULL)"
        )
        try bench.write(
            #"{"t":{"create":[3],"update":[1,2],"attributes":{"1":{"v":\#(json)},"2":{"v":\#(json)},"3":{"v":\#(json)}}}}"#
        )
        let written = try bench.values("SELECT v FROM t ORDER BY id")
        #expect(written.count == 3)
        #expect(written.allSatisfy { $0[0].isSame(as: value) }, "\(written)")
    }

    @Test func `a column that a new record leaves out gets its default`() throws {
        let bench = try WriterBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'it''s', b INTEGER DEFAULT (1 + 2), c);
            """
        )
        try bench.write(
            #"{"t":{"create":[1,2,3],"attributes":{"1":{"a":"x"},"2":{"c":"y","b":null},"3":{"b":4,"a":"z"}}}}"#
        )
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 x 3 null", "2 it's null y", "3 z 4 null"])
    }

    @Test func `updates of different columns leave the other columns as they are`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)",
            rows: "INSERT INTO t VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2'), (3, 'a3', 'b3')"
        )
        try bench.write(
            #"{"t":{"update":[1,2,3],"attributes":{"1":{"a":null},"2":{"b":"new"},"3":{"b":"x","a":"y"}}}}"#
        )
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 null b1", "2 a2 new", "3 y x"])
    }

    @Test func `values that other ones replace are not written, nor are overruled ones`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)",
            rows: "INSERT INTO t VALUES (1, 'a', 'b'), (2, 'a', 'b')"
        )
        let set = #"{"t":{"update":[1,2],"attributes":{"1":{"a":-5,"b":"new"},"2":{"a":-6}}}}"#
        try bench.write(set) { changeSet in
            for record in changeSet.records {
                for (place, column) in Array(changeSet.columns(of: record)) where column.name == "a" {
                    if record.key == "1" { changeSet.replace(at: place, by: .integer(77)) }
                    if record.key == "2" { changeSet.overrule(at: place) }
                }
            }
        }
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 77 new", "2 a b"])
    }

    @Test func `an update without columns writes nothing`() throws {
        let bench = try WriterBench(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a);
            CREATE TABLE audit (what);
            CREATE TRIGGER seen AFTER UPDATE ON t BEGIN INSERT INTO audit VALUES (NEW.id); END;
            """,
            rows: "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
        )
        try bench.write(#"{"t":{"update":[1,2],"attributes":{"1":{"revision":3},"2":{"a":"c"}}}}"#)
        #expect(try bench.rows("SELECT what FROM audit") == ["2"])
    }

    @Test func `change sets of several texts are written together, each from its own`() throws {
        let bench = try WriterBench("CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
        try bench.write(all: [
            #"[{"t":{"create":[1],"attributes":{"1":{"a":"one"}}}},{"t":{"create":[2],"attributes":{"2":{"a":"two"}}}}]"#,
            #"[ { "t" : { "create" : [3] , "attributes" : { "3" : { "a" : "three" } } } } ]"#,
        ])
        #expect(try bench.rows("SELECT a FROM t ORDER BY id") == ["one", "two", "three"])
    }

    // MARK: Keys

    @Test func `two keys that Unicode calls equivalent are two records`() throws {
        let bench = try WriterBench("CREATE TABLE t (k TEXT PRIMARY KEY, v)")
        let (nfc, nfd) = ("\u{e9}", "e\u{301}")
        let creations = [(nfc, 1), (nfd, 2)].map { key, number in
            #"{"t":{"create":["\#(key)"],"attributes":{"\#(key)":{"v":\#(number)}}}}"#
        }
        try bench.write(all: ["[\(creations.joined(separator: ","))]"])
        try bench.write(#"{"t":{"update":["\#(nfd)"],"attributes":{"\#(nfd)":{"v":3}}}}"#)
        #expect(try bench.rows("SELECT hex(k), v FROM t ORDER BY v") == ["C3A9 1", "65CC81 3"])
        try bench.write(#"{"t":{"delete":["\#(nfc)"]}}"#)
        #expect(try bench.rows("SELECT hex(k), v FROM t") == ["65CC81 3"])
    }

    @Test(arguments: ["", "WITHOUT ROWID"]) func `a key of several columns is bound part by part`(options: String)
        throws
    {
        let bench = try WriterBench(
            "CREATE TABLE m (v, b TEXT, a INTEGER, PRIMARY KEY (a, b)) \(options)",
            rows: "INSERT INTO m (a, b, v) VALUES (1, 'x', 0), (1, 'y', 0), (2, 'x', 0)"
        )
        try bench.write(
            #"{"m":{"create":[[2,"y"]],"update":[[1,"x"]],"delete":[[1,"y"]],"#
                + #""attributes":{"[2,\"y\"]":{"v":5},"[1,\"x\"]":{"v":6}}}}"#
        )
        #expect(try bench.rows("SELECT a, b, v FROM m ORDER BY a, b") == ["1 x 6", "2 x 0", "2 y 5"])
    }

    @Test func `keys of any type name their records`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (k PRIMARY KEY NOT NULL, v)",
            rows: "INSERT INTO t VALUES (x'00ff', 0), (1.5, 0), ('1.5', 0), (7, 0)"
        )
        try bench.write(
            #"{"t":{"update":[{"$blob":"AP8="},1.5,7],"delete":["1.5"],"#
                + #""attributes":{"{\"$blob\":\"AP8=\"}":{"v":1},"1.5":{"v":2},"7":{"v":3}}}}"#
        )
        #expect(try bench.rows("SELECT quote(k), v FROM t ORDER BY v") == ["X'00FF' 1", "1.5 2", "7 3"])
    }

    @Test func `a rowid is a key`() throws {
        let bench = try WriterBench("CREATE TABLE t (a)", rows: "INSERT INTO t VALUES ('one'), ('two')")
        try bench.write(
            #"{"t":{"create":[9],"update":[1],"delete":[2],"attributes":{"1":{"a":"new"},"9":{"a":"nine"}}}}"#
        )
        #expect(try bench.rows("SELECT rowid, a FROM t ORDER BY rowid") == ["1 new", "9 nine"])
    }

    // MARK: Sums

    private func counters(_ rows: String) throws -> WriterBench {
        try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, note TEXT)",
            rows: "INSERT INTO t VALUES \(rows)",
            policies: ["t.n": .add]
        )
    }

    @Test func `a delta adds, and a value of the same column replaces`() throws {
        let bench = try counters("(1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')")
        try bench.write(
            #"{"t":{"update":[1,2,3],"attributes":{"1":{"n":{"$add":5}},"2":{"n":7},"3":{"note":"new","n":{"$add":-31}}}}}"#
        )
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 15 x", "2 7 y", "3 -1 new"])
    }

    @Test(arguments: ["9223372036854775807", "NULL", "'text'"]) func `a sum that is no integer is refused`(
        present: String
    ) throws {
        let bench = try counters("(1, \(present), 'x')")
        let error = #expect(throws: DatabaseError.self) {
            try bench.write(#"{"t":{"update":[1],"attributes":{"1":{"n":{"$add":1}}}}}"#)
        }
        #expect(error?.resultCode == .SQLITE_CONSTRAINT)
    }

    // MARK: Order

    private static let logged = """
        CREATE TABLE log (what TEXT);
        CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent ON DELETE RESTRICT);
        CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TRIGGER ci AFTER INSERT ON child BEGIN INSERT INTO log VALUES ('create child ' || NEW.id); END;
        CREATE TRIGGER cu AFTER UPDATE ON child BEGIN INSERT INTO log VALUES ('update child ' || NEW.id); END;
        CREATE TRIGGER cd AFTER DELETE ON child BEGIN INSERT INTO log VALUES ('delete child ' || OLD.id); END;
        CREATE TRIGGER pi AFTER INSERT ON parent BEGIN INSERT INTO log VALUES ('create parent ' || NEW.id); END;
        CREATE TRIGGER pu AFTER UPDATE ON parent BEGIN INSERT INTO log VALUES ('update parent ' || NEW.id); END;
        CREATE TRIGGER pd AFTER DELETE ON parent BEGIN INSERT INTO log VALUES ('delete parent ' || OLD.id); END;
        """

    @Test(arguments: [false, true]) func `children go first, then records come and change, and parents go last`(
        parking: Bool
    ) throws {
        let bench = try WriterBench(
            Self.logged,
            rows: """
                INSERT INTO parent VALUES (1, 'p'), (2, 'q'); INSERT INTO child VALUES (10, 1), (11, 1), (12, 2);
                DELETE FROM log;
                """
        )
        let sets = """
            [{"child":{"create":[14,13],"update":[10],"attributes":{"10":{"parent":2},"13":{"parent":3},"14":{"parent":2}}}},
             {"child":{"delete":[11]},"parent":{"create":[3],"update":[2],"delete":[1],"attributes":{"2":{"name":"r"}}}}]
            """
        try bench.write(all: [sets], parking: parking)
        #expect(
            try bench.rows("SELECT what FROM log ORDER BY rowid") == [
                "delete child 11", "create parent 3", "create child 14", "create child 13", "update parent 2",
                "update child 10", "delete parent 1",
            ]
        )
    }

    @Test func `records of one table are created in the order of the change sets`() throws {
        let bench = try WriterBench("CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE log (id)")
        try bench.queue.write {
            try $0.execute(sql: "CREATE TRIGGER i AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END")
        }
        try bench.write(all: [#"[{"t":{"create":[5,3]}},{"t":{"create":[4,1],"attributes":{"1":{"a":1}}}}]"#])
        #expect(try bench.rows("SELECT id FROM log ORDER BY rowid") == ["5", "3", "4", "1"])
    }

    @Test func `a tree of any depth is deleted in one set`() throws {
        let bench = try WriterBench(
            "CREATE TABLE nodes (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES nodes)",
            rows: "INSERT INTO nodes VALUES (1, NULL), (2, 1), (3, 2), (4, 3)"
        )
        try bench.write(#"{"nodes":{"delete":[1,2,3,4]}}"#)
        #expect(try bench.rows("SELECT id FROM nodes") == [])
    }

    // MARK: Constraints

    @Test func `an existing record is not created again`() throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 'old')"
        )
        let error = #expect(throws: DatabaseError.self) {
            try bench.write(#"{"t":{"create":[1],"attributes":{"1":{"a":"new"}}}}"#)
        }
        #expect(error?.resultCode == .SQLITE_CONSTRAINT)
        #expect(error?.sql?.contains(#" main."t" "#) == true)
        #expect(try bench.rows("SELECT a FROM t") == ["old"])
    }

    @Test(arguments: ["REPLACE", "IGNORE", "ROLLBACK"])
    func `a table's own conflict clause neither evicts nor skips a record`(clause: String) throws {
        let bench = try WriterBench(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE ON CONFLICT \(clause))",
            rows: "INSERT INTO t VALUES (1, 'work'), (2, 'home')"
        )
        let sets = [
            #"{"t":{"create":[3],"attributes":{"3":{"v":"work"}}}}"#,
            #"{"t":{"update":[2],"attributes":{"2":{"v":"work"}}}}"#,
        ]
        for set in sets {
            let error = #expect(throws: DatabaseError.self) { try bench.write(set) }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
        }
        #expect(try bench.rows("SELECT * FROM t ORDER BY id") == ["1 work", "2 home"])
    }

    @Test func `records with the same columns share a statement`() throws {
        let bench = try WriterBench("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)")
        let statements = Mutex<Set<String>>([])
        bench.queue.writeWithoutTransaction { db in
            db.trace { event in
                guard case .statement(let statement) = event, statement.sql.contains(#"main."t""#) else { return }
                statements.withLock { _ = $0.insert(statement.sql) }
            }
        }
        let ids = (1...200).map(String.init)
        let attributes = ids.map { #""\#($0)":{"a":\#($0),"b":"x"}"# }.joined(separator: ",")
        let list = ids.joined(separator: ",")
        try bench.write(#"{"t":{"create":[\#(list)],"attributes":{\#(attributes)}}}"#)
        try bench.write(#"{"t":{"update":[\#(list)],"attributes":{\#(attributes)}}}"#)
        try bench.write(#"{"t":{"delete":[\#(list)]}}"#)
        #expect(statements.withLock(\.count) == 3)
    }
}
