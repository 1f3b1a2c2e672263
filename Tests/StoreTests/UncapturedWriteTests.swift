import Foundation
import StoreTestSupport
import Testing
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Writes of a device that no trigger captured, or that a program made by writing a table whole: every store
/// gets them, in order, and none is lost.
@Suite(.serialized) struct UncapturedWriteTests {
    /// A home of devices that sync with a zone of either store.
    private final class Home: DeviceHome {
        let folder: URL
        let zone: Zone
        var way: any SyncService { zone.service }

        init(_ zone: Zone) throws {
            self.zone = zone
            folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        deinit {
            do { try FileManager.default.removeItem(at: folder) } catch {
                // A folder left behind in the system's temporary folder harms no other test.
                return
            }
        }
    }

    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT, rank INTEGER);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, name TEXT);
        CREATE TABLE setting (id INTEGER PRIMARY KEY, name TEXT, value TEXT);
        INSERT INTO team (id, name) VALUES (1, 'Kiel'), (2, 'Bonn');
        INSERT INTO setting (id, name, value) VALUES (1, 'font', 'serif'), (2, 'size', '12');
        """

    @Test(arguments: Store.all) func `rule 1: edits with triggers off become a conflict, and a retry sends them`(
        store: Store
    ) async throws {
        let home = try Home(try await Zone(store, Self.schema))
        let anna = try await home.device("anna")
        try anna.writeOutside(
            """
            UPDATE tidemark_state SET applying = 1;
            UPDATE team SET name = 'KIEL' WHERE id = 1; DELETE FROM setting WHERE id = 2;
            UPDATE tidemark_state SET applying = 0
            """
        )
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["uncaptured"])
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await home.zone.column("SELECT name FROM team ORDER BY id") == ["KIEL", "Bonn"])
        #expect(try await home.zone.column("SELECT name FROM setting") == ["font"])
    }

    @Test(arguments: Store.all)
    func `rule 7: a parent written to a rebuilt table is sent with its child, in spite of a taken id`(store: Store)
        async throws
    {
        let home = try Home(try await Zone(store, Self.schema))
        let anna = try await home.device("anna")
        let ben = try await home.device("ben")
        try anna.writeOutside(
            """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY, name TEXT, rank INTEGER);
            INSERT INTO fresh SELECT id, name, rank FROM team; DROP TABLE team; ALTER TABLE fresh RENAME TO team;
            INSERT INTO team (name) VALUES ('Jena');
            INSERT INTO player (team_id, name) SELECT max(id), 'Jo' FROM team;
            """
        )
        try ben.writeOutside("INSERT INTO team (id, name) VALUES (3, 'Ulm')")
        try await ben.engine.sync()
        #expect(try await anna.rows("SELECT id FROM team WHERE name = 'Jena'") == ["3"])
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await home.zone.column("SELECT team.name FROM player JOIN team ON team.id = team_id") == ["Jena"])
        #expect(try await home.zone.column("SELECT name FROM team WHERE id = 3") == ["Ulm"])
    }

    @Test(arguments: Store.all) func `a table that two programs write whole keeps its records, and each changed value`(
        store: Store
    ) async throws {
        let home = try Home(try await Zone(store, Self.schema))
        let anna = try await home.device("anna")
        let ben = try await home.device("ben")
        let rewrite = { (value: String) in
            """
            CREATE TEMP TABLE whole AS SELECT name, \(value) AS value FROM setting;
            DELETE FROM setting; INSERT INTO setting (name, value) SELECT name, value FROM whole; DROP TABLE whole;
            """
        }
        try anna.writeOutside(rewrite("value"))
        try ben.writeOutside(rewrite("iif(name = 'size', '14', value)"))
        for device in [anna, ben, anna] { try await device.engine.sync() }
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
        let values = ["serif", "14"]
        #expect(try await home.zone.column("SELECT value FROM setting ORDER BY name") == values)
        #expect(try await anna.rows("SELECT value FROM setting ORDER BY name") == values)
    }
}
