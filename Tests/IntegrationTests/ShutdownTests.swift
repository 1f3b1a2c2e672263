import Foundation
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 32: SIGTERM to a busy server.
    @Suite struct ShutdownTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, body BLOB);
            """

        /// The change sets that a server acknowledged.
        private final class Ledger: Sendable {
            private let ids = Mutex<Set<String>>([])
            let answers = AsyncStream.makeStream(of: Void.self)

            var answered: Set<String> { ids.withLock { $0 } }

            func note(_ id: String) {
                ids.withLock { _ = $0.insert(id) }
                answers.continuation.yield()
            }

            /// Returns once there are this many answers.
            func wait(for count: Int) async {
                var remaining = count
                for await _ in answers.stream {
                    remaining -= 1
                    if remaining == 0 { break }
                }
            }
        }

        /// Pushes until the server is gone.
        private static func push(as client: Int, to server: Server, _ ledger: Ledger) async {
            do {
                let transport = try HTTPTransport(url: server.url)
                for number in 0... {
                    let id = UUID().uuidString.lowercased()
                    try await push(id, "\(client)-\(number)", over: transport)
                    ledger.note(id)
                }
            } catch {
                // Its commits are in its file.
                ledger.answers.continuation.finish()
            }
        }

        private static func push(_ id: String, _ label: String, over transport: HTTPTransport) async throws {
            let body =
                #"{"maxRevision":0,"limit":1,"device":"\#(label)","changeSets":[{"id":"\#(id)","notes":"#
                + #"{"create":[-1],"attributes":{"-1":{"label":"\#(label)"}}}}]}"#
            _ = try await transport.sync(zone: "main", body: Array(body.utf8))
        }

        @Test func `rules 3 4: SIGTERM under load cuts no request: every commit was answered`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let ledger = Ledger()
            await withTaskGroup(of: Void.self) { tasks in
                for client in 0..<20 { tasks.addTask { await Self.push(as: client, to: server, ledger) } }
                await ledger.wait(for: 200)
                server.program.signalled(SIGTERM)
                await tasks.waitForAll()
            }
            let result = try await server.program.finished()
            #expect(result.status == 0, "\(result.errors)")
            let rows = try await workshop.sqlite3("zone.sqlite", "SELECT id FROM tidemark_verdict")
            let committed = Set(rows.split(separator: "\n").map(String.init))
            let answered = ledger.answered
            #expect(answered.count >= 200)
            #expect(answered.subtracting(committed) == [], "answered but not committed")
            #expect(committed.subtracting(answered) == [], "committed but not answered")
        }

        @Test func `a slow snapshot download completes while the server shuts down`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "zone.sqlite",
                Self.schema + """
                    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 160)
                    INSERT INTO notes (label, body) SELECT i, randomblob(100000) FROM n;
                    """
            )
            let server = try await workshop.serve("zone.sqlite")
            // Fast enough for a test, slow enough for the sockets' buffers to be full at the end.
            let arguments = ["-sS", "-v", "--limit-rate", "8M", "-o", workshop.path("snapshot.gz")]
            let script = #"exec curl "$@" 2>&1"#
            let curl = try workshop.start("sh", ["-c", script, "curl"] + arguments + [server.url + "/snapshot"])
            let line = try await curl.line(with: "Content-Length: ")
            server.program.signalled(SIGTERM)
            let download = try await curl.finished()
            #expect(download.status == 0, "\(download.output.suffix(500))")
            let stopped = try await server.program.finished()
            #expect(stopped.status == 0, "\(stopped.errors)")
            let file = try FileManager.default.attributesOfItem(atPath: workshop.path("snapshot.gz"))
            let length = line.split(separator: " ").last.flatMap {
                Int($0.trimmingCharacters(in: .whitespacesAndNewlines))
            }
            #expect(file[.size] as? Int == length)
        }

        @Test func `readyz reports shutdown at once while the server still answers requests`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--drain", "3000",
            ])
            func status(_ path: String) async throws -> String {
                let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", server.url + path]
                return try await workshop.start("curl", arguments).finished().output
            }
            #expect(try await status("/readyz").hasPrefix("200"))
            server.program.signalled(SIGTERM)
            // The signal takes a moment to arrive, and this is the only sign of it.
            while try await status("/readyz").hasPrefix("200") { await Task.yield() }
            #expect(try await status("/readyz").hasPrefix("503"))
            #expect(try await status("/healthz").hasPrefix("200"))
            let transport = try HTTPTransport(url: server.url)
            try await Self.push(UUID().uuidString, "late", over: transport)
            let count = try await workshop.sqlite3("zone.sqlite", "SELECT count(*) FROM notes")
            #expect(count == "1")
            try await server.program.killed()
        }

        @Test(arguments: [(SIGTERM, "SIGTERM"), (SIGINT, "SIGINT")])
        func `a server that shuts down logs the name of the signal`(signal: Int32, name: String) async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            server.program.signalled(signal)
            let result = try await server.program.finished()
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.errors.contains("stopping"), "\(result.errors)")
            #expect(result.errors.contains(name), "\(result.errors)")
        }

        @Test func `SIGHUP never ends a server, from its first moment on and without a file to read again`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let program = try workshop.startTidemark([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0",
            ])
            func ignoresHangUp() throws -> Bool {
                let status = try String(contentsOfFile: "/proc/\(program.id)/status", encoding: .utf8)
                let line = status.split(separator: "\n").first { $0.hasPrefix("SigIgn:") }
                return line?.last.map { "13579bdf".contains($0) } == true
            }
            while try !ignoresHangUp() { await Task.yield() }
            for _ in 0..<3 { program.signalled(SIGHUP) }
            let url = try #require(try await program.line(with: "listening on ").split(separator: " ").last)
            program.signalled(SIGHUP)
            for _ in 0..<2 { #expect(try await workshop.run("curl", "-s", "\(url)/healthz").output == "ok\n") }
            program.signalled(SIGTERM)
            let result = try await program.finished()
            #expect(result.status == 0 && result.errors.contains("SIGTERM"), "\(result.errors)")
            #expect(result.errors.contains("no file to read again"), "\(result.errors)")
        }

        @Test func `a server started by nohup survives the closing of its terminal`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let tidemark = Workshop.programs.appending(path: "tidemark").path
            let script = #"trap "" HUP; exec "$0" "$@""#
            let program = try workshop.start(
                "sh", ["-c", script, tidemark, "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0"])
            let url = try #require(try await program.line(with: "listening on ").split(separator: " ").last)
            program.signalled(SIGHUP)
            // A signal that is not ignored ends the server before it answers the second time.
            for _ in 0..<2 { #expect(try await workshop.run("curl", "-s", "\(url)/healthz").output == "ok\n") }
            program.signalled(SIGTERM)
            let result = try await program.finished()
            #expect(result.status == 0 && result.errors.contains("SIGTERM"), "\(result.errors)")
        }

        @Test func `a server survives the closing of its output pipe`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let first = try await workshop.serve("zone.sqlite")
            try await first.stopped()
            // Its port is free again. The second server's output goes to a program that has
            // ended.
            let inner = #"'echo $$ > pid; exec "$0" "$@" 2>&1'"#
            let script = #"sh -c \#(inner) "$0" "$@" | true"#
            let shell = try workshop.start(
                "sh",
                [
                    "-c", script, Workshop.programs.appending(path: "tidemark").path, "serve",
                    workshop.path("zone.sqlite"), "--listen", "127.0.0.1:\(first.port)", "--verbose",
                ]
            )
            var answer = ""
            while answer != "ok\n", !shell.isFinished {
                answer = try await workshop.run("curl", "-s", "\(first.url)/healthz").output
            }
            let again = try await workshop.run("curl", "-s", "\(first.url)/healthz").output
            #expect(again == "ok\n", "the server is gone")
            let metrics = try await workshop.run("curl", "-s", "-X", "POST", "-d", "{}", "\(first.url)/sync")
            #expect(metrics.output.contains("maxRevision"))
            let pid = try await workshop.run("cat", workshop.path("pid")).output
            _ = try await workshop.run("kill", pid.trimmingCharacters(in: .whitespacesAndNewlines))
            try await shell.finished()
        }

        @Test func `a server exports metrics and logs no content of messages`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--verbose",
            ])
            let transport = try HTTPTransport(url: server.url)
            try await Self.push(UUID().uuidString, "hunter2", over: transport)
            let page = try await workshop.run("curl", "-s", server.url + "/metrics").output
            #expect(page.contains("\ntidemark_pushes_total 1\n"))
            #expect(page.contains("\ntidemark_build_info{version=\"\(TidemarkVersion.current)\"} 1\n"))
            server.program.signalled(SIGTERM)
            let result = try await server.program.finished()
            #expect(result.errors.contains("route=/sync"))
            #expect(result.errors.contains("status=200"))
            #expect(!result.errors.contains("hunter2"))
        }
    }
}
