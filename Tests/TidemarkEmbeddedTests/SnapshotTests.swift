import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkGzip
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// A snapshot is the whole zone at one revision, while writers continue.
@Suite struct SnapshotTests {
    private static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE players (id INTEGER PRIMARY KEY AUTOINCREMENT, team_id INTEGER REFERENCES teams,
            size REAL, photo BLOB, twice AS (size * 2));
        CREATE TABLE local (id INTEGER PRIMARY KEY);
        INSERT INTO teams VALUES (1, 'Kiel'), (2, 'Lübeck');
        INSERT INTO players (team_id, size, photo) VALUES (1, 1.9, x'00ff'), (NULL, NULL, NULL);
        INSERT INTO local VALUES (5);
        """

    /// Unpacks a snapshot, reads it, and releases it.
    private static func open(_ zone: TestZone, _ body: @escaping @Sendable (Database, SnapshotFile) throws -> Void)
        async throws
    {
        let file = try await zone.store.snapshot(zone: "main", since: nil)
        let plain = zone.folder.appending(path: "plain-\(UUID()).sqlite").path
        try GzipFile.decompress(file.path, to: plain, bytesMax: 100 << 20)
        let database = try DatabaseQueue(path: plain)
        try await database.read { try body($0, file) }
        try database.close()
        await zone.store.releaseSnapshot(file)
    }

    /// All snapshot files in the zone's folder.
    private static func leftovers(_ zone: TestZone) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: zone.folder.path).filter { $0.contains("snapshot") }
    }

    private static func files(_ zone: TestZone) throws -> [String] {
        try leftovers(zone).filter { $0.hasSuffix(".gz") }
    }

    @Test func `F5: a snapshot holds every synced row exactly, and names its zone and revision`() async throws {
        let zone = try TestZone(Self.schema, excluding: ["local"])
        let state = try await zone.store.state()
        try await Self.open(zone) { db, file in
            #expect(file.revision == 1)
            #expect(file.epoch == state.epoch)
            let header = try #require(try Row.fetchOne(db, sql: "SELECT * FROM tidemark_snapshot"))
            #expect(header["zone"] as String? == "main")
            #expect(header["epoch"] as String? == state.epoch)
            #expect(header["revision"] as Int64? == 1)
            let tables = try String.fetchSet(db, sql: "SELECT name FROM sqlite_master")
            #expect(tables == ["tidemark_snapshot", "teams", "players"])
            let players = try String.fetchAll(
                db, sql: "SELECT quote(id)||quote(team_id)||quote(size)||quote(photo) FROM players")
            #expect(players == ["111.9X'00FF'", "2NULLNULLNULL"])
            #expect(try String.fetchAll(db, sql: "SELECT name FROM teams") == ["Kiel", "Lübeck"])
        }
        let bytes = try await zone.store.snapshot(zone: "main", since: nil)
        let size = try FileManager.default.attributesOfItem(atPath: bytes.path)[.size] as? Int64
        #expect(bytes.byteCount == size)
        await zone.store.releaseSnapshot(bytes)
    }

    @Test func `F5: a snapshot includes rows that a program wrote and no sync has logged yet`() async throws {
        let zone = try TestZone(Self.schema, excluding: ["local"])
        try await zone.writeOutside("INSERT INTO teams VALUES (3, 'Flensburg')")
        try await Self.open(zone) { db, file in
            let teams = try Int.fetchOne(db, sql: "SELECT count(*) FROM teams")
            #expect(file.revision == 2)
            #expect(teams == 3)
        }
    }

    @Test func `Rule 2 6: snapshots made during writes hold exactly the change sets up to their revision`() async throws
    {
        let zone = try TestZone(Self.schema, excluding: ["local"])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<3 {
                group.addTask {
                    for number in 1...30 {
                        // A team and its two players, whole or not at all.
                        let name = "t\(writer)-\(number)"
                        _ = try await zone.sync(
                            at: 1,
                            #"""
                            {"teams":{"create":[-1],"attributes":{"-1":{"name":"\#(name)"}}},
                             "players":{"create":[-2,-3],
                             "attributes":{"-2":{"team_id":-1},"-3":{"team_id":-1}}}}
                            """#
                        )
                    }
                }
            }
            for _ in 0..<3 {
                group.addTask {
                    for _ in 0..<6 {
                        try await Self.open(zone) { db, file in
                            let teams = try Int.fetchOne(db, sql: "SELECT count(*) FROM teams")
                            #expect(teams == Int(file.revision) + 1)
                            let players = try Int.fetchOne(db, sql: "SELECT count(*) FROM players")
                            #expect(players == 2 * Int(file.revision))
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await zone.store.state().revision == 91)
        #expect(try Self.files(zone).count <= 2, "the latest, and the one in use last")
    }

    @Test func `Rule 21, case 59: one older snapshot of the zone stays available, by its tag`() async throws {
        let zone = try TestZone(Self.schema, excluding: ["local"])
        let store = zone.store
        let old = try await store.snapshot(zone: "main", since: nil)
        let again = try await store.snapshot(zone: "main", since: nil)
        #expect(again == old)
        _ = try await zone.sync(at: 1, #"{"teams":{"delete":[2]}}"#)
        let new = try await store.snapshot(zone: "main", since: nil)
        #expect(new.revision == 2)
        #expect(new.tag != old.tag)
        for file in [old, again] { await store.releaseSnapshot(file) }

        #expect(try await store.snapshot(zone: "main", tag: old.tag) == old)
        #expect(FileManager.default.fileExists(atPath: old.path))
        await store.releaseSnapshot(old)
        _ = try await zone.sync(at: 2, #"{"teams":{"create":[-1]}}"#)
        let newest = try await store.snapshot(zone: "main", since: nil)
        for file in [new, newest] { await store.releaseSnapshot(file) }

        #expect(try await store.snapshot(zone: "main", tag: old.tag) == nil)
        #expect(try await store.snapshot(zone: "main", tag: new.tag) == new)
        await store.releaseSnapshot(new)
        #expect(try Self.files(zone).count == 2)
        try await store.close()
        #expect(try Self.leftovers(zone) == [])
    }

    @Test func `Rule 21: snapshot files of a killed server are deleted, a running server's stay`() async throws {
        let zone = try TestZone(Self.schema, excluding: ["local"])
        let file = try await zone.store.snapshot(zone: "main", since: nil)
        // In a container every server has process id 1.
        let number = ProcessInfo.processInfo.processIdentifier
        for name in [
            ".zone.sqlite.snapshot-\(number)-e-1-s-1.gz", ".zone.sqlite.snapshot-dead.1-1.gz",
            ".zone.sqlite.snapshot-dead.2-2.gz.sqlite", ".tidemark-snapshots-dead.lock",
        ] { try Data().write(to: zone.folder.appending(path: name)) }
        let other = try EmbeddedStore(servedFile: zone.path)
        #expect(try Self.leftovers(zone).count == 2, "a file and its lock")
        try await other.close()
        #expect(FileManager.default.fileExists(atPath: file.path))
        await zone.store.releaseSnapshot(file)
        try await zone.store.close()
        #expect(try Self.leftovers(zone) == [])
    }

    @Test func `case 59: equal rows of another history, and other bytes, have another tag`() async throws {
        var files: [SnapshotFile] = []
        for _ in 0..<2 {
            let zone = try TestZone(Self.schema, excluding: ["local"])
            files.append(try await zone.store.snapshot(zone: "main", since: nil))
        }
        #expect(files[0].tag != files[1].tag)
        #expect(files[0].hash != files[1].hash)
        #expect(files.allSatisfy { $0.hash.count == 64 })
    }
}
