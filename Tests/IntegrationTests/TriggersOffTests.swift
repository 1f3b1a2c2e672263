import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// A program that switches triggers off by SQLite's own setting, as a browser does, edits a device's file.
    @Suite(.enabled(if: Tool.python.isThere, "python3 is not in PATH")) struct TriggersOffTests {
        /// Opens a file with `SQLITE_DBCONFIG_ENABLE_TRIGGER` off, and runs statements.
        private static let program = """
            import ctypes, ctypes.util, sys
            sqlite = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
            file, state = ctypes.c_void_p(), ctypes.c_int(-1)
            assert sqlite.sqlite3_open(sys.argv[1].encode(), ctypes.byref(file)) == 0
            assert sqlite.sqlite3_db_config(file, 1003, 0, ctypes.byref(state)) == 0 and state.value == 0
            for sql in sys.argv[2:]:
                assert sqlite.sqlite3_exec(file, sql.encode(), None, None, None) == 0, sql
            sqlite.sqlite3_close(file)
            """

        @Test func `rule 1: edits with triggers off wait as a conflict, and a retry brings them to the server`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "zone.sqlite",
                """
                CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
                CREATE TABLE tag (name TEXT PRIMARY KEY, colour TEXT);
                INSERT INTO note (text) VALUES ('first'), ('second');
                INSERT INTO tag VALUES ('old', 'red');
                """
            )
            let server = try await workshop.serve("zone.sqlite")
            let phone = workshop.path("phone.sqlite")
            try await workshop.join(server, "phone.sqlite", "laptop.sqlite")
            try workshop.write(Self.program, to: "browser.py")
            let edits = [
                "UPDATE note SET text = 'my edit' WHERE id = 1", "INSERT INTO note (text) VALUES ('my note')",
                "INSERT INTO tag VALUES ('mine', 'blue')", "DELETE FROM tag WHERE name = 'old'",
            ]
            let edited = try await workshop.run(
                "python3", workshop.path("browser.py"), phone, edits[0], edits[1], edits[2], edits[3])
            try #require(edited.status == 0, "\(edited.errors)")

            let synced = try await workshop.tidemark("device", "sync", phone)
            #expect(synced.status == 3 && synced.output.contains("conflict: "), "\(synced.output)\(synced.errors)")
            let conflicts = try await workshop.tidemark("device", "conflicts", phone)
            #expect(conflicts.output.contains("a program seems to switch triggers off"), "\(conflicts.output)")
            for line in ["update note 1", "create note ", #"create tag "mine""#, #"delete tag "old""#] {
                #expect(conflicts.output.contains(line), "\(conflicts.output)")
            }
            let status = try await workshop.tidemark("device", "status", phone)
            #expect(status.output.contains("4 records: a program seems to edit this file with triggers switched off"))

            let resolved = try await workshop.tidemark("device", "resolve", phone, "1", "--retry")
            #expect(resolved.status == 0, "\(resolved.errors)")
            try await workshop.sync("phone.sqlite", "laptop.sqlite")
            try await workshop.expectEqual(server, "phone.sqlite", "laptop.sqlite", "zone.sqlite")
            let notes = try await workshop.sqlite3("zone.sqlite", "SELECT text FROM note ORDER BY text")
            #expect(notes == "my edit\nmy note\nsecond")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT * FROM tag") == "mine|blue")
            try await server.stopped()
        }
    }
}
