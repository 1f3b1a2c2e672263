import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Integer ids of new records: never one that could later name another device's record.
@Suite struct NewIdTests {
    private func file(_ key: String = "INTEGER PRIMARY KEY AUTOINCREMENT") throws -> CapturedFile {
        try CapturedFile(
            "CREATE TABLE cities (id \(key), name TEXT UNIQUE)",
            rows: "INSERT INTO cities VALUES (7, 'Kiel'), (8, 'Aarhus')", guardsNewIds: true)
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

    @Test(arguments: [1 << 53, -(1 << 52), Int64.max, Int64.min])
    func `an insert with an id that no device can hold is refused with advice`(id: Int64) throws {
        let file = try file()
        let error = #expect(throws: DatabaseError.self) {
            try file.write("INSERT INTO cities VALUES (?, 'Turku')", [id])
        }
        let message = try #require(error?.message)
        #expect(message.contains("id of a new record of cities lies outside -2^52 to 2^53"))
        #expect(message.contains("leave id out, or write an id nearer to 0"))
        #expect(try file.captureCount() == 0)
    }

    @Test(arguments: [9, 0, 1_795_440_614_030, TemporaryID.permanentMax])
    func `an id that a program chooses is taken`(id: Int64) throws {
        let file = try file()
        try file.write("INSERT INTO cities VALUES (?, 'Turku')", [id])
        #expect(try file.drain() == [#"create cities \#(id) {"name":"Turku"}"#])
    }

    @Test(arguments: [-1, -4_000_000_000, 1 << 52, (1 << 53) - 1, 1 - (1 << 52)])
    func `an insert with an explicit temporary id is accepted`(id: Int64) throws {
        let file = try file()
        try file.write("INSERT INTO cities VALUES (?, 'Turku')", [id])
        #expect(try file.drain() == [#"create cities \#(id) {"name":"Turku"}"#])
    }

    @Test func `the shell's error says what to write instead`() async throws {
        let file = try file()
        let outcome = try await SQLiteShell.attempt("INSERT INTO cities VALUES (1 << 53, 'Turku')", on: file.path)
        #expect(outcome.status != 0)
        #expect(outcome.errors.contains("leave id out, or write an id nearer to 0"))
    }

    @Test func `a plain insert into a table without AUTOINCREMENT draws the id after the highest`() throws {
        let file = try file("INTEGER PRIMARY KEY")
        try file.write("INSERT INTO cities (name) VALUES ('Turku')")
        #expect(try file.drain() == [#"create cities 9 {"name":"Turku"}"#])
    }

    @Test func `the refusal is correct for names with quotes`() throws {
        let file = try CapturedFile(
            #"CREATE TABLE "it's" ("the id" INTEGER PRIMARY KEY, name TEXT)"#, guardsNewIds: true)
        let error = #expect(throws: DatabaseError.self) {
            try file.write(#"INSERT INTO "it's" VALUES (1 << 53, 'x')"#)
        }
        #expect(error?.message?.contains("the id of a new record of it's") == true)
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

    @Test func `a key may be changed to another id`() throws {
        let file = try file()
        try file.write("UPDATE cities SET id = 9 WHERE id = 7")
        #expect(try file.drain() == ["delete cities 7", #"create cities 9 {"name":"Kiel"}"#])
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
