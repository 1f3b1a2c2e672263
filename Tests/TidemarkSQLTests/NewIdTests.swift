import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Integer ids of new records: never one that could later name another device's record.
@Suite struct NewIdTests {
    private func file(_ key: String = "INTEGER PRIMARY KEY AUTOINCREMENT") throws -> CapturedFile {
        try CapturedFile(
            "CREATE TABLE cities (id \(key), name TEXT UNIQUE)",
            rows: "INSERT INTO cities VALUES (7, 'Kiel'), (8, 'Aarhus')",
            guardsNewIds: true
        )
    }

    @Test func `A15: a plain insert draws its id from the reserved range`() throws {
        let file = try file()
        try file.write("INSERT INTO cities (name) VALUES ('Turku'), ('Umeå')")
        let ids = try file.queue.read { try Int64.fetchAll($0, sql: "SELECT id FROM cities WHERE id > 8 ORDER BY id") }
        #expect(ids == [TemporaryID.reservedMin, TemporaryID.reservedMin + 1])
        #expect(ids.allSatisfy(TemporaryID.isTemporary))
    }

    @Test func `A15: a temporary id is not drawn again after the file is reopened`() async throws {
        let file = try file()
        try file.write("INSERT INTO cities (name) VALUES ('Turku'); DELETE FROM cities WHERE id > 8")
        try file.close()
        try await SQLiteShell.run("INSERT INTO cities (name) VALUES ('Umeå')", on: file.path)
        let reopened = try DatabaseQueue(path: file.path)
        let id = try await reopened.read { try Int64.fetchOne($0, sql: "SELECT id FROM cities WHERE name = 'Umeå'") }
        #expect(id == TemporaryID.reservedMin + 1)
    }

    @Test(arguments: ["INSERT INTO cities VALUES (NULL, 'Nowhere')", "UPDATE cities SET id = NULL WHERE id = '7'"])
    func `an insert without the text key is refused`(statement: String) throws {
        let file = try file("TEXT PRIMARY KEY")
        let error = #expect(throws: DatabaseError.self) { try file.write(statement) }
        #expect(error?.message?.contains("give id a value") == true)
        try file.write("UPDATE cities SET name = 'Holstein' WHERE id = '7'")
    }

    @Test func `the arrival of a server id does not lower the sequence`() throws {
        let file = try file()
        try file.write(
            """
            UPDATE tidemark_state SET applying = 1;
            INSERT INTO cities VALUES (9, 'Tartu');
            UPDATE tidemark_state SET applying = 0;
            INSERT INTO cities (name) VALUES ('Turku');
            """
        )
        #expect(try file.value("SELECT max(id) FROM cities") == TemporaryID.reservedMin)
    }

    @Test(arguments: [9, 0, 1 << 53, TemporaryID.permanentMax, -(1 << 52), Int64.max, Int64.min])
    func `an insert with a new id in the server's range is refused with advice`(id: Int64) throws {
        let file = try file()
        let error = #expect(throws: DatabaseError.self) {
            try file.write("INSERT INTO cities VALUES (?, 'Turku')", [id])
        }
        let message = try #require(error?.message)
        #expect(message.contains("a new record of cities gets its permanent id from the server"))
        #expect(message.contains("leave id out, or write a negative one"))
        #expect(try file.captureCount() == 0)
    }

    @Test(arguments: [-1, -4_000_000_000, 1 << 52, (1 << 53) - 1, 1 - (1 << 52)])
    func `an insert with an explicit temporary id is accepted`(id: Int64) throws {
        let file = try file()
        try file.write("INSERT INTO cities VALUES (?, 'Turku')", [id])
        #expect(try file.drain() == [#"create cities \#(id) {"name":"Turku"}"#])
    }

    @Test func `the shell's error names the id to write instead`() async throws {
        let file = try file()
        let outcome = try await SQLiteShell.attempt("INSERT INTO cities VALUES (9, 'Turku')", on: file.path)
        #expect(outcome.status != 0)
        #expect(outcome.errors.contains("leave id out, or write a negative one"))
    }

    @Test func `a table without AUTOINCREMENT refuses a plain insert with working advice`() throws {
        let file = try file("INTEGER PRIMARY KEY")
        let error = #expect(throws: DatabaseError.self) { try file.write("INSERT INTO cities (name) VALUES ('Turku')") }
        let message = try #require(error?.message)
        let advice = try #require(message.split(separator: "for instance ").last)
        try file.write("INSERT INTO cities VALUES (\(advice), 'Turku')")
        try file.write("INSERT INTO cities VALUES (\(advice), 'Umeå')")
        #expect(try file.drain() == [#"create cities -1 {"name":"Turku"}"#, #"create cities -2 {"name":"Umeå"}"#])
    }

    @Test func `the advice is correct for names with quotes`() throws {
        let file = try CapturedFile(
            #"CREATE TABLE "it's" ("the id" INTEGER PRIMARY KEY, name TEXT)"#,
            guardsNewIds: true
        )
        let error = #expect(throws: DatabaseError.self) { try file.write(#"INSERT INTO "it's" VALUES (5, 'x')"#) }
        let message = try #require(error?.message)
        #expect(message.contains("a new record of it's"))
        let advice = try #require(message.split(separator: "for instance ").last)
        try file.write(#"INSERT INTO "it's" VALUES (\#(advice), 'x')"#)
        #expect(try file.drain() == [#"create it's -1 {"name":"x"}"#])
    }

    @Test func `an existing record may be deleted and inserted again under its id`() throws {
        let file = try file()
        try file.write("DELETE FROM cities WHERE id = 7; INSERT INTO cities VALUES (7, 'Kiel II')")
        #expect(try file.drain() == [#"update cities 7 {"name":"Kiel II"}"#])
    }

    @Test func `a deletion in the outbox may be undone by an insert`() throws {
        let file = try file()
        try file.write("DELETE FROM cities WHERE id = 7")
        #expect(try file.drain() == ["delete cities 7"])
        try file.write("INSERT INTO tidemark_base VALUES ('cities', '7', NULL)")
        try file.write("INSERT INTO cities VALUES (7, 'Kiel')")
        #expect(try file.drain() == [#"create cities 7 {"name":"Kiel"}"#])
    }

    @Test func `an existing record may be replaced and upserted under its id`() throws {
        let file = try file()
        try file.write("REPLACE INTO cities VALUES (7, 'Kiel II')")
        try file.write("INSERT INTO cities VALUES (8, '') ON CONFLICT (id) DO UPDATE SET name = 'Århus'")
        #expect(try file.drain() == [#"update cities 7 {"name":"Kiel II"}"#, #"update cities 8 {"name":"Århus"}"#])
    }

    @Test func `an ignored insert of an existing id does not permit a new id afterwards`() throws {
        let file = try file()
        try file.write("INSERT OR IGNORE INTO cities VALUES (7, 'x')")
        #expect(throws: DatabaseError.self) { try file.write("INSERT INTO cities VALUES (9, 'y')") }
    }

    @Test func `a key may be changed to a temporary id but not to one in the server's range`() throws {
        let file = try file()
        #expect(throws: DatabaseError.self) { try file.write("UPDATE cities SET id = 9 WHERE id = 7") }
        try file.write("UPDATE cities SET id = -9 WHERE id = 7")
        #expect(try file.drain() == ["delete cities 7", #"create cities -9 {"name":"Kiel"}"#])
    }

    @Test func `the engine may insert any id`() throws {
        let file = try file()
        try file.write(
            """
            UPDATE tidemark_state SET applying = 1;
            INSERT INTO cities VALUES (9, 'Tartu');
            UPDATE cities SET id = 10 WHERE id = 9;
            UPDATE tidemark_state SET applying = 0;
            """
        )
        #expect(try file.captureCount() == 0)
    }
}
