import Foundation
import Testing
import Tidemark

extension IntegrationTests {
    /// The SQL that `serve` prints for an unsuitable file loses nothing in the sqlite3 shell, even if it fails.
    @Suite struct CureTests {
        /// A file with every problem that has SQL as its cure, and the rows and views that make the SQL fail.
        private static let broken: [(name: String, sql: String)] = [
            (
                "a table's name, with a view and a trigger that no longer compile",
                """
                CREATE TABLE "no""te" (id INTEGER PRIMARY KEY, text TEXT);
                INSERT INTO "no""te" (text) VALUES ('x'), ('y');
                CREATE VIEW v AS SELECT missing FROM "no""te";
                CREATE TRIGGER t AFTER INSERT ON "no""te" BEGIN SELECT 1; END;
                """
            ),
            (
                "a column's name, taken by another column",
                """
                CREATE TABLE note (id INTEGER PRIMARY KEY, "a\\b" TEXT, ab_value TEXT);
                INSERT INTO note VALUES (1, 'x', 'y');
                CREATE TRIGGER t AFTER INSERT ON note BEGIN SELECT 1; END;
                """
            ),
            (
                "a parent's columns that are not unique",
                """
                CREATE TABLE code (id INTEGER PRIMARY KEY, code TEXT);
                CREATE TABLE note (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (code));
                INSERT INTO code (code) VALUES ('x'), ('x');
                INSERT INTO note (code) VALUES ('x');
                """
            ),
            (
                "blobs in a text key, one equal to a text",
                """
                CREATE TABLE tag (name TEXT PRIMARY KEY, note TEXT);
                INSERT INTO tag VALUES (x'01', 'blob'), ('01', 'text');
                """
            ),
            (
                "rows whose key is NULL, and rows that refer to nothing",
                """
                CREATE TABLE tag (name TEXT PRIMARY KEY, parent TEXT REFERENCES tag);
                INSERT INTO tag VALUES (NULL, 'nowhere'), (NULL, NULL), ('a', 'nowhere');
                """
            ),
            (
                "a declared key with equal rows",
                """
                CREATE TABLE pair (x INTEGER, y INTEGER);
                INSERT INTO pair VALUES (1, 2), (1, 2), (NULL, 3);
                """
            ),
        ]

        @Test(arguments: broken.indices)
        func `a printed cure that fails leaves every table, trigger, view and row`(index: Int) async throws {
            let workshop = try Workshop()
            let file = "broken.sqlite"
            try await workshop.sqlite3(file, "PRAGMA foreign_keys = OFF; " + Self.broken[index].sql)
            let key = Self.broken[index].sql.contains("TABLE pair") ? ["--key", "pair=x,y"] : []
            let serve = ["serve", workshop.path(file), "--listen", "127.0.0.1:0"] + key
            let refusal = try await workshop.startTidemark(serve).finished()
            #expect(refusal.errors.contains("cannot be synced as it is"), "\(Self.broken[index].name)")
            let before = try await workshop.sqlite3(file, ".dump")
            let cure = refusal.errors.split(separator: "\n").filter { $0.hasPrefix("      ") }.map { $0.dropFirst(6) }
            #expect(!cure.isEmpty)
            let path = try workshop.write(cure.joined(separator: "\n") + "\n", to: "cure.sql")
            // The shell goes on after an error, as it does when a person pipes the text into it.
            _ = try await workshop.start("sqlite3", [workshop.path(file), ".read \(path)"]).finished()
            let after = try await workshop.sqlite3(file, ".dump")
            #expect(after == before, "\(Self.broken[index].name)")
        }
    }
}
