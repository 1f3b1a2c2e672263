import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

@testable import TidemarkEmbedded

/// What the server remembers of openings, against files that programs alter while they are closed.
@Suite struct ZoneShapesTests {
    private static let zones = ["a", "b"].map { "z_" + String(repeating: $0, count: 26) }

    /// Runs a test with a directory that has opened and closed both zones, so that it knows their shape.
    private static func run(_ body: (ZoneDirectory, URL) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        // A folder left behind in the system's temporary folder harms no other test.
        defer { try? FileManager.default.removeItem(at: folder) }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let main = try EmbeddedStore(
            path: folder.appending(path: "main.sqlite").path,
            schemaSQL: "CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL)", newEpoch: UUID())
        let directory = directory(main, folder)
        for zone in zones {
            try await directory.makeZone(zone)
            _ = try await directory.schema(.local(zone))
        }
        await directory.closeZones()
        try await body(directory, folder)
        await directory.closeZones()
        try await main.close()
    }

    private static func directory(_ main: EmbeddedStore, _ folder: URL) -> ZoneDirectory {
        ZoneDirectory(main: main, folder: folder.appending(path: "zones"))
    }

    private static func write(_ sql: String, into zone: String, _ folder: URL) throws {
        let queue = try DatabaseQueue(path: folder.appending(path: "zones/\(zone).sqlite").path)
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    private static func schema(_ zone: String, _ directory: ZoneDirectory) async throws -> String {
        String(decoding: try await directory.schema(.local(zone)).json, as: UTF8.self)
    }

    @Test(arguments: [
        "CREATE TABLE label (id INTEGER PRIMARY KEY, name TEXT)", "PRAGMA user_version = 9",
        "CREATE TABLE grdb_migrations (identifier TEXT PRIMARY KEY NOT NULL); INSERT INTO grdb_migrations VALUES ('2')",
    ]) func `a file that was altered is served as a server does that never opened it before`(change: String)
        async throws
    {
        try await Self.run { directory, folder in
            let before = try await Self.schema(Self.zones[1], directory)
            await directory.closeZones()
            try Self.write(change, into: Self.zones[1], folder)
            let after = try await Self.schema(Self.zones[1], directory)
            await directory.closeZones()
            let fresh = Self.directory(directory.main, folder)
            let expected = try await Self.schema(Self.zones[1], fresh)
            await fresh.closeZones()
            #expect(after == expected && after != before, "\(after)")
            // The other zone stays as it was.
            #expect(try await !Self.schema(Self.zones[0], directory).contains("label"))
        }
    }

    @Test func `a trigger that a program dropped from a closed file captures again after an opening`() async throws {
        try await Self.run { directory, folder in
            let zone = Self.zones[1]
            try Self.write("DROP TRIGGER tidemark_after_insert_list", into: zone, folder)
            _ = try await directory.schema(.local(zone))
            try Self.write("INSERT INTO list (title) VALUES ('by a program')", into: zone, folder)
            try await directory.look(zone: zone)
            #expect(try await directory.latest(.local(zone)).revision == 1)
        }
    }

    @Test func `zones of one shape have histories of their own`() async throws {
        try await Self.run { directory, _ in
            let body = #"{"maxRevision":0,"changeSets":[{"list":{"create":[-1],"attributes":{"-1":{"title":"a"}}}}]}"#
            _ = try await directory.sync(.local(Self.zones[0]), body: Array(body.utf8))
            await directory.closeZones()
            let latest = try await directory.latest(of: Self.zones.map { .local($0) })
            #expect(latest.map(\.revision) == [1, 0] && Set(latest.map(\.epoch)).count == 2)
            #expect(latest.map(\.zone) == Self.zones)
        }
    }
}
