import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore

extension IntegrationTests {
    /// Rule 4: kill -9 of every process at any moment: acknowledged edits are there once, others
    /// whole or not at all.
    @Suite struct CrashTests {
        private static let schema = """
            CREATE TABLE writers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, notes INTEGER NOT NULL);
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT,
                writer_id INTEGER NOT NULL REFERENCES writers, label TEXT NOT NULL);
            INSERT INTO writers VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0);
            """

        /// A note and its writer's count, in one transaction.
        private static func edit(_ writer: Int, _ label: String) -> String {
            """
            INSERT INTO notes (writer_id, label) VALUES (\(writer), '\(label)');
            UPDATE writers SET notes = notes + 1 WHERE id = \(writer);
            """
        }

        private static func expectSound(_ workshop: Workshop, _ file: String) async throws {
            let duplicates = try await workshop.sqlite3(
                file, "SELECT label FROM notes GROUP BY label HAVING count(*) > 1")
            #expect(duplicates == "", "\(file)")
            let miscounted = try await workshop.sqlite3(
                file,
                """
                SELECT name FROM writers AS w
                WHERE notes <> (SELECT count(*) FROM notes AS n WHERE n.writer_id = w.id)
                """
            )
            #expect(miscounted == "", "\(file)")
        }

        // MARK: The editing program

        @Test func `A10 F1: sqlite3 killed in the middle of a transaction leaves all of it or nothing`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite")
            for (isCommitted, label) in [(false, "lost"), (true, "kept")] {
                let shell = try workshop.start(
                    "sqlite3", ["-interactive", "-cmd", ".timeout 10000", workshop.path("a.sqlite")])
                // A small cache spills uncommitted pages to the disk before the end.
                try shell.send("PRAGMA cache_size = 5; BEGIN;")
                try shell.send(
                    """
                    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                    INSERT INTO notes (writer_id, label) SELECT 1, '\(label) ' || i FROM n;
                    UPDATE writers SET notes = notes + 3000 WHERE id = 1;
                    """
                )
                if isCommitted { try shell.send("COMMIT;") }
                try shell.send("SELECT 'all ' || 'written';")
                _ = try await shell.line(with: "all written")
                try await shell.killed()
            }
            let status = try await workshop.json("device", "status", workshop.path("a.sqlite"), "--json")
            #expect(status["pendingChangeSets"] as? Int == 1)
            try await workshop.sync("a.sqlite")
            #expect(
                try await workshop.sqlite3("zone.sqlite", "SELECT count(*), min(label), max(label) FROM notes")
                    == "3000|kept 1|kept 999")
            try await Self.expectSound(workshop, "zone.sqlite")
            try await workshop.expectEqual(server, "a.sqlite", "zone.sqlite")
            try await server.stopped()
        }

        @Test func `F1: edits of a Python program in a device's file are synced like other edits`() async throws {
            let workshop = try Workshop()
            guard try await workshop.run("sh", "-c", "command -v python3").status == 0 else { return }
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            let script = """
                import sqlite3
                file = sqlite3.connect("a.sqlite", timeout=10)
                file.execute("PRAGMA foreign_keys = ON")
                with file:
                    writer = file.execute("INSERT INTO writers VALUES (-1, ?, 1)", ("Zoë\\n'",)).lastrowid
                    file.execute("INSERT INTO notes (writer_id, label) VALUES (?, ?)", (writer, "py"))
                try:
                    with file:
                        file.execute("DELETE FROM notes")
                        raise ValueError
                except ValueError:
                    pass
                """
            let python = try await workshop.run("python3", "-c", script)
            try #require(python.status == 0, "\(python.errors)")
            try await workshop.sync("a.sqlite", "b.sqlite")
            let note = "SELECT w.id, w.name, n.label FROM notes AS n JOIN writers AS w ON w.id = writer_id"
            #expect(try await workshop.sqlite3("b.sqlite", note) == "4|Zoë\n'|py")
            try await workshop.expectEqual(server, "a.sqlite", "b.sqlite", "zone.sqlite")
            try await server.stopped()
        }

        // MARK: The server

        /// A device's edits while the server starts and is killed.
        private struct Writer: Sendable {
            let number: Int
            let path: String
            let database: DatabasePool
            let engine: SyncEngine

            init(_ number: Int, path: String, server: String) async throws {
                self.number = number
                self.path = path
                database = try DatabasePool(path: path)
                engine = try await SyncEngine(database, server: server)
            }

            /// Edits and syncs until the server is killed; returns the number of edits.
            func work(from first: Int, _ acknowledged: () -> Void) async throws -> Int {
                var count = first
                while true {
                    let sql = IntegrationTests.CrashTests.edit(number, "\(number)-\(count)")
                    try await database.write { try $0.execute(sql: sql) }
                    count += 1
                    do {
                        try await engine.sync()
                        acknowledged()
                    } catch let error as TidemarkError {
                        #expect(error.recovery == .retry, "\(error)")
                        return count
                    }
                }
            }
        }

        @Test func `A10 A15 Rule 3 4: twenty kills of the server under three devices lose nothing`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            var server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "1.sqlite", "2.sqlite", "3.sqlite")
            var writers: [Writer] = []
            for number in 1...3 {
                let path = workshop.path("\(number).sqlite")
                writers.append(try await Writer(number, path: path, server: server.url))
            }
            var counts = [0, 0, 0]
            for round in 0..<20 {
                let (acknowledgements, acknowledged) = AsyncStream.makeStream(of: Void.self)
                let program = server.program
                let before = counts
                counts = try await withThrowingTaskGroup(of: (Int, Int).self) { group in
                    for (index, writer) in writers.enumerated() {
                        group.addTask { (index, try await writer.work(from: before[index]) { acknowledged.yield() }) }
                    }
                    // One device has its answer; the others are anywhere in their rounds.
                    var remaining = 1 + round % 4
                    for await _ in acknowledgements {
                        remaining -= 1
                        if remaining == 0 { break }
                    }
                    program.signalled(SIGKILL)
                    return try await group.reduce(into: before) { $0[$1.0] = $1.1 }
                }
                try await server.program.finished()
                server = try await workshop.serve("zone.sqlite", port: server.port)
            }
            for writer in writers + writers { try await writer.engine.sync() }
            for writer in writers { try writer.database.close() }
            for (index, count) in counts.enumerated() {
                let labels = try await workshop.sqlite3(
                    "zone.sqlite", "SELECT count(DISTINCT label) FROM notes WHERE writer_id = \(index + 1)")
                #expect(labels == "\(count)", "every edit was acknowledged in the end")
            }
            let revisions = try await workshop.sqlite3(
                "zone.sqlite", "SELECT max(revision) - count(*) FROM tidemark_revision")
            #expect(revisions == "1", "revisions are dense")
            try await Self.expectSound(workshop, "zone.sqlite")
            try await workshop.expectEqual(server, "1.sqlite", "2.sqlite", "3.sqlite", "zone.sqlite")
            try await server.stopped()
        }

        // MARK: The device

        @Test func `A10 A12 A15 D5: twenty kills of a sync, each later than the last, lose and double nothing`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            try await workshop.join(server, "a.sqlite", "b.sqlite")
            var killed = 0
            for round in 0..<20 {
                try await workshop.sqlite3("a.sqlite", Self.edit(1, "a-\(round)"))
                try await workshop.sqlite3("zone.sqlite", Self.edit(2, "zone-\(round)"))
                let sync = try workshop.startTidemark(
                    ["device", "sync", workshop.path("a.sqlite")], killedAfter: .milliseconds(1 + round * 6))
                let result = try await sync.finished()
                if result.status == 128 + SIGKILL { killed += 1 }
                #expect([0, 128 + SIGKILL].contains(result.status), "\(result.errors)")
            }
            #expect(killed > 0)
            try await workshop.sync("a.sqlite", "b.sqlite")
            #expect(try await workshop.sqlite3("b.sqlite", "SELECT count(*) FROM notes") == "40")
            #expect(try await workshop.sqlite3("b.sqlite", "SELECT notes FROM writers") == "20\n20\n0")
            try await Self.expectSound(workshop, "a.sqlite")
            try await workshop.expectEqual(server, "a.sqlite", "b.sqlite", "zone.sqlite")
            try await server.stopped()
        }

        @Test func `A10: a join that is killed leaves no device file, and the next one succeeds`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            for round in 0..<8 {
                let join = try workshop.startTidemark(
                    ["device", "join", server.url, workshop.path("a.sqlite")], killedAfter: .milliseconds(1 + round * 8)
                )
                let result = try await join.finished()
                if result.status == 0 { break }
                // The file is complete if the kill came after the last step, and missing otherwise.
                if workshop.exists("a.sqlite") { break }
            }
            if !workshop.exists("a.sqlite") { try await workshop.join(server, "a.sqlite") }
            try await workshop.sync("a.sqlite")
            try await workshop.expectEqual(server, "a.sqlite")
            try await server.stopped()
        }
    }
}
