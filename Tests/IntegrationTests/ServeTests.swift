import Foundation
import Testing

extension IntegrationTests {
    /// `tidemark serve` and the rest of the command line for wrong input.
    @Suite struct ServeTests {
        @Test func `F5: a file with an unsuitable schema is refused with every problem and every cure`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "bad.sqlite",
                """
                PRAGMA foreign_keys = OFF;
                CREATE TABLE plain (rowid, _rowid_, oid);
                CREATE TABLE "ty""pes" (id INTEGER PRIMARY KEY, "a\\b" INTEGER);
                CREATE TABLE orphans (id INTEGER PRIMARY KEY, x REFERENCES nowhere);
                CREATE TABLE fine (id INTEGER PRIMARY KEY);
                """
            )
            let before = try await workshop.sqlite3("bad.sqlite", "SELECT * FROM sqlite_master")
            let refusal = try await workshop.tidemark("serve", workshop.path("bad.sqlite"))
            #expect(refusal.status == 1)
            #expect(refusal.output == "")
            for text in [
                "plain", "no primary key", "--key plain=", "ty\"pes", "RENAME TO", "RENAME COLUMN", "orphans",
                "nowhere",
                "--exclude",
            ] { #expect(refusal.errors.contains(text), "\(text) in \(refusal.errors)") }
            #expect(try await workshop.sqlite3("bad.sqlite", "SELECT * FROM sqlite_master") == before)
            // Tables without a cure can be excluded.
            let others = ["plain", "ty\"pes", "orphans"].flatMap { ["--exclude", $0] }
            let rest = ["serve", workshop.path("bad.sqlite"), "--listen", "127.0.0.1:0"]
            let server = try await workshop.serve(rest + others)
            try await workshop.join(server, "a.sqlite")
            let captured = "SELECT tbl_name FROM sqlite_master WHERE name GLOB 'tidemark_after_insert_*'"
            #expect(try await workshop.sqlite3("a.sqlite", captured) == "fine")
            try await server.stopped()
        }

        @Test func `F5: rows with broken references are named, and the file is served after the repair`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "rows.sqlite",
                """
                PRAGMA foreign_keys = OFF;
                CREATE TABLE teams (id INTEGER PRIMARY KEY);
                CREATE TABLE players (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES teams);
                INSERT INTO players VALUES (5, 99);
                """
            )
            let refusal = try await workshop.tidemark("serve", workshop.path("rows.sqlite"))
            #expect(refusal.status == 1)
            #expect(refusal.errors.contains("row 5 refers to teams 99"))
            try await workshop.sqlite3("rows.sqlite", "INSERT INTO teams VALUES (99)")
            try await workshop.serve("rows.sqlite").stopped()
        }

        @Test func `F5: --schema and --data create an empty zone, and open it again after a restart`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);", to: "s.sql")
            let arguments = ["serve", "--schema", workshop.path("s.sql"), "--data", workshop.path("new/data")]
            let first = try await workshop.serve(arguments + ["--listen", "127.0.0.1:0"])
            try await workshop.join(first, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (id, text) VALUES (-1, 'x')")
            try await workshop.sync("a.sqlite")
            try await first.stopped()
            let second = try await workshop.serve(arguments + ["--listen", "127.0.0.1:\(first.port)"])
            try await workshop.sync("a.sqlite")
            #expect(try await workshop.sqlite3("a.sqlite", "SELECT * FROM notes") == "1|x")
            #expect(try await workshop.digest("a.sqlite") == workshop.digest(second.url))
            try await second.stopped()
        }

        @Test func `F5: a non-loopback address is refused, and so is a port in use`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("z.sqlite", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            let server = try await workshop.serve("z.sqlite")
            for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "\(server.port)", ":80", "a:b"] {
                let refusal = try await workshop.tidemark("serve", workshop.path("z.sqlite"), "--listen", address)
                #expect(refusal.status == 1, "\(address)")
                #expect(refusal.errors.contains("what to do"), "\(address)")
            }
            try await workshop.sqlite3("y.sqlite", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            let portRefusal = try await workshop.tidemark(
                "serve", workshop.path("y.sqlite"), "--listen", "127.0.0.1:\(server.port)")
            #expect(portRefusal.status == 1)
            #expect(portRefusal.errors.contains("Cannot listen"))
            try await server.stopped()
        }

        @Test(.enabled(if: Loopback.hasVersion6, "this machine has no ::1"), arguments: ["[::1]:0", "::1:0"])
        func `F5: serve listens on an IPv6 address and prints it in URL form`(address: String) async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("z.sqlite", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            let server = try workshop.startTidemark(["serve", workshop.path("z.sqlite"), "--listen", address])
            let line = try await server.line(with: "listening on http://[::1]:")
            let url = try #require(line.split(separator: " ").last.map(String.init))
            #expect(try await workshop.run("curl", "-sg", url + "/healthz").output == "ok\n")
            try await server.killed()
        }

        @Test func `F5: an excluded table is ignored by the server and by devices`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "z.sqlite",
                """
                CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
                INSERT INTO notes VALUES (1, 'first');
                CREATE TABLE local (a, b);
                INSERT INTO local VALUES (1, 2);
                """
            )
            let server = try await workshop.serve([
                "serve", workshop.path("z.sqlite"), "--exclude", "local", "--listen", "127.0.0.1:0",
            ])
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
            try await workshop.sync("a.sqlite")
            try await workshop.expectEqual(server, "a.sqlite", "z.sqlite")
            let schema = try await workshop.tidemark("schema", workshop.path("z.sqlite"))
            #expect(schema.status == 0, "\(schema.errors)")
            #expect(schema.output.contains("notes") && !schema.output.contains("local"))
            // A file that is neither zone nor device counts all its tables.
            try await workshop.sqlite3("plain.sqlite", "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            let plain = try await workshop.tidemark("digest", workshop.path("plain.sqlite"))
            #expect(plain.status == 0 && plain.output.contains("t "), "\(plain.errors)")
            try await server.stopped()
        }

        @Test func `Rule 20: invalid arguments exit 64, missing files exit 1, both with a reason`() async throws {
            let workshop = try Workshop()
            try workshop.write("no database at all, only text of some length", to: "text.sqlite")
            for arguments in [
                ["serve"], ["serve", "a", "--schema", "b"], ["serve", "--schema", "b"],
                ["device", "resolve", "f", "1"], ["device", "resolve", "f", "1", "--accept", "--retry"],
                ["device", "sync"], ["device", "fly"], ["digest"], ["device", "sync", "f", "--every", "soon"],
                ["device", "sync", "f", "--every", "nan"], ["device", "sync", "f", "--every", "inf"],
                ["device", "sync", "f", "--every", "1e30"], ["device", "sync", "f", "--every", "0"],
            ] {
                let result = try await workshop.startTidemark(arguments).finished()
                #expect(result.status == 64, "\(arguments)")
                #expect(result.errors.contains("Usage") || result.errors.contains("USAGE"))
            }
            for arguments in [
                ["serve", "missing.sqlite"], ["serve", "text.sqlite"], ["device", "sync", "missing"],
                ["device", "sync", "text.sqlite"], ["device", "status", "missing"], ["digest", "missing"],
                ["digest", "text.sqlite"], ["digest", "ftp://x"], ["device", "join", "nonsense", "new.sqlite"],
            ] {
                let result = try await workshop.startTidemark(arguments).finished()
                #expect(result.status == 1, "\(arguments): \(result.errors)")
                #expect(result.errors.contains("what to do"), "\(arguments): \(result.errors)")
            }
            let away = try await workshop.tidemark("device", "join", "http://127.0.0.1:1", "new.sqlite")
            #expect(away.status == 4)
            #expect(try workshop.files(with: "new") == [])
            #expect(try workshop.files(with: "missing") == [])
        }

        @Test func `F5: --help of every command explains the command`() async throws {
            let workshop = try Workshop()
            for (command, words) in [
                ([], ["Offline-first sync", "Exit codes", "serve", "device", "digest"]),
                (["serve"], ["Serve a SQLite file", "--listen", "--exclude", "--policy", "cures"]),
                (["device"], ["join", "sync", "status", "conflicts", "resolve"]),
                (["device", "join"], ["Create a device file", "must not exist", "keep the id that"]),
                (["device", "sync"], ["Send local edits", "--watch", "Exit codes"]),
                (["device", "status"], ["a device's state", "--json"]),
                (["device", "conflicts"], ["refused change sets", "--json"]),
                (["device", "resolve"], ["--accept", "--retry", "conflict"]),
                (["digest"], ["content hash", "byte for byte"]),
            ] {
                let help = try await workshop.startTidemark(command + ["--help"]).finished()
                #expect(help.status == 0)
                let text = help.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
                for word in words { #expect(text.contains(word), "\(word) in \(text)") }
            }
        }
    }
}

/// Addresses of this machine.
enum Loopback {
    /// Whether the machine has `::1`.
    static var hasVersion6: Bool {
        // Without this file the machine is no Linux, or has no IPv6.
        let addresses = try? String(contentsOfFile: "/proc/net/if_inet6", encoding: .utf8)
        return addresses?.contains("00000000000000000000000000000001") ?? false
    }
}
