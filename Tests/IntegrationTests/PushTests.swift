import Foundation
import Testing

extension IntegrationTests {
    /// Rule 30, D2: a server process pushes commits to its listeners, and ends their streams when
    /// it stops.
    @Suite(.timeLimit(.minutes(30))) struct PushTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
            INSERT INTO notes (text) VALUES ('first');
            """

        @Test func `D2: a watching device receives other devices' commits before its timer fires`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            let watcher = try workshop.startTidemark([
                "device", "sync", workshop.path("b.sqlite"), "--watch", "--every", "86400",
            ])
            for number in 0..<3 {
                let insert = "INSERT INTO notes (text) VALUES ('number \(number)')"
                // A device's edit, then one that sqlite3 makes in the served file.
                try await workshop.sqlite3("a.sqlite", insert)
                try await workshop.sync("a.sqlite")
                _ = try await watcher.line(with: "1 record of others taken in")
                try await workshop.sqlite3("zone.sqlite", insert)
                _ = try await watcher.line(with: "1 record of others taken in")
                let count = "SELECT count(*) FROM notes WHERE text = 'number \(number)'"
                #expect(try await workshop.sqlite3("b.sqlite", count) == "2")
            }
            // The server restarts; commits of the meantime arrive.
            try await server.stopped()
            let insert = "INSERT INTO notes (text) VALUES ('meanwhile')"
            try await workshop.sqlite3("zone.sqlite", insert)
            let again = try await workshop.serve("zone.sqlite", port: server.port)
            _ = try await watcher.line(with: "1 record of others taken in")
            try await watcher.killed()
            try await workshop.sync("a.sqlite")
            try await workshop.expectEqual(again, "a.sqlite", "b.sqlite", "zone.sqlite")
            try await again.stopped()
        }

        @Test func `rule 21: with a low limit of open files, listeners leave room for syncs`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let serve = "exec \(Workshop.programs.path)/tidemark serve zone.sqlite --listen 127.0.0.1:0"
            let program = try workshop.start("sh", ["-c", "ulimit -n 160; \(serve)"])
            let line = try await program.line(with: "listening on http://")
            let port = try #require(line.split(separator: ":").last.flatMap { Int($0) })
            let server = Server(program: program, port: port)
            // There is room for 32 connections, 16 of them listeners.
            let listeners = try (0..<24).map { _ in try workshop.start("curl", ["-sN", server.url + "/events"]) }
            var admitted = 0
            for listener in listeners { if try await listener.line(with: "{").hasPrefix("data: ") { admitted += 1 } }
            #expect(admitted == 16)
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('mine')")
            try await workshop.sync("a.sqlite")
            try await server.stopped()
        }

        #if os(Linux)
        @Test func `the server kept eight million revisions for 4,000 change sets, each after the one before`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let sets = (1...4_000).map { number in
                let after = number > 1 ? #""\#(Self.id(number - 1))""# : ""
                return #"{"id":"\#(Self.id(number))","after":[\#(after)],"notes":{"create":[-\#(number)],"#
                    + #""attributes":{"-\#(number)":{"text":"number \#(number)"}}}}"#
            }
            let body = #"{"maxRevision":1,"device":"a","changeSets":[\#(sets.joined(separator: ","))]}"#
            try workshop.write(body, to: "push.json")
            let idle = try Self.peakMebibytes(of: server.program)
            let answer = try await workshop.run(
                "curl", "-s", server.url + "/sync", "--data-binary", "@push.json", "-H",
                "Content-Type: application/json")
            #expect(answer.output.hasPrefix(#"{"maxRevision":4001,"#), "\(answer.output.prefix(300))")
            #expect(try Self.peakMebibytes(of: server.program) - idle < 64)
            try await server.stopped()
        }

        private static func id(_ number: Int) -> String { "00000000-0000-4000-8000-\(999_999_999_999 - number)" }

        private static func peakMebibytes(of program: Program) throws -> Int {
            let status = try String(contentsOfFile: "/proc/\(program.id)/status", encoding: .utf8)
            let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
            return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) >> 10
        }
        #endif

        @Test func `D2: a stopping server tells curl when to reconnect, and ends`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let listener = try workshop.start("curl", ["-sN", server.url + "/events"])
            _ = try await listener.line(with: #""revision":1}"#)
            try await workshop.sqlite3("zone.sqlite", "UPDATE notes SET text = 'new'")
            _ = try await listener.line(with: #""revision":2}"#)
            try await server.stopped()
            _ = try await listener.line(with: "event: bye")
            _ = try await listener.line(with: "retry: 2000")
            #expect(try await listener.finished().status == 0)
        }
    }
}
