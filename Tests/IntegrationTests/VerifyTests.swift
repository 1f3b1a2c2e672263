import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// `tidemark verify` on files that were changed without triggers.
    @Suite struct VerifyTests {
        private static let music = """
            CREATE TABLE artist (id INTEGER PRIMARY KEY, name TEXT NOT NULL, founded INTEGER);
            CREATE TABLE genre (name TEXT PRIMARY KEY, shelf INTEGER);
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 400)
            INSERT INTO artist SELECT i, 'A' || i, 1900 + i % 100 FROM n;
            INSERT INTO genre VALUES ('rock', 1), ('jazz', 2);
            """
        private static let corruption = """
            UPDATE tidemark_state SET applying = 1;
            UPDATE artist SET founded = founded + 1, name = 'x' WHERE id = 17;
            DELETE FROM artist WHERE id = 200;
            INSERT INTO genre VALUES ('noise', 3);
            UPDATE tidemark_state SET applying = 0;
            """

        @Test func `F2 E5, rule 17: verify lists exactly the wrong records and repairs them`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("music.sqlite", Self.music)
            let server = try await workshop.serve("music.sqlite")
            try await workshop.join(server, "phone.sqlite")
            try await workshop.sync("phone.sqlite")
            let sound = try await workshop.tidemark("verify", workshop.path("phone.sqlite"))
            #expect(sound.status == 0 && sound.output.contains("all is right"))
            try await workshop.sqlite3("phone.sqlite", "UPDATE artist SET name = 'Kiss' WHERE id = 5")
            try await workshop.sqlite3("phone.sqlite", Self.corruption)

            let report = try await workshop.tidemark("verify", workshop.path("phone.sqlite"))
            #expect(report.status == 1)
            let named = report.output.split(separator: "\n").filter { $0.contains(": ") }
            #expect(
                Set(named) == ["changed: artist 17: founded, name", "missing: artist 200", "surplus: genre \"noise\""])
            #expect(try await workshop.sqlite3("phone.sqlite", "SELECT name FROM artist WHERE id = 17") == "x")
            let repaired = try await workshop.json("verify", workshop.path("phone.sqlite"), "--repair", "--json")
            #expect((repaired["records"] as? [Any])?.count == 3)
            #expect(repaired["isRepaired"] as? Bool == true && repaired["conflicts"] as? Int == 1)
            let status = try await workshop.tidemark("device", "status", workshop.path("phone.sqlite"))
            #expect(status.output.contains("3 records: a program seems to edit this file with triggers switched off"))
            let resolved = try await workshop.tidemark(
                "device", "resolve", workshop.path("phone.sqlite"), "1", "--accept")
            #expect(resolved.status == 0)
            try await workshop.sync("phone.sqlite")
            try await workshop.expectEqual(server, "phone.sqlite", "music.sqlite")
            #expect(try await workshop.sqlite3("music.sqlite", "SELECT name FROM artist WHERE id = 5") == "Kiss")
            try await server.stopped()
        }

        @Test func `rule 17: without the server verify says that rows are wrong, but not which`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("music.sqlite", Self.music)
            let server = try await workshop.serve("music.sqlite")
            try await workshop.join(server, "phone.sqlite")
            try await server.stopped()
            try await workshop.sqlite3("phone.sqlite", Self.corruption)
            let report = try await workshop.tidemark("verify", workshop.path("phone.sqlite"))
            #expect(report.status == 1 && report.output.contains("was not reached"))
        }

        @Test func `rule 17: verify finds and logs changes in the zone's file that bypassed the triggers`() async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("music.sqlite", Self.music)
            let server = try await workshop.serve("music.sqlite")
            try await workshop.join(server, "phone.sqlite")
            try await workshop.sqlite3("music.sqlite", "UPDATE genre SET shelf = 7 WHERE name = 'jazz'")
            let sound = try await workshop.tidemark("verify", workshop.path("music.sqlite"))
            #expect(sound.status == 0, "\(sound.output)")
            try await workshop.sqlite3("music.sqlite", Self.corruption)
            let report = try await workshop.tidemark("verify", workshop.path("music.sqlite"))
            #expect(report.status == 1 && report.output.contains("devices take them over"))
            try await workshop.sync("phone.sqlite")
            try await workshop.expectEqual(server, "phone.sqlite", "music.sqlite")
            try await server.stopped()
        }
    }
}
