import Foundation
import Testing

extension IntegrationTests {
    /// The README's Swift code equals the compiled snippet, and the snippet runs.
    @Suite struct QuickstartTests {
        private static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()

        private static func text(_ path: String) throws -> String {
            try String(contentsOf: repository.appending(path: path), encoding: .utf8)
        }

        @Test func `F1: the README's code equals the snippet, word for word`() throws {
            let snippet = try Self.text("Snippets/Quickstart.swift")
            let start = try #require(snippet.range(of: "// snippet.quickstart\n")).upperBound
            let end = try #require(snippet.range(of: "// snippet.end")).lowerBound
            let code = snippet[start..<end].trimmingCharacters(in: .newlines)
            #expect(code.contains("SyncEngine("))
            #expect(try Self.text("README.md").contains("```swift\n\(code)\n```"))
        }

        @Test func `A4 A10: the quickstart runs against a served file, and its player gets a permanent id`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "players.sqlite",
                """
                CREATE TABLE player (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
                INSERT INTO player (name) VALUES ('Anna'), ('Ben');
                """
            )
            let server = try await workshop.serve("players.sqlite")
            let quickstart = try await workshop.start(
                Workshop.programs.appending(path: "Quickstart").path, [], environment: ["TIDEMARK_URL": server.url]
            ).finished()
            #expect(quickstart.status == 0, "\(quickstart.output)\(quickstart.errors)")
            #expect(quickstart.output.contains("3 Carla"), "\(quickstart.output)")
            let players = try await workshop.sqlite3("players.sqlite", "SELECT * FROM player")
            #expect(players == "1|Anna\n2|Ben\n3|Carla")
            try await workshop.expectEqual(server, "app.sqlite", "players.sqlite")
            try await server.stopped()
        }
    }
}
