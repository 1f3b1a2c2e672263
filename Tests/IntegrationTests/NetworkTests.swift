import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// Real HTTP over a failing link, and devices that reconnect by themselves.
    @Suite struct NetworkTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
            INSERT INTO notes (text) VALUES ('first');
            """

        @Test func `A5 A12: an answer cut at any byte changes nothing, the whole answer applies`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let relay = TCPRelay(targetPort: server.port)
            let link = Server(program: server.program, port: try await relay.start())
            try await workshop.join(link, "a.sqlite")
            try await workshop.join(server, "b.sqlite")
            for number in 0..<5 {
                try await workshop.sqlite3("b.sqlite", "INSERT INTO notes (text) VALUES ('\(number)')")
                try await workshop.sync("b.sqlite")
            }
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('mine')")
            for bytes in [1, 15, 100, 200, 300] {
                relay.follow(RelayPlan([.cut(.down, after: bytes)]))
                let cut = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
                #expect(cut.status == 4 || cut.status == 1, "\(bytes): \(cut.output)\(cut.errors)")
                let status = try await workshop.json("device", "status", workshop.path("a.sqlite"), "--json")
                #expect(status["revision"] as? Int == 1, "cut after \(bytes) bytes")
                #expect(status["pendingChangeSets"] as? Int == 1)
                #expect(try await workshop.sqlite3("a.sqlite", "SELECT count(*) FROM notes") == "2")
            }
            let synced = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
            #expect(synced.status == 0)
            #expect(synced.output.hasPrefix("synced: revision 1 -> 7"))
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT count(*) FROM notes") == "7")
            try await workshop.sync("b.sqlite")
            try await workshop.expectEqual(server, "a.sqlite", "b.sqlite", "zone.sqlite")
            try await relay.stop()
            try await server.stopped()
        }

        @Test func `A10: without tidemark-dev relay a device is offline, with it online again`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let target = ["relay", "--to", "127.0.0.1:\(server.port)", "--listen"]
            let relay = try workshop.startTidemarkDev(target + ["127.0.0.1:0"])
            let line = try await relay.line(with: "relaying http://")
            let url = String(try #require(line.split(separator: " ").dropFirst().first))
            let a = workshop.path("a.sqlite")
            #expect(try await workshop.tidemark("device", "join", url, a).status == 0)
            try await relay.killed()
            try await workshop.sqlite3("a.sqlite", "DELETE FROM notes")
            #expect(try await workshop.tidemark("device", "sync", a).status == 4)
            let again = try workshop.startTidemarkDev(target + [String(url.dropFirst(7))])
            _ = try await again.line(with: "relaying http://")
            try await workshop.sync("a.sqlite")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT count(*) FROM notes") == "0")
            try await again.killed()
            try await server.stopped()
        }

        @Test func `A11 F1: two watching devices receive each other's sqlite3 edits`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            let watchers = try ["a.sqlite", "b.sqlite"].map { file in
                try workshop.startTidemark(["device", "sync", workshop.path(file), "--watch", "--every", "0.05"])
            }
            for (number, (from, to)) in [(0, 1), (1, 0), (0, 1)].enumerated() {
                let files = ["a.sqlite", "b.sqlite"]
                try await workshop.sqlite3(
                    files[from], "INSERT INTO notes (text) VALUES ('from \(from), number \(number)')")
                _ = try await watchers[from].line(with: "1 change set sent")
                _ = try await watchers[to].line(with: "1 record of others taken in")
                let last = "SELECT text FROM notes ORDER BY id DESC LIMIT 1"
                let text = "from \(from), number \(number)"
                #expect(try await workshop.sqlite3(files[to], last) == text)
                #expect(try await workshop.sqlite3(files[from], last) == text)
            }
            // The server stops and restarts; the watchers report it and continue.
            try await server.program.killed()
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('offline')")
            let again = try await workshop.serve("zone.sqlite", port: server.port)
            _ = try await watchers[1].line(with: "1 record of others taken in")
            #expect(try await workshop.sqlite3("b.sqlite", "SELECT count(*) FROM notes WHERE text = 'offline'") == "1")
            for watcher in watchers { try await watcher.killed() }
            try await workshop.expectEqual(again, "a.sqlite", "b.sqlite", "zone.sqlite")
            try await again.stopped()
        }
    }
}
