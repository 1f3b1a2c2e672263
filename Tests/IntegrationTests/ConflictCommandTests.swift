import Foundation
import Testing

extension IntegrationTests {
    /// Rule 11: `tidemark device conflicts` and `resolve` for a large conflict.
    @Suite struct ConflictCommandTests {
        private static let edits = 2_000

        /// A device with a refused update of all rows, because two of them were deleted.
        private static func serveRefusedUpdate(_ workshop: Workshop) async throws -> Server {
            try await workshop.sqlite3(
                "zone.sqlite",
                """
                CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(edits))
                INSERT INTO player SELECT i, 'p' FROM n
                """
            )
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            try await workshop.sqlite3("a.sqlite", "DELETE FROM player WHERE id IN (7, 12)")
            try await workshop.sqlite3("b.sqlite", "UPDATE player SET name = 'q'")
            try await workshop.sync("a.sqlite")
            let synced = try await workshop.tidemark("device", "sync", workshop.path("b.sqlite"))
            #expect(synced.status == 3, "\(synced.errors)")
            #expect(synced.output.contains("1 change set sent, 2 records of others taken in"))
            return server
        }

        private static func resolve(_ workshop: Workshop, _ options: String) async throws -> Program.Result {
            let words = options.split(separator: " ").map(String.init)
            return try await workshop.startTidemark(["device", "resolve", workshop.path("b.sqlite"), "1"] + words)
                .finished()
        }

        private static func names(_ workshop: Workshop) async throws -> String {
            try await workshop.sync("b.sqlite")
            return try await workshop.sqlite3(
                "zone.sqlite", "SELECT count(*), sum(name = 'q'), sum(id IN (7, 12)), sum(id > \(edits)) FROM player")
        }

        @Test func `A6: of 2,000 refused updates, the two in conflict are listed first, on one screen`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serveRefusedUpdate(workshop)
            let file = workshop.path("b.sqlite")
            let listing = try await workshop.tidemark("device", "conflicts", file)
            let lines = listing.output.split(separator: "\n").map(String.init)
            #expect(lines.count < 25)
            #expect(lines[0] == "1 conflict with 2,000 records (reasons: 2 deleted)")
            #expect(lines[2] == "  why: Somebody else deleted this record. [player 7, 12]")
            let records = lines.filter { $0.hasPrefix("  update") }
            #expect(records.prefix(2) == ["  update player 7", "  update player 12"])
            #expect(lines.contains("  … and 1,995 more records (--all shows them)"))
            let all = try await workshop.tidemark("device", "conflicts", file, "--all")
            #expect(all.output.split(separator: "\n").count > 3 * Self.edits)
            let json = try await workshop.tidemark("device", "conflicts", file, "--json")
            let list = try JSONSerialization.jsonObject(with: Data(json.output.utf8))
            let listedRecords = (list as? [[String: Any]])?.first?["records"] as? [Any]
            #expect(listedRecords?.count == Self.edits)
            try await server.stopped()
        }

        @Test(arguments: [
            ("--retry --no-revive", "1998|1998|0|0"), ("--retry --revive", "2000|2000|0|2"),
            ("--retry --no-revive --except player/3", "1998|1997|0|0"), ("--accept --except player/3", "1998|1|0|0"),
            ("--retry --only player/3", "1998|1|0|0"), ("--accept", "1998|0|0|0"),
        ]) func `the resolution of a single record, or of a deleted one, is sent as chosen`(
            options: String, expected: String
        ) async throws {
            let workshop = try Workshop()
            let server = try await Self.serveRefusedUpdate(workshop)
            let resolved = try await Self.resolve(workshop, options)
            #expect(resolved.status == 0, "\(resolved.errors)")
            #expect(try await Self.names(workshop) == expected)
            try await server.stopped()
        }

        @Test func `a retry that would recreate deleted records lists them and asks for confirmation`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serveRefusedUpdate(workshop)
            for options in ["--retry", "--retry --except player/7", "--retry --only player/12"] {
                let resolved = try await Self.resolve(workshop, options)
                #expect(resolved.status == 1, "\(options)")
                #expect(resolved.errors.contains("player 12"), "\(resolved.errors)")
                #expect(resolved.errors.contains("player 7") == (options == "--retry"))
                #expect(resolved.errors.contains("--no-revive"))
            }
            let unknown = try await Self.resolve(workshop, "--retry --except player/9999")
            #expect(unknown.status == 1 && unknown.errors.contains("no record player/9999"))
            let mixed = try await Self.resolve(workshop, "--retry --dependents --only player/3")
            #expect(mixed.status == 64)
            try await server.stopped()
        }

        @Test func `sync reports the numbers of sent and received changes, also after a snapshot`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3(
                "zone.sqlite",
                "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES (1, 'a'), (2, 'b')")
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO note (text) VALUES ('c')")
            try await workshop.sqlite3("a.sqlite", "DELETE FROM note WHERE text = 'c'")
            let file = workshop.path("a.sqlite")
            let nothing = try await workshop.tidemark("device", "sync", file)
            #expect(nothing.output.split(separator: "\n") == ["synced: revision 1 -> 1"])
            // A file that has lost its record of the zone takes a snapshot.
            try await workshop.sqlite3("a.sqlite", "UPDATE tidemark_device SET stale = 1")
            let snapshotSync = try await workshop.tidemark("device", "sync", file)
            #expect(snapshotSync.output.contains("a snapshot of 2 records taken in"), "\(snapshotSync.output)")
            try await server.stopped()
        }
    }
}
