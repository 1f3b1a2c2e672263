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
                "a.sqlite",
                "INSERT INTO book (title) VALUES ('new'); INSERT INTO cache VALUES (1)"
            )
            try await workshop.sync("a.sqlite", "b.sqlite")
            let look = "SELECT count(*) FROM titles; SELECT count(*) FROM cache; PRAGMA user_version"
            #expect(try await workshop.sqlite3("b.sqlite", look).split(separator: "\n") == ["2", "0", "25"])
            try await second.stopped()
        }
    }
}
