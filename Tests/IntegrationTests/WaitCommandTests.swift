import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// B10: scripts wait until their edits are on the server.
    @Suite struct WaitCommandTests {
        private static let tables = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
            CREATE TABLE cities (country TEXT, code INTEGER, name TEXT, PRIMARY KEY (country, code));
            INSERT INTO notes VALUES (1, 'first'), (2, 'second');
            INSERT INTO cities VALUES ('DE', 7, 'Bonn');
            """

        private static func wait(_ workshop: Workshop, _ options: String...) async throws -> Program.Result {
            try await workshop.startTidemark(["device", "wait", workshop.path("a.sqlite")] + options).finished()
        }

        @Test func `B10: a script waits for a record or for all edits, and reads the receipt`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.tables)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "UPDATE notes SET text = 'edited' WHERE id = 1")
            let one = try await Self.wait(workshop, "--record", "notes/1", "--timeout", "60")
            #expect(one.status == 0, "\(one.errors)")
            #expect(one.output == "the server has the edits of notes/1 at revision 2 (1 change set sent)\n")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT text FROM notes WHERE id = 1") == "edited")
            try await workshop.sqlite3("a.sqlite", "UPDATE cities SET name = 'Köln'")
            let city = try await Self.wait(workshop, "--record", "cities/DE,7")
            #expect(city.output == "the server has the edits of cities/DE,7 at revision 3 (1 change set sent)\n")
            let again = try await Self.wait(workshop, "--record", "cities/DE,7")
            #expect(again.output == "no edits of cities/DE,7 were waiting, at revision 3\n")
            let nowhere = try await Self.wait(workshop, "--record", "notes/424242")
            #expect(nowhere.status == 1 && nowhere.errors.contains("Neither this file nor the server has notes 424242"))
            let all = try await Self.wait(workshop, "--json")
            let receipt = try #require(JSONSerialization.jsonObject(with: Data(all.output.utf8)) as? [String: Any])
            #expect(receipt["revision"] as? Int == 3)
            #expect(receipt["zone"] as? String == "main")
            #expect(receipt["changeSets"] as? [String] == [])
        }

        @Test func `B10: the exit code says whether the server refused the edit or cannot be reached`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.tables)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("zone.sqlite", "UPDATE notes SET text = 'theirs' WHERE id = 1")
            try await workshop.sqlite3("a.sqlite", "UPDATE notes SET text = 'mine' WHERE id = 1")
            let refused = try await Self.wait(workshop, "--record", "notes/1")
            #expect(refused.status == 3)
            #expect(refused.errors.contains("device conflicts"))
            try await server.stopped()
            try await workshop.sqlite3("a.sqlite", "UPDATE notes SET text = 'offline' WHERE id = 2")
            let late = try await Self.wait(workshop, "--record", "notes/2", "--timeout", "0.2")
            #expect(late.status == 4)
            #expect(late.errors.contains("does not have a change set yet"))
            let unknown = try await Self.wait(workshop, "--record", "songs/1")
            #expect(unknown.status == 1)
            #expect(unknown.errors.contains("no synced table"))
            let misspelt = try await Self.wait(workshop, "--record", "cities/DE")
            #expect(misspelt.status == 1)
            #expect(misspelt.errors.contains("country,code"))
        }
    }
}
