import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// The coalescing of many edits of one record.
@Suite struct ReductionTests {
    private func file(_ type: String = "") throws -> CapturedFile {
        try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a \(type), b \(type))",
            rows: "INSERT INTO t VALUES (1, 'x', 'y')"
        )
    }

    @Test func `B5: a record created and deleted before a sync sends nothing`() throws {
        let file = try file()
        try file.write("INSERT INTO t VALUES (5, 1, 2)")
        try file.write("UPDATE t SET a = 3 WHERE id = 5")
        try file.write("DELETE FROM t WHERE id = 5")
        #expect(try file.captureCount() == 3)
        #expect(try file.drain() == [])
    }

    @Test func `B5: ten edits of one record are one update with the last values`() throws {
        let file = try file()
        for number in 1...10 { try file.write("UPDATE t SET a = ? WHERE id = 1", [number]) }
        let changes = try file.changes()
        #expect(changes.map(\.line) == [#"update t 1 {"a":10}"#])
        #expect(changes.first?.before == #"{"a":"x","b":"y"}"#)
    }

    @Test func `B5: a created record that was edited is one creation with the last values`() throws {
        let file = try file()
        try file.write("INSERT INTO t VALUES (5, 1, 2); UPDATE t SET b = 9 WHERE id = 5")
        let changes = try file.changes()
        #expect(changes.map(\.line) == [#"create t 5 {"a":1,"b":9}"#])
        #expect(changes.first?.before == nil)
    }

    @Test func `B5: an edited and then deleted record is one deletion of the original values`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = 2; DELETE FROM t")
        let changes = try file.changes()
        #expect(changes.map(\.line) == ["delete t 1"])
        #expect(changes.first?.before == #"{"a":"x","b":"y"}"#)
    }

    @Test func `B5: a record deleted and created again is an update of the different columns`() throws {
        let file = try file()
        try file.write("DELETE FROM t; INSERT INTO t VALUES (1, 'x', 'new')")
        #expect(try file.drain() == [#"update t 1 {"b":"new"}"#])
    }

    @Test func `B6: an update carries only the changed column`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = 'z', b = b")
        #expect(try file.drain() == [#"update t 1 {"a":"z"}"#])
    }

    @Test func `B6: a reverted edit sends nothing`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = 'z'")
        try file.write("UPDATE t SET a = 'x'")
        #expect(try file.captureCount() == 2)
        #expect(try file.drain() == [])
    }

    @Test func `an update that changes nothing sends nothing`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = a, b = 'y'")
        #expect(try file.drain() == [])
    }

    @Test func `a changed key is a deletion and a creation`() throws {
        let file = try file()
        try file.write("UPDATE t SET id = 6 WHERE id = 1")
        #expect(try file.drain() == ["delete t 1", #"create t 6 {"a":"x","b":"y"}"#])
    }

    @Test func `a key changed and changed back is the same record`() throws {
        let file = try file()
        try file.write("UPDATE t SET id = 6; UPDATE t SET a = 2; UPDATE t SET id = 1")
        #expect(try file.drain() == [#"update t 1 {"a":2}"#])
    }

    @Test func `two records that swap their keys are two updates`() throws {
        let file = try file()
        try file.write("INSERT INTO t VALUES (2, 'p', 'y')")
        _ = try file.drain()
        try file.write(
            "UPDATE t SET id = -1 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = -1"
        )
        #expect(try file.drain() == [#"update t 1 {"a":"p"}"#, #"update t 2 {"a":"x"}"#])
    }

    // MARK: Values equal in SQLite but not for sync

    @Test func `a key change between values equal in SQLite hides no edit of another record`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (k NOT NULL PRIMARY KEY, a) WITHOUT ROWID",
            rows: "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')"
        )
        try file.write("UPDATE t SET k = 1.0 WHERE k = 1; UPDATE t SET k = 2.0 WHERE k = 2")
        try file.write("UPDATE t SET a = 'p' WHERE k = 3; UPDATE t SET a = 'q' WHERE k = 3")
        #expect(try file.drain().contains(#"update t 3 {"a":"q"}"#))
    }

    @Test func `a change of case counts although the column ignores case`() throws {
        let file = try file("TEXT COLLATE NOCASE")
        try file.write("UPDATE t SET a = 'X'")
        #expect(try file.drain() == [#"update t 1 {"a":"X"}"#])
    }

    @Test(arguments: [
        ("1", "1.0", "1.0"), ("1.0", "1", "1"), ("'1'", "1", "1"), ("''", "NULL", "null"), ("x''", "''", #""""#),
        ("x'61'", "'a'", #""a""#), ("'a'", "'a '", #""a ""#), ("0.0", "-0.0", "-0.0"),
        ("1e400", "-1e400", #"{"$real":"-Infinity"}"#),
    ]) func `a change of type alone counts`(old: String, new: String, json: String) throws {
        let file = try file()
        try file.write("UPDATE t SET a = \(old)")
        _ = try file.drain()
        try file.write("UPDATE t SET a = \(new)")
        #expect(try file.drain() == [#"update t 1 {"a":\#(json)}"#])
    }

    // MARK: Rollback

    @Test func `A10: a rolled-back transaction captures nothing`() throws {
        let file = try file()
        try file.writeWithoutTransaction("BEGIN; UPDATE t SET a = 1; DELETE FROM t; ROLLBACK")
        #expect(try file.captureCount() == 0)
        #expect(try file.drain() == [])
    }

    @Test func `A10: a rolled-back savepoint is not captured, the writes around it are`() throws {
        let file = try file()
        try file.writeWithoutTransaction(
            """
            BEGIN;
            UPDATE t SET a = 1;
            SAVEPOINT s;
            UPDATE t SET b = 2;
            INSERT INTO t VALUES (7, 7, 7);
            ROLLBACK TO s;
            RELEASE s;
            INSERT INTO t VALUES (8, 8, 8);
            COMMIT;
            """
        )
        #expect(try file.drain() == [#"update t 1 {"a":1}"#, #"create t 8 {"a":8,"b":8}"#])
    }

    @Test func `A10: a statement that fails half-way captures none of its rows`() throws {
        let file = try CapturedFile(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n < 3))",
            rows: "INSERT INTO t VALUES (1, 0), (2, 1), (3, 2)"
        )
        #expect(throws: DatabaseError.self) { try file.write("UPDATE t SET n = n + 1") }
        #expect(try file.captureCount() == 0)
    }

    @Test func `a range of captured changes is reduced without those after it`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = 1")
        let first = try #require(try file.queue.read { try CapturedEffects.pendingRange(in: $0) })
        try file.write("UPDATE t SET b = 2")
        let lines = try file.queue.write { db in
            try EngineConnection.prepare(db, schema: file.schema)
            return try Change.read(CapturedEffects(db, schema: file.schema, in: first), file.schema, in: db).map(\.line)
        }
        #expect(lines == [#"update t 1 {"a":1}"#])
    }

    @Test func `two keys that look the same have first states of their own`() throws {
        let file = try CapturedFile(
            "CREATE TABLE tag (name TEXT PRIMARY KEY, n)",
            rows: "INSERT INTO tag VALUES ('\u{E9}', 1), ('e\u{301}', 2)")
        try file.write("UPDATE tag SET n = n + 10")
        var states: [[UInt8]: String?] = [:]
        try file.queue.read { db in
            let table = try #require(file.schema.byName["tag"])
            try CapturedEffects.readFirstStates(of: table, in: db) { key, image in states[Array(key.utf8)] = image }
        }
        #expect(states == [Array("\"\u{E9}\"".utf8): #"{"n":1}"#, Array("\"e\u{301}\"".utf8): #"{"n":2}"#])
    }

    @Test func `capture numbers are not reused after a drain`() throws {
        let file = try file()
        try file.write("UPDATE t SET a = 1")
        let first = try #require(try file.queue.read { try CapturedEffects.pendingRange(in: $0) })
        _ = try file.drain()
        try file.write("UPDATE t SET a = 2")
        let second = try #require(try file.queue.read { try CapturedEffects.pendingRange(in: $0) })
        #expect(second.lowerBound > first.upperBound)
    }
}
