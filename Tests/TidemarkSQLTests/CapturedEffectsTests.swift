import GRDB
import Synchronization
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// The captured changes of any program become one effect a record.
@Suite struct CapturedEffectsTests {
    private func file(_ type: String = "") throws -> CapturedFile {
        try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a \(type), b \(type))", rows: "INSERT INTO t VALUES (1, 'x', 'y')")
    }

    // MARK: One change a record

    @Test func `an insert, an update and a deletion are effects with all columns`() throws {
        let file = try file()
        try file.write("INSERT INTO t VALUES (2, 'p', 'q'), (3, 'r', 's')")
        _ = try file.takeEffects()
        try file.write(
            "INSERT INTO t VALUES (4, 1, NULL); UPDATE t SET a = 'z' WHERE id = 1; DELETE FROM t WHERE id = 3")
        let effects = try file.takeEffects()
        #expect(
            effects.map(\.line) == [
                "create t 4: 4, 1, null", #"update t 1: 1, "x", "y" -> 1, "z", "y""#, #"delete t 3: 3, "r", "s""#,
            ]
        )
        #expect(try file.takeEffects().isEmpty)
        #expect(try file.captureCount() == 0)
    }

    private static let values: [(sql: String, value: Value)] = [
        ("NULL", .null), ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)),
        ("0.0", .real(0.0)), ("-0.0", .real(-0.0)), ("1e400", .real(.infinity)), ("''", .text("")),
        ("'a\"b\nc'", .text("a\"b\nc")), ("char(0xe9)", .text("\u{e9}")), ("'e' || char(0x301)", .text("e\u{301}")),
        ("CAST(x'610062' AS TEXT)", .rawText([97, 0, 98])), ("CAST(x'ff' AS TEXT)", .rawText([255])),
        ("x''", .blob([])), ("x'00ff'", .blob([0, 255])),
    ]

    @Test(arguments: values.indices) func `a value keeps its type and bytes`(index: Int) throws {
        let (sql, value) = Self.values[index]
        let file = try file()
        try file.write("INSERT INTO t VALUES (2, \(sql), 'new'); UPDATE t SET b = \(sql) WHERE id = 1")
        let effects = try file.takeEffects()
        #expect(effects.map(\.key) == ["2", "1"])
        #expect(effects.first?.after?[1].isSame(as: value) == true, "\(effects)")
        #expect(effects.last?.after?[2].isSame(as: value) == true, "\(effects)")
    }

    @Test(arguments: [
        ("1", "1.0"), ("1.0", "1"), ("'1'", "1"), ("''", "NULL"), ("x''", "''"), ("x'61'", "'a'"), ("'a'", "'a '"),
        ("0.0", "-0.0"), ("char(0xe9)", "'e' || char(0x301)"), ("'a'", "CAST(x'6100' AS TEXT)"),
    ]) func `a change of type or bytes alone counts`(old: String, new: String) throws {
        for many in [false, true] {
            let file = try file()
            try file.write("UPDATE t SET a = \(old)")
            _ = try file.takeEffects()
            try file.write("UPDATE t SET a = \(new)\(many ? ", b = 1; UPDATE t SET b = 'y'" : "")")
            let effects = try file.takeEffects()
            #expect(effects.count == 1)
            #expect(effects.first?.before?[1].isSame(as: effects.first?.after?[1] ?? .null) == false)
        }
    }

    @Test func `a change of case counts although the column ignores case`() throws {
        let file = try file("TEXT COLLATE NOCASE")
        try file.write("UPDATE t SET a = 'X'")
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, "X", "y""#])
    }

    @Test func `an update that changes nothing has no effect, but was captured`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = a, b = 'y'")
        #expect(try file.hasCaptures())
        #expect(try file.takeEffects().isEmpty)
        #expect(try file.hasCaptures() == false)
    }

    // MARK: Many changes of a record

    @Test func `ten updates are one, from the first values to the last`() throws {
        let file = try file()
        for number in 1...10 { try file.write("UPDATE t SET a = ? WHERE id = 1", [number]) }
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, 10, "y""#])
    }

    @Test func `a created record that was edited is one creation`() throws {
        let file = try file()
        try file.write("INSERT INTO t VALUES (5, 1, 2); UPDATE t SET b = 9 WHERE id = 5")
        #expect(try file.takeEffects().map(\.line) == ["create t 5: 5, 1, 9"])
    }

    @Test func `an edited and then deleted record is one deletion of its first values`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = 2; DELETE FROM t")
        #expect(try file.takeEffects().map(\.line) == [#"delete t 1: 1, "x", "y""#])
    }

    @Test func `a record deleted and created again is an update`() throws {
        let file = try file()
        try file.write("DELETE FROM t; INSERT INTO t VALUES (1, 'x', 'new')")
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, "x", "new""#])
    }

    @Test(arguments: [
        "INSERT INTO t VALUES (5, 1, 2); UPDATE t SET a = 3 WHERE id = 5; DELETE FROM t WHERE id = 5",
        "INSERT INTO t VALUES (5, 1, 2); DELETE FROM t WHERE id = 5",
        "UPDATE t SET a = 'z'; UPDATE t SET a = 'x'", "DELETE FROM t; INSERT INTO t VALUES (1, 'x', 'y')",
        "UPDATE t SET id = 6; UPDATE t SET id = 1",
    ]) func `a record that is as before vanishes`(sql: String) throws {
        let file = try file()
        try file.write(sql)
        #expect(try file.hasCaptures())
        #expect(try file.takeEffects().isEmpty)
    }

    @Test func `a state that recurs is neither the first nor the last`() throws {
        let file = try file()
        for value in ["p", "x", "p", "q", "p", "r"] { try file.write("UPDATE t SET a = ?", [value]) }
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, "r", "y""#])
    }

    @Test func `some records change once and others many times`() throws {
        let file = try file()
        try file.write(
            "INSERT INTO t VALUES (2, 1, 1), (3, 1, 1); UPDATE t SET a = 5 WHERE id = 2; DELETE FROM t WHERE id = 1")
        #expect(
            Set(try file.takeEffects().map(\.line)) == [
                "create t 2: 2, 5, 1", "create t 3: 3, 1, 1", #"delete t 1: 1, "x", "y""#,
            ]
        )
    }

    @Test(.timeLimit(.minutes(1))) func `a record that changes ten thousand times is reduced at once`() throws {
        let file = try file()
        try file.write(
            """
            CREATE TABLE steps (n);
            CREATE TRIGGER step AFTER INSERT ON steps BEGIN UPDATE t SET a = NEW.n; END;
            WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 10000) INSERT INTO steps SELECT n FROM s;
            """
        )
        #expect(try file.captureCount() == 10_000)
        let start = ContinuousClock.now
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, 10000, "y""#])
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    // MARK: The program's triggers

    @Test(arguments: [false, true]) func `the order of the program's triggers does not matter`(isInstalledFirst: Bool)
        throws
    {
        let trigger = """
            CREATE TRIGGER stamp AFTER UPDATE OF a ON t
                BEGIN UPDATE t SET b = 'stamped ' || NEW.a WHERE id = NEW.id; END;
            """
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);" + (isInstalledFirst ? trigger : ""),
            rows: "INSERT INTO t VALUES (1, 'x', 'y')")
        if !isInstalledFirst { try file.write(trigger) }
        _ = try file.takeEffects()
        try file.write("UPDATE t SET a = 'z'")
        #expect(try file.captureCount() == 2)
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, "z", "stamped z""#])
    }

    @Test(arguments: [false, true]) func `a trigger that deletes or completes a new row leaves the last state`(
        isInstalledFirst: Bool
    ) throws {
        let trigger = """
            CREATE TRIGGER fill AFTER INSERT ON t BEGIN
                UPDATE t SET b = 'filled' WHERE id = NEW.id;
                DELETE FROM t WHERE id = NEW.id AND a = 'unwanted';
            END;
            """
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);" + (isInstalledFirst ? trigger : ""))
        if !isInstalledFirst { try file.write(trigger) }
        try file.write("INSERT INTO t (id, a) VALUES (1, 'unwanted'), (2, 'wanted')")
        #expect(try file.takeEffects().map(\.line) == [#"create t 2: 2, "wanted", "filled""#])
    }

    // MARK: Keys

    @Test func `a changed key is a deletion and a creation`() throws {
        let file = try file()
        try file.write("UPDATE t SET id = 6 WHERE id = 1")
        #expect(try file.takeEffects().map(\.line) == [#"delete t 1: 1, "x", "y""#, #"create t 6: 6, "x", "y""#])
    }

    @Test func `a key changed and changed back is the same record`() throws {
        let file = try file()
        try file.write("UPDATE t SET id = 6; UPDATE t SET a = 2; UPDATE t SET id = 1")
        #expect(try file.takeEffects().map(\.line) == [#"update t 1: 1, "x", "y" -> 1, 2, "y""#])
    }

    @Test func `two records that swap their keys are two updates`() throws {
        let file = try file()
        try file.write("INSERT INTO t VALUES (2, 'p', 'y')")
        _ = try file.takeEffects()
        try file.write(
            "UPDATE t SET id = -1 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = -1")
        #expect(
            Set(try file.takeEffects().map(\.line)) == [
                #"update t 1: 1, "x", "y" -> 1, "p", "y""#, #"update t 2: 2, "p", "y" -> 2, "x", "y""#,
            ]
        )
    }

    @Test(arguments: [false, true]) func `two keys that Unicode calls equivalent are two records`(isRepeated: Bool)
        throws
    {
        let file = try CapturedFile(
            "CREATE TABLE t (k TEXT PRIMARY KEY, v)",
            rows: "INSERT INTO t VALUES (char(0xe9), 1), ('e' || char(0x301), 1)")
        if isRepeated { try file.write("UPDATE t SET v = 2") }
        try file.write("UPDATE t SET v = 3 WHERE k = char(0xe9); DELETE FROM t WHERE k = 'e' || char(0x301)")
        let effects = try file.takeEffects()
        #expect(effects.map { Array($0.key.utf8) } == [Array("\"\u{e9}\"".utf8), Array("\"e\u{301}\"".utf8)])
        #expect(effects.map(\.operation.rawValue) == ["update", "delete"])
    }

    @Test func `a key that changes to its Unicode equivalent is a deletion and a creation`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (k TEXT PRIMARY KEY, v)", rows: "INSERT INTO t VALUES (char(0xe9), 1)")
        try file.write("UPDATE t SET k = 'e' || char(0x301)")
        #expect(try file.takeEffects().map(\.operation.rawValue) == ["delete", "create"])
    }

    @Test func `a key that SQLite calls equal to another is another record`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (k NOT NULL PRIMARY KEY, a) WITHOUT ROWID", rows: "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        try file.write(
            "UPDATE t SET k = 1.0 WHERE k = 1; UPDATE t SET a = 'p' WHERE k = 2; UPDATE t SET a = 'q' WHERE k = 2")
        #expect(
            Set(try file.takeEffects().map(\.line)) == [
                #"delete t 1: 1, "x""#, #"create t 1.0: 1.0, "x""#, #"update t 2: 2, "y" -> 2, "q""#,
            ]
        )
    }

    private static let keys: [(columns: String, values: String)] = [
        ("k TEXT PRIMARY KEY, v", #"'a"\b' || char(10)"#), ("k BLOB PRIMARY KEY NOT NULL, v", "x'00ff'"),
        ("k TEXT PRIMARY KEY, v", "CAST(x'ff' AS TEXT)"), ("k REAL PRIMARY KEY NOT NULL, v", "2.5"),
        ("v, a TEXT, k INTEGER, PRIMARY KEY (k, a)", "NULL, 'x', 7"), ("v", "'no key'"),
    ]

    @Test(arguments: keys.indices) func `a key is the canonical JSON that the file's functions return`(index: Int)
        throws
    {
        let (columns, values) = Self.keys[index]
        let file = try CapturedFile("CREATE TABLE t (\(columns))")
        let names = columns.hasPrefix("k") ? " (k)" : ""
        try file.write("INSERT INTO t\(names) VALUES (\(values)); UPDATE t SET v = 1")
        let effects = try file.takeEffects()
        let table = file.schema.tables[0]
        let expected = try file.queue.read { try String.fetchAll($0, sql: "SELECT \(RowJSON.key(table)) FROM t") }
        #expect(effects.map { Array($0.key.utf8) } == expected.map { Array($0.utf8) })
        #expect(effects.map(\.operation.rawValue) == ["create"])
    }

    // MARK: Several tables

    @Test func `parents come before children, whichever changed first`() throws {
        let file = try CapturedFile(
            """
            CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent ON DELETE CASCADE);
            CREATE TABLE parent (id INTEGER PRIMARY KEY, name);
            CREATE TABLE other (id INTEGER PRIMARY KEY);
            """,
            rows: "INSERT INTO parent VALUES (1, 'p'); INSERT INTO child VALUES (7, 1), (8, NULL)"
        )
        try file.write("UPDATE child SET parent = 1 WHERE id = 8; DELETE FROM parent")
        let effects = try file.takeEffects()
        #expect(
            Set(effects.map(\.line)) == [
                "delete parent 1: 1, \"p\"", "delete child 7: 7, 1", "delete child 8: 8, null",
            ]
        )
        #expect(effects.first?.table == file.schema.tables.firstIndex { $0.name == "parent" })
    }

    // MARK: Evicted rows

    private static let people = "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT UNIQUE)"

    @Test(arguments: [false, true]) func `a row that REPLACE evicts is a deletion`(recursive: Bool) throws {
        let file = try CapturedFile(Self.people, rows: "INSERT INTO people VALUES (1, 'a'), (2, 'b'), (3, 'c')") { db in
            try db.execute(sql: "PRAGMA recursive_triggers = \(recursive ? "ON" : "OFF")")
        }
        try file.write("REPLACE INTO people VALUES (1, 'b'); UPDATE OR REPLACE people SET email = 'c' WHERE id = 1")
        #expect(
            Set(try file.takeEffects().map(\.line)) == [
                #"update people 1: 1, "a" -> 1, "c""#, #"delete people 2: 2, "b""#, #"delete people 3: 3, "c""#,
            ]
        )
    }

    @Test func `a row whose eviction no trigger captured is a deletion`() throws {
        let file = try CapturedFile(
            """
            \(Self.people);
            CREATE TABLE part (id INTEGER PRIMARY KEY, owner INTEGER REFERENCES people ON DELETE CASCADE);
            """,
            rows: "INSERT INTO people VALUES (1, 'a'), (2, 'b')"
        )
        // A copied row whose row is gone is what a write leaves that evicted a row and then did not finish.
        try file.write(
            """
            INSERT INTO people VALUES (9, 'z');
            INSERT INTO tidemark_evicted_people (old_id, old_email) VALUES (5, 'gone'), (2, 'b');
            """
        )
        #expect(try file.takeEffects().map(\.line) == [#"create people 9: 9, "z""#, #"delete people 5: 5, "gone""#])
        #expect(try file.value("SELECT count(*) FROM tidemark_evicted_people") == 0)
    }

    // MARK: Cost

    @Test func `two records of one table cost six statements`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (id INTEGER PRIMARY KEY)",
            rows: "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        try file.write("UPDATE t SET a = 'z'")
        let statements = Mutex<[String]>([])
        let effects = try file.queue.write { db in
            db.trace { event in
                guard case .statement(let statement) = event else { return }
                statements.withLock { $0.append(statement.sql) }
            }
            defer { db.trace(options: []) }
            return try CapturedFile.takeEffects(file.schema, in: db)
        }
        #expect(effects.count == 2)
        #expect(statements.withLock(\.count) <= 6, "\(statements.withLock(\.self))")
    }

    @Test func `an error of the reader ends the reading, and nothing is lost`() throws {
        struct Stop: Error {}
        let file = try file()
        try file.write("INSERT INTO t VALUES (2, 1, 1), (3, 1, 1)")
        #expect(throws: Stop.self) {
            try file.queue.write { db in
                try CapturedEffects(db, schema: file.schema).read { _ in throw Stop() }
            }
        }
        #expect(try file.takeEffects().map(\.key) == ["2", "3"])
    }
}

/// An effect with the name of its table.
@dynamicMemberLookup
private struct NamedEffect: CustomStringConvertible {
    let effect: Effect
    let tableName: String

    subscript<Member>(dynamicMember path: KeyPath<Effect, Member>) -> Member { effect[keyPath: path] }

    /// The operation, the key and the rows, in canonical JSON.
    var line: String {
        let rows = [effect.before, effect.after].compactMap { $0.map(Self.text) }
        return "\(effect.operation.rawValue) \(tableName) \(effect.key): \(rows.joined(separator: " -> "))"
    }

    var description: String { line }

    private static func text(_ row: [Value]) -> String {
        row.map { String(decoding: $0.canonicalJSON, as: UTF8.self) }.joined(separator: ", ")
    }
}

extension CapturedFile {
    /// The effects of the captured changes, which are then deleted.
    fileprivate func takeEffects() throws -> [NamedEffect] {
        try queue.write { db in
            try EngineConnection.prepare(db, schema: schema)
            return try Self.takeEffects(schema, in: db)
        }
    }

    fileprivate static func takeEffects(_ schema: SyncSchema, in db: Database) throws -> [NamedEffect] {
        var effects: [NamedEffect] = []
        let captured = CapturedEffects(db, schema: schema)
        let hasCaptured = try captured.read {
            effects.append(NamedEffect(effect: $0, tableName: schema.tables[$0.table].name))
        }
        if hasCaptured { try captured.delete() }
        return effects
    }

    /// Whether reading finds captured changes.
    fileprivate func hasCaptures() throws -> Bool {
        try queue.write { try CapturedEffects($0, schema: schema).read { _ in } }
    }
}
