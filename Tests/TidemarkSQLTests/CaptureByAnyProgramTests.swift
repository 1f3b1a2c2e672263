import Foundation
import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Capture is pure SQL in the file, so any program's writes are captured.
@Suite struct CaptureByAnyProgramTests {
    private func cities() throws -> CapturedFile {
        try CapturedFile(
            """
            CREATE TABLE countries (code TEXT PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE cities (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                name TEXT NOT NULL,
                country TEXT REFERENCES countries ON DELETE SET NULL,
                population INTEGER,
                area
            );
            """,
            rows: """
                INSERT INTO countries VALUES ('de', 'Germany'), ('dk', 'Denmark');
                INSERT INTO cities VALUES (1, 'Kiel', 'de', 246000, 118.65), (2, 'Aarhus', 'dk', 285000, 91);
                """
        )
    }

    @Test func `F1: an edit in the sqlite3 shell is captured like the app's own`() async throws {
        let file = try cities()
        try await SQLiteShell.run(
            """
            UPDATE cities SET population = 247000 WHERE id = 1;
            INSERT INTO countries VALUES ('se', 'Sweden');
            DELETE FROM cities WHERE id = 2;
            """,
            on: file.path
        )
        #expect(
            try file.drain() == [
                #"update cities 1 {"population":247000}"#, "delete cities 2",
                #"create countries "se" {"name":"Sweden"}"#,
            ]
        )
    }

    @Test func `F1: a parent deleted in the shell is captured with its cascade`() async throws {
        let file = try cities()
        try await SQLiteShell.run("PRAGMA foreign_keys = ON; DELETE FROM countries WHERE code = 'de'", on: file.path)
        #expect(try file.drain() == [#"update cities 1 {"country":null}"#, #"delete countries "de""#])
    }

    @Test func `F1: a row replaced in the shell is captured as an update of the changed columns`() async throws {
        let file = try cities()
        try await SQLiteShell.run(
            "INSERT OR REPLACE INTO cities VALUES (1, 'Kiel', 'de', 250000, 118.65)", on: file.path)
        #expect(try file.drain() == [#"update cities 1 {"population":250000}"#])
    }

    @Test(.enabled(if: Python.interpreter != nil, "python3 is not in PATH"))
    func `F1: blobs and doubles of a Python script are captured exactly`() async throws {
        let file = try cities()
        try await Python.run(
            """
            db.execute("UPDATE cities SET area = ? WHERE id = 1", (0.1 + 0.2,))
            db.execute("UPDATE cities SET area = ? WHERE id = 2", (bytes([0, 255]),))
            db.execute("INSERT INTO countries VALUES (?, ?)", ("n\\u00f8", "a\\0b"))
            """,
            on: file.path
        )
        #expect(
            try file.drain() == [
                #"update cities 1 {"area":0.30000000000000004}"#, #"update cities 2 {"area":{"$blob":"AP8="}}"#,
                #"create countries "nø" {"name":{"$text":"YQBi"}}"#,
            ]
        )
    }

    @Test func `F1: plain GRDB records are captured without a base class`() throws {
        struct Country: Codable, PersistableRecord {
            static let databaseTableName = "countries"
            var code: String
            var name: String
        }
        let file = try cities()
        try file.queue.write { db in
            try Country(code: "no", name: "Norway").insert(db)
            try Country(code: "dk", name: "Danmark").update(db)
        }
        #expect(
            try file.drain() == [
                #"update countries "dk" {"name":"Danmark"}"#, #"create countries "no" {"name":"Norway"}"#,
            ]
        )
    }

    @Test func `A10: an edit before the app quits is drained at the next start`() throws {
        let file = try cities()
        try file.write("UPDATE cities SET name = 'Kiel-Holtenau' WHERE id = 1")
        try file.close()
        #expect(try file.drainAfterReopening() == [#"update cities 1 {"name":"Kiel-Holtenau"}"#])
    }

    @Test func `A10: a shell killed in its transaction leaves no capture entries`() async throws {
        let file = try cities()
        // The shell ends with its transaction open, as if it were killed.
        try await SQLiteShell.run("BEGIN; UPDATE cities SET name = 'X'", on: file.path)
        #expect(try file.drain() == [])
        #expect(try file.value("SELECT name FROM cities WHERE id = 1") == "Kiel")
    }

    @Test func `A10: writes of shell, script and app are captured in one order`() async throws {
        let file = try cities()
        try await SQLiteShell.run("UPDATE cities SET name = 'one' WHERE id = 1", on: file.path)
        if Python.interpreter != nil {
            try await Python.run("db.execute('UPDATE cities SET area = 2')", on: file.path)
        } else {
            try file.write("UPDATE cities SET area = 2")
        }
        try file.write("UPDATE cities SET population = 3 WHERE id = 1")
        try file.close()
        #expect(
            try file.drainAfterReopening() == [
                #"update cities 1 {"name":"one","population":3,"area":2}"#, #"update cities 2 {"area":2}"#,
            ]
        )
    }

    @Test func `F1: writes of the engine itself are not captured`() throws {
        let file = try cities()
        try file.queue.write { db in
            try db.execute(sql: "UPDATE tidemark_state SET applying = 1")
            try db.execute(sql: "UPDATE cities SET population = 0; DELETE FROM countries")
            try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
        }
        #expect(try file.captureCount() == 0)
    }

    @Test func `a captured change carries the file's revision at the time of the write`() throws {
        let file = try cities()
        try file.write("UPDATE tidemark_state SET revision = 7")
        try file.write("UPDATE cities SET population = 1 WHERE id = 1")
        try file.write("UPDATE tidemark_state SET revision = 9")
        try file.write("UPDATE cities SET population = 2 WHERE id IN (1, 2)")
        #expect(try file.changes().map(\.base) == [7, 9])
    }
}
