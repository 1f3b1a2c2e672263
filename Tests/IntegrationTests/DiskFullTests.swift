import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 4: without disk space on either side there is a clear error and no loss, and work goes
    /// on once there is space.
    ///
    /// A limit on file sizes stands for the full disk, because it needs no administrator. SQLite
    /// sees a failed write in both cases.
    @Suite struct DiskFullTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT, body BLOB);
            INSERT INTO notes (label, body) VALUES ('first', zeroblob(10));
            """

        /// Starts `tidemark` with a file size limit in kilobytes.
        private static func start(_ arguments: [String], kilobytesMax: Int, in workshop: Workshop) throws -> Program {
            let tidemark = Workshop.programs.appending(path: "tidemark").path
            // Ignores the signal, which would end the process, so that the write fails.
            let script = "trap '' XFSZ; ulimit -S -f \(kilobytesMax * 2); exec \"$0\" \"$@\""
            return try workshop.start("sh", ["-c", script, tidemark] + arguments)
        }

        private static func fill(_ file: String, _ label: String, in workshop: Workshop) async throws {
            try await workshop.sqlite3(file, "INSERT INTO notes (label, body) VALUES ('\(label)', randomblob(100000))")
        }

        @Test func `rules 4 10, case 6: a server with a full disk reports it, loses nothing, and recovers`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let roomy = try await workshop.serve("zone.sqlite")
            try await workshop.join(roomy, "a.sqlite", "b.sqlite")
            try await roomy.stopped()
            let listen = ["--listen", "127.0.0.1:\(roomy.port)"]
            let program = try Self.start(
                ["serve", workshop.path("zone.sqlite")] + listen, kilobytesMax: 1_500, in: workshop)
            _ = try await program.line(with: "listening on http://")
            let server = Server(program: program, port: roomy.port)
            var count = 0
            var failed = Program.Result(status: 0, output: "", errors: "")
            while failed.status == 0, count < 60 {
                count += 1
                try await Self.fill("a.sqlite", "\(count)", in: workshop)
                failed = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
            }
            #expect(failed.status == 1, "\(failed.output)\(failed.errors)")
            #expect(failed.errors.hasPrefix("tidemark: "), "\(failed.errors)")
            // The server still answers requests that need no space.
            #expect(try await workshop.tidemark("digest", server.url).status == 0)
            let notes = "SELECT count(*) FROM notes"
            #expect(try await workshop.sqlite3("a.sqlite", notes) == "\(count + 1)")
            // The limit is raised; the same process continues.
            let raisedLimit = try await workshop.run("prlimit", "--pid", "\(program.id)", "--fsize=unlimited:unlimited")
            try #require(raisedLimit.status == 0, "\(raisedLimit.errors)")
            try await workshop.sync("a.sqlite", "b.sqlite")
            #expect(try await workshop.sqlite3("b.sqlite", notes) == "\(count + 1)")
            try await workshop.expectEqual(server, "a.sqlite", "b.sqlite", "zone.sqlite")
            try await server.stopped()
        }

        @Test func `rules 2 10, case 31: a device with a full disk reports it, loses nothing, and recovers`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (label) VALUES ('mine')")
            for number in 1...30 { try await Self.fill("zone.sqlite", "\(number)", in: workshop) }
            let sync = ["device", "sync", workshop.path("a.sqlite")]
            for kilobytes in [700, 1_100, 2_000] {
                let failed = try await Self.start(sync, kilobytesMax: kilobytes, in: workshop).finished()
                #expect(failed.status == 1, "\(kilobytes): \(failed.output)\(failed.errors)")
                #expect(!failed.errors.isEmpty)
                let labels = "SELECT group_concat(label) FROM notes"
                #expect(try await workshop.sqlite3("a.sqlite", labels) == "first,mine")
                #expect(try await workshop.sqlite3("a.sqlite", "PRAGMA integrity_check") == "ok")
            }
            try await workshop.sync("a.sqlite")
            let mine = "SELECT count(*) FROM notes WHERE label = 'mine'"
            #expect(try await workshop.sqlite3("zone.sqlite", mine) == "1")
            try await workshop.expectEqual(server, "a.sqlite", "zone.sqlite")
            try await server.stopped()
        }

        @Test func `case 31: join on a full disk reports it and leaves no file behind`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            for number in 1...20 { try await Self.fill("zone.sqlite", "\(number)", in: workshop) }
            let server = try await workshop.serve("zone.sqlite")
            let join = ["device", "join", server.url, workshop.path("a.sqlite")]
            for kilobytes in [50, 1_000, 1_900] {
                let failed = try await Self.start(join, kilobytesMax: kilobytes, in: workshop).finished()
                #expect(failed.status == 1, "\(kilobytes): \(failed.output)\(failed.errors)")
                #expect(!failed.errors.isEmpty)
                #expect(try workshop.files(with: "a.sqlite") == [], "\(kilobytes)")
            }
            try await workshop.join(server, "a.sqlite")
            try await workshop.expectEqual(server, "a.sqlite")
            try await server.stopped()
        }
    }
}
