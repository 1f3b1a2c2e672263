import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// The commands as a person or a script uses them: what they print, and how they end.
    @Suite struct CommandLineTests {
        private static let music = """
            CREATE TABLE artists (id INTEGER PRIMARY KEY, name TEXT NOT NULL, founded INTEGER);
            CREATE TABLE albums (id INTEGER PRIMARY KEY AUTOINCREMENT,
                artist_id INTEGER NOT NULL REFERENCES artists ON DELETE CASCADE, title TEXT);
            INSERT INTO artists VALUES (1, 'AC/DC', 1973), (2, 'Accept', 1976);
            INSERT INTO albums (artist_id, title) VALUES (1, 'Powerage'), (2, 'Breaker');
            """

        private static func serve(_ workshop: Workshop) async throws -> Server {
            try await workshop.sqlite3("music.sqlite", music)
            return try await workshop.serve("music.sqlite")
        }

        @Test func `F1 F5 A4: an adopted file, two devices, the sqlite3 shell: all end up equal`()
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            try await workshop.sqlite3(
                "a.sqlite",
                """
                BEGIN;
                INSERT INTO artists VALUES (-1, 'Kraftwerk', 1970);
                INSERT INTO albums (artist_id, title) VALUES (-1, 'Autobahn');
                UPDATE artists SET name = 'AC-DC' WHERE id = 1;
                COMMIT;
                """
            )
            let pending = try await workshop.json(
                "device",
                "status",
                workshop.path("a.sqlite"),
                "--json"
            )
            #expect(pending["pendingChangeSets"] as? Int == 1)
            #expect(pending["pendingRecords"] as? Int == 3)
            #expect(pending["revision"] as? Int == 1)
            // The server's own file is edited as well.
            try await workshop.sqlite3("music.sqlite", "DELETE FROM artists WHERE id = 2")
            try await workshop.sync("a.sqlite", "b.sqlite")
            let artists = "1|AC-DC|1973\n3|Kraftwerk|1970"
            for file in ["a.sqlite", "b.sqlite", "music.sqlite"] {
                #expect(try await workshop.sqlite3(file, "SELECT * FROM artists") == artists)
                #expect(
                    try await workshop.sqlite3(file, "SELECT artist_id, title FROM albums")
                        == "1|Powerage\n3|Autobahn"
                )
            }
            let truth = try await workshop.digest(server.url)
            for source in ["a.sqlite", "b.sqlite", "music.sqlite"] {
                #expect(try await workshop.digest(source) == truth)
            }
            let status = try await workshop.json(
                "device",
                "status",
                workshop.path("b.sqlite"),
                "--json"
            )
            #expect(status["server"] as? String == server.url)
            #expect(status["zone"] as? String == "main")
            #expect(status["revision"] as? Int == 3)
            #expect(status["pendingChangeSets"] as? Int == 0)
            #expect(status["conflicts"] as? Int == 0)
            #expect(UUID(uuidString: status["device"] as? String ?? "") != nil)
            #expect(UUID(uuidString: status["epoch"] as? String ?? "") != nil)
            #expect((status["lastContact"] as? String)?.hasSuffix("Z") == true)
            try await server.stopped()
        }

        @Test
        func `A6 A7 A8: a collision exits 3, is listed with base, mine, theirs, and resolved`()
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "a.sqlite", "b.sqlite", "c.sqlite")
            for (file, year) in [("a.sqlite", 1), ("b.sqlite", 2), ("c.sqlite", 3)] {
                try await workshop.sqlite3(
                    file,
                    "UPDATE artists SET founded = \(year) WHERE id = 1"
                )
            }
            try await workshop.sync("a.sqlite")
            for file in ["b.sqlite", "c.sqlite"] {
                let synced = try await workshop.tidemark("device", "sync", workshop.path(file))
                #expect(synced.status == 3)
                #expect(synced.output.contains("conflict"))
                #expect(
                    try await workshop.sqlite3(file, "SELECT founded FROM artists LIMIT 1") == "1"
                )
            }
            let listed = try await workshop.tidemark(
                "device",
                "conflicts",
                workshop.path("b.sqlite"),
                "--json"
            )
            #expect(listed.status == 0)
            let parsed = try JSONSerialization.jsonObject(with: Data(listed.output.utf8))
            let conflict = try #require((parsed as? [[String: Any]])?.first)
            let record = try #require((conflict["records"] as? [[String: Any]])?.first)
            #expect(record["table"] as? String == "artists")
            #expect(record["key"] as? Int == 1)
            #expect((record["base"] as? [String: Any])?["founded"] as? Int == 1973)
            #expect((record["mine"] as? [String: Any])?["founded"] as? Int == 2)
            #expect((record["theirs"] as? [String: Any])?["founded"] as? Int == 1)
            let reason = try #require((conflict["reasons"] as? [[String: Any]])?.first)
            #expect(reason["rule"] as? String == "changed")
            #expect(reason["columns"] as? [String] == ["founded"])
            let told = try await workshop.tidemark("device", "conflicts", workshop.path("b.sqlite"))
            for text in ["artists 1", "1973", "--accept", "--retry"] {
                #expect(told.output.contains(text), "\(text)")
            }
            try await resolve(workshop, try #require(conflict["id"] as? String), server)
        }

        private func resolve(_ workshop: Workshop, _ id: String, _ server: Server) async throws {
            let (b, c) = (workshop.path("b.sqlite"), workshop.path("c.sqlite"))
            #expect(try await workshop.tidemark("device", "resolve", b, id, "--retry").status == 0)
            #expect(
                try await workshop.tidemark("device", "resolve", c, "1", "--accept").status == 0
            )
            try await workshop.sync("b.sqlite", "c.sqlite", "a.sqlite")
            for file in ["a.sqlite", "b.sqlite", "c.sqlite"] {
                #expect(
                    try await workshop.sqlite3(file, "SELECT founded FROM artists LIMIT 1") == "2"
                )
                let left = try await workshop.tidemark("device", "conflicts", workshop.path(file))
                #expect(left.output == "no conflicts\n")
            }
            #expect(try await workshop.tidemark("device", "resolve", b, id, "--retry").status == 1)
            try await server.stopped()
        }

        @Test func `A10 A12: with the server away sync exits 4, and nothing is lost or moved`()
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "UPDATE artists SET founded = 0")
            try await server.program.killed()
            let failed = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
            #expect(failed.status == 4)
            #expect(failed.errors.contains("what to do"))
            let status = try await workshop.json(
                "device",
                "status",
                workshop.path("a.sqlite"),
                "--json"
            )
            #expect(status["pendingChangeSets"] as? Int == 1)
            #expect(status["revision"] as? Int == 1)
            let again = try await workshop.serve("music.sqlite", port: server.port)
            try await workshop.sync("a.sqlite")
            #expect(
                try await workshop.sqlite3("music.sqlite", "SELECT sum(founded) FROM artists")
                    == "0"
            )
            try await again.stopped()
        }

        @Test func `A12: join refuses a file that is there, and one cut short leaves no file`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "big.sqlite",
                """
                CREATE TABLE blobs (id INTEGER PRIMARY KEY, body BLOB);
                WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                INSERT INTO blobs SELECT i, randomblob(100000) FROM n;
                """
            )
            let server = try await workshop.serve("big.sqlite")
            try workshop.write("mine", to: "there.sqlite")
            let refused = try await workshop.tidemark(
                "device",
                "join",
                server.url,
                workshop.path("there.sqlite")
            )
            #expect(refused.status == 1)
            #expect(refused.errors.contains("exists already"))
            #expect(
                try String(contentsOfFile: workshop.path("there.sqlite"), encoding: .utf8) == "mine"
            )

            let relay = TCPRelay(targetPort: server.port)
            let url = "http://127.0.0.1:\(try await relay.start())"
            // One cut and it goes on where it was; when nothing comes any more, it ends.
            relay.follow(RelayPlan([.cut(.down, after: 5_000_000), .cut(.down, after: 0)]))
            let cut = try await workshop.tidemark(
                "device",
                "join",
                url,
                workshop.path("cut.sqlite")
            )
            try await relay.stop()
            #expect([1, 4].contains(cut.status), "\(cut.errors)")
            #expect(try workshop.files(with: "cut.sqlite") == [])
            // The same command again does it.
            try await workshop.join(server, "cut.sqlite")
            #expect(try await workshop.digest("cut.sqlite") == workshop.digest("big.sqlite"))
            try await server.stopped()
        }
    }
}
