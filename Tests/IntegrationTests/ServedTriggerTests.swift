import Foundation
import Testing
import Tidemark

extension IntegrationTests {
    /// Triggers and collations of the program's own in a served file, from the command line.
    @Suite struct ServedTriggerTests {
        private static let schema = """
            CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, sort TEXT);
            CREATE TABLE cache (key TEXT);
            CREATE VIEW titles AS SELECT title FROM book;
            CREATE TRIGGER sorts AFTER UPDATE OF title ON book BEGIN
                UPDATE book SET sort = title_sort(NEW.title) WHERE id = NEW.id; END;
            INSERT INTO book (title, sort) VALUES ('The x', 'x, The');
            PRAGMA user_version = 25;
            """

        @Test func `a program's trigger is named, declared for devices, and stays declared after a restart`()
            async throws
        {
            let workshop = try Workshop()
            let listen = ["--exclude", "cache", "--listen", "127.0.0.1:0"]
            let path = workshop.path("zone.sqlite")
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let refused = try await workshop.startTidemark(["serve", path] + listen).finished()
            #expect(refused.status == 1)
            #expect(refused.errors.contains("title_sort") && refused.errors.contains("--trigger sorts=device"))
            let unknown = try await workshop.startTidemark(["serve", path, "--trigger", "no=device"] + listen)
                .finished()
            #expect(unknown.errors.contains("no trigger no"))

            let first = try await workshop.serve(["serve", path, "--trigger", "sorts=device"] + listen)
            try await first.stopped()
            let second = try await workshop.serve(["serve", path] + listen)
            try await workshop.join(second, "a.sqlite", "b.sqlite")
            try await workshop.sqlite3(
                "a.sqlite", "INSERT INTO book (title) VALUES ('new'); INSERT INTO cache VALUES (1)")
            try await workshop.sync("a.sqlite", "b.sqlite")
            let look = "SELECT count(*) FROM titles; SELECT count(*) FROM cache; PRAGMA user_version"
            #expect(try await workshop.sqlite3("b.sqlite", look).split(separator: "\n") == ["2", "0", "25"])
            try await second.stopped()
        }

        @Test func `rule 22: a served view that runs a command in the shell is on no device, and both sides name it`()
            async throws
        {
            let workshop = try Workshop()
            let command = "touch \(workshop.path("ran")) #"
            try await workshop.sqlite3(
                "zone.sqlite",
                """
                CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
                CREATE VIEW nice AS SELECT id, name FROM team UNION ALL SELECT 0, edit('x', '\(command)');
                CREATE VIEW short AS SELECT abbreviation(name) FROM team;
                """
            )
            let server = try workshop.startTidemark(["serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0"])
            #expect(try await server.line(with: "hint: ").contains("view nice (edit), view short (abbreviation)"))
            let line = try await server.line(with: "listening on ")
            let url = "http://" + (line.components(separatedBy: "http://").last ?? "")
            let joined = try await workshop.tidemark("device", "join", url, workshop.path("a.sqlite"))
            #expect(joined.status == 0)
            #expect(joined.errors.contains("left out of this file: nice: calls edit"))
            #expect(joined.errors.contains("left out of this file: short: calls abbreviation"))
            #expect(joined.errors.contains("--function abbreviation"))
            let views = "SELECT name FROM sqlite_master WHERE type = 'view' AND name NOT LIKE 'tidemark%'"
            #expect(try await workshop.sqlite3("a.sqlite", views).isEmpty)
            let permitting = try await workshop.tidemark(
                "device", "join", url, workshop.path("b.sqlite"), "--function", "abbreviation", "--function", "edit")
            #expect(permitting.status == 0)
            #expect(try await workshop.sqlite3("b.sqlite", views) == "short")
            #expect(!FileManager.default.fileExists(atPath: workshop.path("ran")))
        }
    }
}
