import Foundation
import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// A server's schema runs on a device: only tables and indexes are accepted.
@Suite struct SchemaTextTests {
    private func schema(_ sql: String, policies: [String: ConflictPolicy] = [:]) throws -> SyncSchema {
        try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try SchemaIntrospection(db).makeSchema(policies: policies)
        }
    }

    /// The JSON of a schema as a hostile server might write it.
    private func forged(_ statements: [String]) throws -> String {
        let tables = statements.map { sql -> [String: Any] in
            ["name": "t", "sql": sql, "indexes": [String](), "policy": "reject"]
        }
        return String(decoding: try JSONSerialization.data(withJSONObject: tables), as: UTF8.self)
    }

    @Test func `a schema survives encoding, with policies and indexes`() throws {
        let schema = try schema(
            """
            CREATE TABLE teams (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT COLLATE NOCASE UNIQUE);
            CREATE TABLE players (
                id INTEGER PRIMARY KEY, team INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE,
                n INTEGER CHECK (n > 0), upper_n AS (n * 2)
            );
            CREATE UNIQUE INDEX numbers ON players (team, n) WHERE n IS NOT NULL;
            CREATE INDEX names ON teams (name DESC);
            CREATE TABLE keys (a TEXT, b BLOB, PRIMARY KEY (a, b)) WITHOUT ROWID;
            CREATE TABLE "odd 'name'" ("x y" TEXT PRIMARY KEY) STRICT;
            """,
            policies: ["teams": .columns]
        )
        #expect(try SchemaText.decode(SchemaText.encode(schema)) == schema)
    }

    @Test(arguments: ["attachments", "attach", "detachments"]) func `a table called attachments is an ordinary table`(
        name: String
    ) throws {
        let schema = try schema(
            "CREATE TABLE \(SQLText.name(name)) (id INTEGER PRIMARY KEY, attached_to TEXT DEFAULT 'ATTACH')")
        #expect(try SchemaText.decode(SchemaText.encode(schema)) == schema)
    }

    @Test func `comments in the schema are ignored`() throws {
        let schema = try schema(
            """
            CREATE TABLE t ( -- what we select; attach nothing
                id INTEGER PRIMARY KEY, /* vacuum into; create trigger */ a TEXT);
            """
        )
        #expect(try SchemaText.decode(SchemaText.encode(schema)) == schema)
    }

    @Test(arguments: [
        "ATTACH 'FILE' AS x", "aTtAcH 'FILE' AS x; CREATE TABLE x.t (id INTEGER PRIMARY KEY)",
        "COMMIT; ATTACH 'FILE' AS x; BEGIN", "VACUUM INTO 'FILE'", "COMMIT; VACUUM INTO 'FILE'; BEGIN",
        "CREATE TABLE t (id INTEGER PRIMARY KEY); COMMIT; VACUUM INTO 'FILE'; BEGIN",
        "CREATE VIRTUAL TABLE t USING fts5(a)", "CREATE VIEW t AS SELECT 1",
        "CREATE TEMP TABLE t (id INTEGER PRIMARY KEY)", "PRAGMA user_version = 5", "SELECT load_extension('FILE')",
        "INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)",
        "CREATE TRIGGER t AFTER INSERT ON u BEGIN DELETE FROM u; END", "", "-- nothing",
        "CREATE TABLE t AS WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) FROM c",
    ]) func `a statement other than a single CREATE TABLE is refused`(statement: String) throws {
        let folder = try ScratchFolder()
        let path = folder.path("planted.sqlite")
        let json = try forged([statement.replacingOccurrences(of: "FILE", with: path)])
        #expect(throws: (any Error).self) { try SchemaText.decode(json) }
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: [
        "CHECK (json_valid(a))", "b AS (json_extract(a, '$.x'))", "b TEXT DEFAULT (json_array(1))",
    ]) func `a table that calls a JSON function is read, also by SQLite 3.38 to 3.40`(column: String) throws {
        let json = try forged([
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT\(column.hasPrefix("CHECK") ? " " : ", ")\(column))"
        ])
        #expect(try SchemaText.decode(json).tables.count == 1)
    }

    @Test func `a trigger or a view after a table is refused`() throws {
        for tail in [
            "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END", "CREATE VIEW v AS SELECT * FROM t",
            "DROP TABLE t",
        ] {
            let table = "CREATE TABLE t (id INTEGER PRIMARY KEY)"
            #expect(throws: (any Error).self) { try SchemaText.decode(forged([table, tail])) }
            #expect(throws: (any Error).self) { try SchemaText.decode(forged(["\(table); \(tail)"])) }
        }
    }

    @Test(arguments: ["", "{}", "null", "[1]", #"[{"name":"t"}]"#, "<html>"])
    func `an answer that is no schema gives a clear error`(json: String) throws {
        let error = #expect(throws: TidemarkError.self) { try SchemaText.decode(json) }
        #expect(error?.code == .invalidResponse)
    }

    @Test func `an object of a newer server's kind is left out, and the others are read`() throws {
        let json = """
            [{"name":"t","sql":"CREATE TABLE t (id INTEGER PRIMARY KEY)","indexes":[],"policy":"reject"},
            {"name":"","sql":"","indexes":[],"policy":"","dropped":[],"file":{"userVersion":7,"objects":[
                {"kind":"ofTheFuture","name":"x"},{"kind":"view","name":"v","sql":"CREATE VIEW v AS SELECT 1"}]}}]
            """
        let schema = try SchemaText.decode(json)
        #expect(schema.tables.map(\.name) == ["t"])
        #expect(schema.history.droppedTables == [])
        #expect(schema.objects.userVersion == 7)
        #expect(schema.objects.objects.map(\.name) == ["v"])
        #expect(try SchemaText.decode(SchemaText.encode(schema)) == schema)
    }

    @Test func `an unknown policy of a newer server becomes the default`() throws {
        let json = try forged(["CREATE TABLE t (id INTEGER PRIMARY KEY)"]).replacingOccurrences(
            of: "reject", with: "ofTheFuture")
        #expect(try SchemaText.decode(json).policy(of: "t") == .reject)
    }
}
