import Foundation
import Testing

extension IntegrationTests {
    /// The session that `Docs/REST.md` prints, typed into a shell with real curl.
    @Suite struct RecordCurlTests {
        private static let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
            CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team, name TEXT NOT NULL,
                goals INTEGER DEFAULT 0);
            INSERT INTO team (name) VALUES ('Kiel');
            INSERT INTO player (team_id, name) VALUES (1, 'Anna'), (1, 'Ben');
            """

        /// A command of the page, and the output that the page shows.
        private struct Step {
            var command: String
            var output = ""
        }

        private static func steps() throws -> [Step] {
            let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Docs/REST.md")
            let page = try String(contentsOf: file, encoding: .utf8)
            let session = try #require(page.firstMatch(of: /```console\n([\s\S]*?)```/)?.output.1)
            var steps: [Step] = []
            for line in session.replacing("\\\n", with: "").split(separator: "\n") {
                if line.hasPrefix("$ ") {
                    steps.append(Step(command: String(line.dropFirst(2))))
                } else {
                    steps[steps.count - 1].output += line + "\n"
                }
            }
            return steps
        }

        @Test func `every command of the page gives the output that the page shows`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let epoch = try await workshop.sqlite3("zone.sqlite", "SELECT substr(epoch, 1, 8) FROM tidemark_zone")
            let steps = try Self.steps()
            #expect(steps.count >= 5)
            for step in steps {
                let command = step.command.replacing("$ZONE", with: server.url).replacing("1b60e08c", with: epoch)
                let result = try await workshop.run("bash", "-c", command)
                #expect(result.status == 0, "\(result.errors)")
                #expect(result.output == step.output, "\(step.command)")
            }
            try await server.stopped()
        }
    }
}
