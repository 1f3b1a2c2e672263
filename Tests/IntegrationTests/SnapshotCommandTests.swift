import Foundation
import Testing

extension IntegrationTests {
    /// `tidemark snapshot FILE OUT`, and the snapshot that a device gets from a busy server.
    @Suite struct SnapshotCommandTests {
        private static let music = """
            CREATE TABLE artists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE plays (id INTEGER PRIMARY KEY, day TEXT);
            INSERT INTO artists VALUES (1, 'AC/DC'), (2, 'Accept');
            """

        /// A file that was served with `plays` excluded, and is not served any more.
        private static func served(_ workshop: Workshop) async throws {
            try await workshop.sqlite3("music.sqlite", music)
            try await serve(workshop).stopped()
        }

        private static func serve(_ workshop: Workshop, port: Int = 0) async throws -> Server {
            try await workshop.serve([
                "serve", workshop.path("music.sqlite"), "--exclude", "plays", "--policy", "artists=columns", "--listen",
                "127.0.0.1:\(port)",
            ])
        }

        @Test func `A13: snapshot makes a file to ship from a zone's file, without a server`() async throws {
            let workshop = try Workshop()
            try await Self.served(workshop)
            try await workshop.sqlite3("music.sqlite", "INSERT INTO artists VALUES (3, 'Abba')")
            let result = try await workshop.tidemark(
                "snapshot", workshop.path("music.sqlite"), workshop.path("shipped.sqlite"))
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.output.contains("at revision 2"))
            #expect(try workshop.files(with: "shipped") == ["shipped.sqlite"])
            // The excluded table is there, empty and local.
            #expect(try await workshop.sqlite3("shipped.sqlite", "SELECT count(*) FROM plays") == "0")
            #expect(try await workshop.sqlite3("shipped.sqlite", "SELECT count(*) FROM artists") == "3")
            // An app sets its server; the command cannot.
            let synced = try await workshop.tidemark("device", "sync", workshop.path("shipped.sqlite"))
            #expect(synced.status == 1)
            #expect(synced.errors.contains("--server"))
        }

        @Test func `A13: snapshot works beside a running server, and copies fetch later revisions only`() async throws {
            let workshop = try Workshop()
            try await Self.served(workshop)
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "anna.sqlite")
            let result = try await workshop.tidemark(
                "snapshot", workshop.path("music.sqlite"), workshop.path("shipped.sqlite"), "--server", server.url)
            #expect(result.status == 0, "\(result.errors)")
            for name in ["ben.sqlite", "cleo.sqlite"] {
                try FileManager.default.copyItem(atPath: workshop.path("shipped.sqlite"), toPath: workshop.path(name))
                try await workshop.sqlite3(name, "INSERT INTO artists (name) VALUES ('\(name)')")
            }
            try await workshop.sqlite3("anna.sqlite", "DELETE FROM artists WHERE id = 2")
            try await workshop.sync("anna.sqlite", "ben.sqlite", "cleo.sqlite")
            try await workshop.sync("anna.sqlite", "ben.sqlite")
            try await workshop.expectEqual(server, "anna.sqlite", "ben.sqlite", "cleo.sqlite")
            try await server.stopped()
        }

        @Test func `snapshot refuses files that are no zone, and existing targets`() async throws {
            let workshop = try Workshop()
            try await Self.served(workshop)
            try await workshop.sqlite3("plain.sqlite", Self.music)
            try workshop.write("mine", to: "there.sqlite")
            for (source, out, said) in [
                ("plain.sqlite", "out.sqlite", "not a zone"), ("nowhere.sqlite", "out.sqlite", "no file"),
                ("music.sqlite", "there.sqlite", "exists already"),
            ] {
                let refusal = try await workshop.tidemark("snapshot", workshop.path(source), workshop.path(out))
                #expect(refusal.status == 1, "\(source)")
                #expect(refusal.errors.contains(said), "\(refusal.errors)")
            }
            #expect(try workshop.files(with: "out.sqlite") == [])
            #expect(try String(contentsOfFile: workshop.path("there.sqlite"), encoding: .utf8) == "mine")
        }

        @Test func `F4: on a busy server a new device takes an existing snapshot file, then catches up`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("music.sqlite", Self.music)
            let server = try await workshop.serve([
                "serve", workshop.path("music.sqlite"), "--snapshot-behind", "2", "--listen", "127.0.0.1:0",
            ])
            try await workshop.join(server, "anna.sqlite")
            func revision(_ file: String) async throws -> Int? {
                try await workshop.json("device", "status", workshop.path(file), "--json")["revision"] as? Int
            }
            try await workshop.sqlite3("music.sqlite", "INSERT INTO artists VALUES (3, 'Abba')")
            try await workshop.join(server, "ben.sqlite")
            // The file is of revision 1; the join's own sync catches up.
            #expect(try await revision("ben.sqlite") == 2)
            try await workshop.expectEqual(server, "ben.sqlite")
            // Three revisions exceed the bound.
            for id in 4...5 {
                try await workshop.sqlite3("music.sqlite", "INSERT INTO artists VALUES (\(id), 'x')")
                try await workshop.sync("ben.sqlite")
            }
            try await workshop.join(server, "cleo.sqlite")
            #expect(try await revision("cleo.sqlite") == 4)
            try await server.stopped()
        }
    }
}
