import Foundation
import Testing
import Tidemark

extension IntegrationTests {
    /// Policies that an operator sets once and the zone keeps.
    @Suite struct ServedPolicyTests {
        private static let schema = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, stars INTEGER);
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT);
            """

        private static func serve(_ workshop: Workshop, _ options: String...) async throws -> Server {
            let listen = ["--listen", "127.0.0.1:0"]
            return try await workshop.serve(["serve", workshop.path("zone.sqlite")] + options + listen)
        }

        private static func policies(_ workshop: Workshop, _ source: String) async throws -> [String] {
            let schemaText = try await workshop.tidemark("schema", source).output
            return schemaText.split(separator: "\n").map(String.init).filter { $0.contains("policy") }
        }

        @Test func `B8: a zone keeps its policies when a restart does not repeat them, and lists them`() async throws {
            let workshop = try Workshop()
            let path = workshop.path("zone.sqlite")
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let first = try await Self.serve(workshop, "--policy", "player=lastWriter", "--policy", "note.text=latest")
            first.program.signalled(SIGTERM)
            let output = try await first.program.finished().output
            #expect(output.contains("policy of player: reject -> lastWriter"))
            #expect(output.contains("policy of note.text: reject -> latest"))

            let all = ["policy of note.text: latest", "policy of player: lastWriter"]
            let second = try await Self.serve(workshop)
            #expect(try await Self.policies(workshop, second.url) == all)
            #expect(try await Self.policies(workshop, path) == all)
            let json = try await workshop.json("schema", path, "--json")
            #expect(json["policies"] as? [String: String] == ["note.text": "latest", "player": "lastWriter"])
            // Two devices edit one cell: the later edit prevails without a conflict.
            try await workshop.join(second, "a.sqlite", "b.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO player (name) VALUES ('Anna')")
            try await workshop.sync("a.sqlite", "b.sqlite")
            try await workshop.sqlite3("a.sqlite", "UPDATE player SET name = 'Anne'")
            try await workshop.sqlite3("b.sqlite", "UPDATE player SET name = 'Anja'")
            try await workshop.sync("a.sqlite", "b.sqlite")
            // Another server on the same file changes the policies for both.
            let third = try await Self.serve(workshop, "--policy", "player=reject")
            #expect(try await Self.policies(workshop, second.url) == [all[0]])
            third.program.signalled(SIGTERM)
            #expect(try await third.program.finished().output.contains("policy of player: lastWriter -> reject"))
            try await second.stopped()
        }

        @Test func `rule 39: two shells sell from one stock, and the command line shows what a refused sale adds`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "zone.sqlite",
                "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, stock INTEGER); "
                    + "INSERT INTO item VALUES (1, 'cup', 10)")
            let server = try await Self.serve(workshop, "--policy", "item.stock=add")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            for file in ["a.sqlite", "b.sqlite"] {
                try await workshop.sqlite3(file, "UPDATE item SET stock = stock - 2")
            }
            try await workshop.sync("a.sqlite", "b.sqlite")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT stock FROM item") == "6")
            try await workshop.sync("a.sqlite")
            try await workshop.sqlite3("a.sqlite", "UPDATE item SET name = 'mug'")
            try await workshop.sqlite3("b.sqlite", "UPDATE item SET name = 'jar', stock = stock - 3")
            try await workshop.sync("a.sqlite")
            _ = try await workshop.tidemark("device", "sync", workshop.path("b.sqlite"))
            let conflicts = try await workshop.tidemark("device", "conflicts", workshop.path("b.sqlite")).output
            #expect(conflicts.contains("adds -3"))
            _ = try await workshop.tidemark("device", "resolve", workshop.path("b.sqlite"), "1", "--retry")
            try await workshop.sync("b.sqlite")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT name || stock FROM item") == "jar3")
            try await server.stopped()
        }

        @Test func `a policy or exclusion for an unknown table, and a file without tables, are refused`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            try await workshop.sqlite3("empty.sqlite", "CREATE VIEW v AS SELECT 1")
            func refusal(_ arguments: String...) async throws -> String {
                let listen = ["--listen", "127.0.0.1:0"]
                let result = try await workshop.startTidemark(["serve"] + arguments + listen).finished()
                #expect(result.status == 1)
                return result.errors
            }
            let path = workshop.path("zone.sqlite")
            let unknown = try await refusal(path, "--policy", "nosuch=columns")
            #expect(unknown.contains("nosuch") && unknown.contains("note, player"))
            let excluded = try await refusal(path, "--exclude", "nosuch")
            #expect(excluded.contains("nosuch") && excluded.contains("note, player"))
            #expect(try await refusal(workshop.path("empty.sqlite")).contains("no tables to sync"))
            // Nothing was stored.
            #expect(
                try await workshop.sqlite3(
                    "zone.sqlite", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'tidemark%'") == "0")
        }
    }
}
