import Foundation
import Testing
import Tidemark

extension IntegrationTests {
    /// Rule 4: the served file of a real server, moved and replaced by its operator.
    @Suite struct ServedFileTests {
        private static let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
            INSERT INTO team (name) VALUES ('Kiel');
            """

        /// A server and a device with equal rows, the device with a pending edit.
        private static func workshop() async throws -> (Workshop, Server) {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO team (name) VALUES ('Flensburg')")
            try await workshop.sync("a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO team (name) VALUES ('Lübeck')")
            return (workshop, server)
        }

        /// Expects that the server acknowledges nothing and gives the reason to every client.
        private static func expectRefusing(_ server: Server, in workshop: Workshop) async throws {
            for _ in 1...2 {
                let sync = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
                #expect(sync.status == 1)
                #expect(sync.errors.contains("deleted, moved or replaced"))
            }
            let ready = try await workshop.run("curl", "-s", "-i", server.url + "/readyz").output
            #expect(ready.hasPrefix("HTTP/1.1 503"))
            #expect(ready.contains("deleted, moved or replaced"))
            // A device without edits gets the error, too.
            let body = #"{"maxRevision":2,"changeSets":[]}"#
            let pull = try await workshop.run("curl", "-s", server.url + "/sync", "-d", body).output
            #expect(pull.contains("storageFailed"))
            #expect(try await workshop.sqlite3("a.sqlite", "SELECT count(*) FROM tidemark_changeset") == "1")
        }

        /// Ends a server with a missing file; it reports that in its log and at its end.
        private static func stop(_ server: Server) async throws {
            server.program.signalled(SIGTERM)
            let result = try await server.program.finished()
            #expect(result.status == 1)
            #expect(result.errors.contains("the server cannot answer"))
            #expect(result.errors.contains("tidemark: The zone's file"))
        }

        @Test(arguments: [["", "-wal", "-shm"], ["-shm", "-wal", ""], [""], ["-wal"]])
        func `rule 4: after deletion of the served file no change set is acknowledged`(_ suffixes: [String])
            async throws
        {
            let (workshop, server) = try await Self.workshop()
            for suffix in suffixes { try FileManager.default.removeItem(atPath: workshop.path("zone.sqlite") + suffix) }
            try await Self.expectRefusing(server, in: workshop)
            try await Self.stop(server)
        }

        @Test func `rule 4: a served file that was moved away and back has all commits`() async throws {
            let (workshop, server) = try await Self.workshop()
            let path = workshop.path("zone.sqlite")
            try FileManager.default.moveItem(atPath: path, toPath: workshop.path("moved.sqlite"))
            try await Self.expectRefusing(server, in: workshop)
            try await Self.stop(server)
            try FileManager.default.moveItem(atPath: workshop.path("moved.sqlite"), toPath: path)
            let again = try await workshop.serve("zone.sqlite", port: server.port)
            try await workshop.sync("a.sqlite")
            #expect(
                try await workshop.sqlite3("zone.sqlite", "SELECT group_concat(name) FROM team")
                    == "Kiel,Flensburg,Lübeck")
            try await again.stopped()
        }

        @Test func `rule 4: a file put in place of the served file receives no commits`() async throws {
            let (workshop, server) = try await Self.workshop()
            try await workshop.sqlite3("other.sqlite", Self.schema)
            let other = try Data(contentsOf: URL(filePath: workshop.path("other.sqlite")))
            // As `mv` does it, in one step.
            let names = (workshop.path("other.sqlite"), workshop.path("zone.sqlite"))
            try #require(rename(names.0, names.1) == 0)
            try await Self.expectRefusing(server, in: workshop)
            try await Self.stop(server)
            #expect(try Data(contentsOf: URL(filePath: names.1)) == other)
        }

        @Test func `after SIGTERM the served file is complete on its own, even with readers open`() async throws {
            let (workshop, server) = try await Self.workshop()
            try await workshop.sync("a.sqlite")
            for path in ["/digest", "/snapshot", "/readyz"] {
                try await workshop.run("curl", "-sf", "-o", "/dev/null", server.url + path)
            }
            // A shell that has the file open keeps SQLite from emptying the log by itself.
            let shell = try workshop.start("sqlite3", [workshop.path("zone.sqlite")])
            try shell.send("SELECT 'open', count(*) FROM team;")
            _ = try await shell.line(with: "open|3")
            server.program.signalled(SIGTERM)
            let result = try await server.program.finished()
            #expect(result.status == 0, "\(result.errors)")
            try FileManager.default.copyItem(atPath: workshop.path("zone.sqlite"), toPath: workshop.path("copy.sqlite"))
            #expect(
                try await workshop.sqlite3("copy.sqlite", "SELECT group_concat(name) FROM team")
                    == "Kiel,Flensburg,Lübeck")
            try await shell.finished()
        }

        @Test func `a stopped server leaves one file without -wal or -shm`() async throws {
            let (workshop, server) = try await Self.workshop()
            try await workshop.sync("a.sqlite")
            try await workshop.run("curl", "-sf", "-o", "/dev/null", server.url + "/digest")
            try await server.stopped()
            #expect(try workshop.files(with: "zone.sqlite") == ["zone.sqlite"])
        }
    }
}
