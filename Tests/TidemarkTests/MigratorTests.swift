import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// An app with GRDB's migrator, on files that a server made.
@Suite struct MigratorTests {
    private static let names = ["tables", "shout", "teams", "loud"]

    /// Makes a table, changes its rows, adds a column, and changes the rows again.
    private static func migrator(_ count: Int) -> DatabaseMigrator {
        let steps = [
            """
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
            INSERT INTO player (name) VALUES ('Anna'), ('Ben')
            """,
            "UPDATE player SET name = name || '!'",
            "ALTER TABLE player ADD COLUMN team TEXT",
            "UPDATE player SET name = name || '?'",
        ]
        var migrator = DatabaseMigrator()
        for (name, sql) in zip(names, steps).prefix(count) {
            migrator.registerMigration(name) { try $0.execute(sql: sql) }
        }
        return migrator
    }

    private static func cluster(_ count: Int) throws -> Cluster {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("migrated-\(UUID()).sqlite")
        defer { try? FileManager.default.removeItem(at: file) }  // a file left behind harms no other test
        try migrator(count).migrate(DatabaseQueue(path: file.path))
        return try Cluster(adopting: file)
    }

    private static func migrate(_ path: String, _ count: Int) throws -> [String] {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try migrator(count).migrate(queue)
        return try queue.read { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
    }

    private static func migrations(of device: TestDevice) async throws -> [String] {
        try await device.rows("SELECT identifier FROM grdb_migrations ORDER BY identifier")
    }

    @Test func `an app does not migrate a joined file a second time`() async throws {
        let cluster = try Self.cluster(2)
        let anna = try await cluster.device("anna")
        #expect(try Self.migrate(anna.path, 2) == ["Anna!", "Ben!"])
        #expect(try await anna.engine.status().pendingChangeSets == 0)
        // Its own next migration runs there, and its note stays there.
        #expect(try Self.migrate(anna.path, 3) == ["Anna!", "Ben!"])
        try await anna.write("UPDATE player SET team = 'red' WHERE id = 1")
        let reopened = try await anna.reopened()
        try await reopened.engine.sync()
        #expect(try await Self.migrations(of: reopened) == ["shout", "tables", "teams"])
        #expect(try await cluster.rows("SELECT identifier FROM grdb_migrations ORDER BY 1") == ["shout", "tables"])
    }

    @Test func `an app does not migrate a file that was shipped with it a second time`() async throws {
        let cluster = try Self.cluster(2)
        let path = cluster.folder.appendingPathComponent("shipped.sqlite").path
        let way = InProcessTransport(to: cluster.service)
        _ = try await DeviceFileJoin(transport: way, server: "http://cluster.test").ship(path: path)
        #expect(try Self.migrate(path, 2) == ["Anna!", "Ben!"])
        let engine = try await SyncEngine(DatabasePool(path: path), server: "http://cluster.test", transport: way)
        try await engine.sync()
        #expect(try await cluster.rows("SELECT name FROM player ORDER BY id") == ["Anna!", "Ben!"])
        #expect(try await engine.status().revision == 1)
    }

    @Test func `a migration that only changed rows at the server does not run again on a device`() async throws {
        let cluster = try Self.cluster(1)
        let anna = try await cluster.device("anna")
        _ = try Self.migrate(cluster.zonePath, 2)
        try await cluster.converge(anna)
        #expect(try await Self.migrations(of: anna) == ["shout", "tables"])
        #expect(try Self.migrate(anna.path, 2) == ["Anna!", "Ben!"])
    }

    @Test func `a device without the server's new column runs the migration that adds it`() async throws {
        let cluster = try Self.cluster(2)
        let anna = try await cluster.device("anna")
        _ = try Self.migrate(cluster.zonePath, 3)
        try cluster.writeOutside("UPDATE player SET team = 'red'")
        try await anna.engine.sync()
        #expect(try await Self.migrations(of: anna) == ["shout", "tables"])
        #expect(try Self.migrate(anna.path, 3) == ["Anna!", "Ben!"])
        let reopened = try await anna.reopened()
        try await cluster.converge(reopened)
        #expect(try await reopened.rows("SELECT team FROM player") == ["red", "red"])
        // The next migrations of the server count again.
        #expect(try Self.migrate(cluster.zonePath, 4) == ["Anna!?", "Ben!?"])
        try await cluster.converge(reopened)
        #expect(try Self.migrate(anna.path, 4) == ["Anna!?", "Ben!?"])
    }
}
