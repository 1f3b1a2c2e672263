import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// The commands as people and scripts use them: output and exit codes.
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

        @Test func `F1 F5 A4: an adopted file, two devices and the sqlite3 shell end up equal`() async throws {
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
            let pending = try await workshop.json("device", "status", workshop.path("a.sqlite"), "--json")
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
                    try await workshop.sqlite3(file, "SELECT artist_id, title FROM albums") == "1|Powerage\n3|Autobahn")
            }
            let truth = try await workshop.digest(server.url)
            for source in ["a.sqlite", "b.sqlite", "music.sqlite"] {
                #expect(try await workshop.digest(source) == truth)
            }
            let status = try await workshop.json("device", "status", workshop.path("b.sqlite"), "--json")
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

        @Test func `adoption names references that nobody declared, and a sync names records that got other ids`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "shop.sqlite",
                """
                CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
                CREATE TABLE note (id INTEGER PRIMARY KEY, object_id INTEGER, other_id INTEGER, grid INTEGER,
                    page_id INTEGER REFERENCES book);
                INSERT INTO book VALUES (100, 'a'), (200, 'b');
                INSERT INTO note VALUES (1, 100, 7, 1000, 200), (2, 200, NULL, 200, 100);
                """
            )
            let server = try await workshop.serve("shop.sqlite")
            try await workshop.join(server, "a.sqlite")
            let create = "INSERT INTO book (title) VALUES ('new')"
            try await workshop.sqlite3("a.sqlite", create)
            try await workshop.sync("a.sqlite")
            // A plain insert at the server draws the next id, and so does the device.
            for file in ["shop.sqlite", "a.sqlite"] { try await workshop.sqlite3(file, create) }
            let synced = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
            #expect(synced.output.contains("1 new record got another id: book 32769 -> 32770"), "\(synced.output)")
            server.program.signalled(SIGTERM)
            let output = try await server.program.finished().output
            #expect(output.contains("\n  note.object_id  REFERENCES book (id)\nlistening"), "\(output)")
        }

        @Test func `A6 A7 A8: sync with a conflict exits 3; conflicts lists base, mine, theirs; resolve works`()
            async throws
        {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "a.sqlite", "b.sqlite", "c.sqlite")
            for (file, year) in [("a.sqlite", 1), ("b.sqlite", 2), ("c.sqlite", 3)] {
                try await workshop.sqlite3(file, "UPDATE artists SET founded = \(year) WHERE id = 1")
            }
            try await workshop.sync("a.sqlite")
            for file in ["b.sqlite", "c.sqlite"] {
                let synced = try await workshop.tidemark("device", "sync", workshop.path(file))
                #expect(synced.status == 3)
                #expect(synced.output.contains("conflict"))
                #expect(try await workshop.sqlite3(file, "SELECT founded FROM artists LIMIT 1") == "1")
            }
            let listed = try await workshop.tidemark("device", "conflicts", workshop.path("b.sqlite"), "--json")
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
            let listing = try await workshop.tidemark("device", "conflicts", workshop.path("b.sqlite"))
            for text in ["artists 1", "1973", "--accept", "--retry"] {
                #expect(listing.output.contains(text), "\(text)")
            }
            try await resolve(workshop, try #require(conflict["id"] as? String), server)
        }

        private func resolve(_ workshop: Workshop, _ id: String, _ server: Server) async throws {
            let b = workshop.path("b.sqlite")
            let c = workshop.path("c.sqlite")
            #expect(try await workshop.tidemark("device", "resolve", b, id, "--retry").status == 0)
            #expect(try await workshop.tidemark("device", "resolve", c, "1", "--accept").status == 0)
            try await workshop.sync("b.sqlite", "c.sqlite", "a.sqlite")
            for file in ["a.sqlite", "b.sqlite", "c.sqlite"] {
                #expect(try await workshop.sqlite3(file, "SELECT founded FROM artists LIMIT 1") == "2")
                let remaining = try await workshop.tidemark("device", "conflicts", workshop.path(file))
                #expect(remaining.output == "no conflicts\n")
            }
            #expect(try await workshop.tidemark("device", "resolve", b, id, "--retry").status == 1)
            try await server.stopped()
        }

        @Test func `A10 A12: without a server sync exits 4, and the outbox and the revision stay`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "UPDATE artists SET founded = 0")
            try await server.program.killed()
            let failed = try await workshop.tidemark("device", "sync", workshop.path("a.sqlite"))
            #expect(failed.status == 4)
            #expect(failed.errors.contains("what to do"))
            let status = try await workshop.json("device", "status", workshop.path("a.sqlite"), "--json")
            #expect(status["pendingChangeSets"] as? Int == 1)
            #expect(status["revision"] as? Int == 1)
            let again = try await workshop.serve("music.sqlite", port: server.port)
            try await workshop.sync("a.sqlite")
            #expect(try await workshop.sqlite3("music.sqlite", "SELECT sum(founded) FROM artists") == "0")
            try await again.stopped()
        }

        @Test func `A12: join refuses an existing file, and an interrupted join leaves no file`() async throws {
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
            let refusal = try await workshop.tidemark("device", "join", server.url, workshop.path("there.sqlite"))
            #expect(refusal.status == 1)
            #expect(refusal.errors.contains("exists already"))
            #expect(try String(contentsOfFile: workshop.path("there.sqlite"), encoding: .utf8) == "mine")

            let relay = TCPRelay(targetPort: server.port)
            let url = "http://127.0.0.1:\(try await relay.start())"
            // After one cut the download resumes; without further data it ends.
            relay.follow(RelayPlan([.cut(.down, after: 5_000_000), .cut(.down, after: 0)]))
            let cut = try await workshop.tidemark("device", "join", url, workshop.path("cut.sqlite"))
            try await relay.stop()
            #expect([1, 4].contains(cut.status), "\(cut.errors)")
            #expect(try workshop.files(with: "cut.sqlite") == [])
            // The same command succeeds the second time.
            try await workshop.join(server, "cut.sqlite")
            #expect(try await workshop.digest("cut.sqlite") == workshop.digest("big.sqlite"))
            try await server.stopped()
        }

        @Test(arguments: [SIGINT, SIGTERM, SIGKILL])
        func `A12: an interrupted download is readable by its owner only, and the next sync resumes it`(signal: Int32)
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "big.sqlite",
                """
                CREATE TABLE blobs (id INTEGER PRIMARY KEY, body BLOB);
                WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                INSERT INTO blobs SELECT i, randomblob(100000) FROM n;
                """
            )
            let server = try await workshop.serve("big.sqlite")
            let relay = TCPRelay(targetPort: server.port)
            let url = "http://127.0.0.1:\(try await relay.start())"
            let whole = workshop.path("whole.sqlite")
            #expect(try await workshop.tidemark("device", "join", url, whole).status == 0)
            // The next sync downloads a snapshot.
            try await workshop.sqlite3("whole.sqlite", "UPDATE tidemark_device SET stale = 1")
            let isKilled = signal == SIGKILL
            for (arguments, mark, modes, left) in [
                (["device", "join", url, workshop.path("cut.sqlite")], "cut.sqlite", [0o700], []),
                (["device", "sync", whole], "-tidemark-snapshot", [0o600, 0o600], [0o600]),
            ] {
                relay.follow(RelayPlan([.stall(.down, after: 8_000_000)]))
                let program = try workshop.start(Workshop.programs.appending(path: "tidemark").path, arguments)
                await relay.fault()
                #expect(try Self.modes(of: mark, in: workshop.folder.path) == modes)
                program.signalled(signal)
                let cut = try await program.finished()
                #expect(isKilled || cut.status == 128 + signal, "\(cut.errors)")
                #expect(try Self.modes(of: mark, in: workshop.folder.path) == (isKilled ? modes : left))
            }
            if !isKilled {
                #expect(try await workshop.sqlite3("whole.sqlite", "SELECT count(*) FROM tidemark_lock") == "0")
            }
            let before = relay.traffic.bytesDown
            let stored = try Data(contentsOf: URL(filePath: whole + "-tidemark-snapshot.received")).count
            #expect(try await workshop.tidemark("device", "sync", whole).status == 0)
            // The blobs have 10,000,000 bytes.
            #expect(relay.traffic.bytesDown - before < 10_500_000 - stored)
            #expect(try Self.modes(of: "-tidemark-snapshot", in: workshop.folder.path) == [])
            try await relay.stop()
            try await server.stopped()
        }

        /// The permissions of a folder's files with names that contain a text.
        private static func modes(of text: String, in folder: String) throws -> [Int] {
            let names = try FileManager.default.contentsOfDirectory(atPath: folder)
            return names.filter { $0.contains(text) }.map { name in
                var info = stat()
                return lstat("\(folder)/\(name)", &info) == 0 ? Int(info.st_mode & 0o777) : -1
            }
        }

        @Test func `case 32: rescue does not change the damaged file or the files beside it`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            try await workshop.join(server, "phone.sqlite")
            try await workshop.sqlite3("phone.sqlite", "UPDATE artists SET founded = 0 WHERE id = 1")
            let damaged = workshop.path("phone.sqlite.damaged")
            try FileManager.default.moveItem(atPath: workshop.path("phone.sqlite"), toPath: damaged)
            let before = try Data(contentsOf: URL(filePath: damaged))
            let others = ["damaged", "joining", "snapshot"].map { "app.sqlite.\($0)" }
            for other in others { try workshop.write("mine", to: other) }
            for file in ["phone.sqlite", "app.sqlite"] {
                let rescued = try await workshop.tidemark("device", "rescue", damaged, workshop.path(file))
                #expect(rescued.status == 0, "\(rescued.errors)")
                let founded = "SELECT founded FROM artists WHERE id = 1"
                #expect(try await workshop.sqlite3(file, founded) == "0")
                let status = try await workshop.json("device", "status", workshop.path(file), "--json")
                #expect(status["pendingChangeSets"] as? Int == 1)
                // The second time, the target exists.
                let again = try await workshop.tidemark("device", "rescue", damaged, workshop.path(file))
                #expect(again.status == 1)
                #expect(again.errors.contains("exists already"), "\(again.errors)")
                #expect(try Data(contentsOf: URL(filePath: damaged)) == before)
            }
            for other in others {
                let text = try String(contentsOfFile: workshop.path(other), encoding: .utf8)
                #expect(text == "mine", "\(other)")
            }
            #expect(try workshop.files(with: "app.sqlite.") == others)
            try await workshop.sync("phone.sqlite")
            #expect(try await workshop.sqlite3("music.sqlite", "SELECT founded FROM artists LIMIT 1") == "0")
            try await server.stopped()
        }
    }
}
