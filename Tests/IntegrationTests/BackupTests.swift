import Foundation
import Testing
import Tidemark

extension IntegrationTests {
    /// Rule 4: `tidemark backup`, and restores of its copies.
    @Suite struct BackupTests {
        private static let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
            CREATE TABLE player (id TEXT PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
                name TEXT NOT NULL, photo BLOB);
            CREATE INDEX player_team ON player (team_id);
            INSERT INTO team (name) VALUES ('Kiel'), ('Flensburg');
            INSERT INTO player VALUES ('p1', 1, 'Anna', x'00ff'), ('p2', 2, 'Berta', NULL);
            """

        @Test func `a backup made while devices push holds whole commits, and devices converge on it`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            // Each revision adds two teams, so that half of one would show.
            async let pushed: Void = {
                for number in 1...12 {
                    try await workshop.sqlite3(
                        "a.sqlite",
                        "INSERT INTO team (name) VALUES ('x\(number)'), ('y\(number)')"
                    )
                    try await workshop.sync("a.sqlite")
                }
            }()
            for number in 1...4 {
                let result = try await workshop.tidemark(
                    "backup",
                    workshop.path("zone.sqlite"),
                    workshop.path("backup\(number).sqlite")
                )
                #expect(result.status == 0, "\(result.errors)")
                #expect(result.output.contains("at revision"))
                let backup = "backup\(number).sqlite"
                #expect(
                    try await workshop.sqlite3(
                        backup,
                        "SELECT count(*) % 2 FROM team; SELECT count(*) = 2 * z.revision FROM team, tidemark_zone z"
                    ) == "0\n1"
                )
                #expect(try await workshop.sqlite3(backup, "PRAGMA integrity_check") == "ok")
                #expect(try workshop.files(with: backup) == [backup])
            }
            try await pushed
            try await workshop.sync("b.sqlite")
            // The server continues, and is then restored to the last backup.
            try await workshop.sqlite3("b.sqlite", "UPDATE player SET name = 'Anne' WHERE id = 'p1'")
            try await workshop.sync("b.sqlite", "a.sqlite")
            try await server.stopped()
            try FileManager.default.removeItem(atPath: workshop.path("zone.sqlite"))
            try FileManager.default.copyItem(
                atPath: workshop.path("backup4.sqlite"),
                toPath: workshop.path("zone.sqlite")
            )
            let again = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--restored", "--listen", "127.0.0.1:\(server.port)",
            ])
            try await workshop.sync("a.sqlite", "b.sqlite", "a.sqlite")
            try await workshop.expectEqual(again, "a.sqlite", "b.sqlite", "zone.sqlite")
            #expect(
                try await workshop.sqlite3(
                    "zone.sqlite",
                    "SELECT name FROM player WHERE id = 'p1'; SELECT count(*) FROM team"
                ) == "Anne\n26"
            )
            try await again.stopped()
        }

        @Test func `a backup fetched by URL starts a new history, and joined devices equal the server`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--policy", "player=columns", "--listen", "127.0.0.1:0",
            ])
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO team (name) VALUES ('Lübeck')")
            try await workshop.sync("a.sqlite")
            let truth = try await workshop.digest(server.url)
            let result = try await workshop.tidemark("backup", server.url, workshop.path("rows.sqlite"))
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.output.contains("5 rows") && result.output.contains("at revision 2"))
            #expect(result.output.contains("serve \(workshop.path("rows.sqlite")) --policy player=columns"))
            #expect(try await workshop.digest("rows.sqlite") == truth)
            #expect(
                try await workshop.sqlite3(
                    "rows.sqlite",
                    "SELECT group_concat(name) FROM sqlite_master WHERE name LIKE 'tidemark%'"
                ) == ""
            )
            try await server.stopped()
            let again = try await workshop.serve("rows.sqlite")
            try await workshop.join(again, "b.sqlite", "c.sqlite")
            try await workshop.sqlite3(
                "b.sqlite",
                "UPDATE team SET name = 'Kiel I' WHERE id = 1; INSERT INTO team (name) VALUES ('Eutin')"
            )
            try await workshop.sync("b.sqlite", "c.sqlite")
            try await workshop.expectEqual(again, "b.sqlite", "c.sqlite", "rows.sqlite")
            #expect(try await workshop.sqlite3("rows.sqlite", "SELECT name FROM team WHERE id = 1") == "Kiel I")
            try await again.stopped()
        }

        @Test func `backup refuses to overwrite files and to copy anything but a served zone`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            func backup(_ from: String, _ out: String) async throws -> Program.Result {
                try await workshop.tidemark("backup", workshop.path(from), workshop.path(out))
            }
            #expect(try await backup("zone.sqlite", "out.sqlite").errors.contains("never served"))
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            try await server.stopped()
            #expect(try await backup("a.sqlite", "out.sqlite").errors.contains("a device's file"))
            try workshop.write("kept", to: "taken.sqlite")
            try workshop.write("kept", to: "log.sqlite-wal")
            for out in ["taken.sqlite", "log.sqlite"] {
                let refusal = try await backup("zone.sqlite", out)
                #expect(refusal.status == 1)
                #expect(refusal.errors.contains("exists already"))
            }
            #expect(try Data(contentsOf: URL(filePath: workshop.path("taken.sqlite"))).count == 4)
            #expect(!workshop.exists("out.sqlite") && !workshop.exists("log.sqlite"))
        }

        @Test func `a data folder is copied with its zones and users, and put back whole`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT);", to: "s.sql")
            let folder = workshop.path("data")
            let start = ["serve", "--schema", workshop.path("s.sql"), "--data", folder, "--users", "--listen"]
            let server = try await workshop.serve(start + ["127.0.0.1:0"])
            _ = try await workshop.tidemark("user", "add", "anna", "--data", folder)
            let added = try await workshop.tidemark("token", "add", "anna", "--data", folder, "--json")
            let object = try JSONSerialization.jsonObject(with: Data(added.output.utf8)) as? [String: Any]
            let token = try #require(object?["token"] as? String)
            func curl(_ arguments: String...) async throws -> [String: Any] {
                let rest = ["-s", "-H", "Authorization: Bearer \(token)", "-H", "Content-Type: application/json"]
                let output = try await workshop.start("curl", rest + arguments).finished().output
                return try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any] ?? [:]
            }
            let made = try await curl(
                "\(server.url)/zones",
                "-d",
                #"{"kind":"shared","title":"Shopping","request":"1"}"#
            )
            let zone = try #require(made["zone"] as? String, "\(made)")
            let tables = "/zones/\(zone)/tables/note"
            _ = try await curl(server.url + tables, "-d", #"{"v":"one"}"#)
            let copy = try await workshop.tidemark("backup", "--data", folder, workshop.path("copy"))
            #expect(copy.status == 0, "\(copy.errors)")
            #expect(copy.output.contains("2 zones and the users") && copy.output.contains("--restored"))
            let modes = try ["copy", "copy/zones", "copy/access.sqlite"].map { name in
                try FileManager.default.attributesOfItem(atPath: workshop.path(name))[.posixPermissions] as? Int
            }
            #expect(modes == [0o700, 0o700, 0o600])
            _ = try await curl(server.url + tables, "-d", #"{"v":"lost"}"#)
            let next = try #require(try await curl("\(server.url)/zones/\(zone)/changes?since=0")["next"] as? String)
            try await server.stopped()
            try FileManager.default.removeItem(atPath: folder)
            try FileManager.default.copyItem(atPath: workshop.path("copy"), toPath: folder)
            let again = try await workshop.serve(start + ["127.0.0.1:\(server.port)", "--restored"])
            let page = try await curl(again.url + tables)
            #expect((page["records"] as? [[String: Any]])?.compactMap { $0["v"] as? String } == ["one"], "\(page)")
            let stale = try await curl("\(again.url)/zones/\(zone)/changes?since=\(next)")
            #expect(stale["code"] as? String == "epochMismatch", "\(stale)")
            let lineage = "SELECT count(*) FROM tidemark_lineage"
            #expect(try await workshop.sqlite3("data/zones/\(zone).sqlite", lineage) == "1")
            try await again.stopped()
            // A file that is no zone any more is named, and the others are copied.
            try workshop.write("no database", to: "data/zones/\(zone).sqlite")
            let part = try await workshop.tidemark("backup", "--data", folder, workshop.path("part"))
            #expect(part.status == 1 && part.errors.contains(zone), "\(part.errors)")
            #expect(workshop.exists("part/main.sqlite") && workshop.exists("part/access.sqlite"))
            let refusal = try await workshop.tidemark("backup", "--data", folder, workshop.path("part"))
            #expect(refusal.status == 1 && refusal.errors.contains("exists already"))
        }

        @Test func `a restore that nobody declares is noticed by readers of the feed and by writers with a tag`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", "CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT)")
            let server = try await workshop.serve("zone.sqlite")
            func post(_ text: String) async throws {
                let header = "Content-Type: application/json"
                let body = #"{"v":"\#(text)"}"#
                try await workshop.run("curl", "-s", "\(server.url)/tables/note", "-H", header, "-d", body)
            }
            func status(_ arguments: String...) async throws -> String {
                let rest = ["-s", "-o", "/dev/null", "-w", "%{http_code}"]
                let output = try await workshop.start("curl", rest + arguments).finished().output
                return output.trimmingCharacters(in: .whitespacesAndNewlines)
            }
            try await post("one")
            _ = try await workshop.tidemark("backup", workshop.path("zone.sqlite"), workshop.path("backup.sqlite"))
            for text in ["two", "three"] { try await post(text) }
            let page = try await workshop.run("curl", "-s", "\(server.url)/changes?since=0").output
            let object = try JSONSerialization.jsonObject(with: Data(page.utf8)) as? [String: Any]
            let next = try #require(object?["next"] as? String)
            let head = try await workshop.run("curl", "-sI", "\(server.url)/tables/note/2").output
            let tag = try #require(head.firstMatch(of: /(?i)etag: ("[^"]*")/)).1
            try await server.stopped()
            try FileManager.default.removeItem(atPath: workshop.path("zone.sqlite"))
            try FileManager.default.copyItem(
                atPath: workshop.path("backup.sqlite"),
                toPath: workshop.path("zone.sqlite")
            )
            let again = try await workshop.serve("zone.sqlite", port: server.port)
            for text in ["other", "another", "third"] { try await post(text) }
            #expect(try await status("\(again.url)/changes?since=\(next)") == "410")
            let patch = ["-X", "PATCH", "-H", "If-Match: \(tag)", "-H", "Content-Type: application/json"]
            let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "\(again.url)/tables/note/2"]
            let refused = try await workshop.start("curl", arguments + patch + ["-d", #"{"v":"over"}"#]).finished()
            #expect(refused.output.hasPrefix("412"))
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT v FROM note WHERE id = 2") == "other")
            try await again.stopped()
        }

        @Test func `backup of a damaged file leaves no copy behind`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await server.stopped()
            // A page of player rows with junk in its middle.
            let page = try await workshop.sqlite3(
                "zone.sqlite",
                "SELECT rootpage FROM sqlite_master WHERE name = 'player'"
            )
            let file = try FileHandle(forUpdating: URL(filePath: workshop.path("zone.sqlite")))
            try file.seek(toOffset: UInt64((try #require(Int(page)) - 1) * 4_096))
            try file.write(contentsOf: Data(repeating: 0x5a, count: 512))
            try file.close()
            let result = try await workshop.tidemark(
                "backup",
                workshop.path("zone.sqlite"),
                workshop.path("out.sqlite")
            )
            #expect(result.status == 1)
            #expect(result.errors.contains("damaged"))
            #expect(try workshop.files(with: "out.sqlite") == [])
        }

        @Test func `a join removes the files of a killed join, but not of a running one`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            // Files of a killed process and of a running one, under the same lock.
            let ids = [UUID().uuidString.lowercased(), UUID().uuidString.lowercased()]
            for id in ids {
                try FileManager.default.createDirectory(
                    atPath: workshop.path("a.sqlite.\(id)"),
                    withIntermediateDirectories: false
                )
                try workshop.write("rows", to: "a.sqlite.\(id)/snapshot")
            }
            try workshop.write("mine", to: "a.sqlite.notes")
            let holder = try workshop.start(
                "flock",
                [workshop.path("a.sqlite.\(ids[1])"), "sh", "-c", "echo held; read end"]
            )
            _ = try await holder.line(with: "held")
            try await workshop.join(server, "a.sqlite")
            #expect(try workshop.files(with: "a.sqlite.") == ["a.sqlite.\(ids[1])", "a.sqlite.notes"].sorted())
            try await holder.finished()
            try await server.stopped()
        }
    }
}
