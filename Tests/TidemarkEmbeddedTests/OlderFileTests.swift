import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkEmbedded

/// A zone's file that an earlier version served.
@Suite struct OlderFileTests {
    @Test func `a file of an earlier layout is refused with the cure and stays as it is`() async throws {
        let zone = try TestZone(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'a')")
        try await zone.store.close()
        try TestZone.write("PRAGMA journal_mode = DELETE; ALTER TABLE tidemark_log DROP COLUMN absorbed", to: zone.path)
        let before = try await Self.content(zone.path)
        let openings: [() throws -> Void] = [
            { _ = try EmbeddedStore(path: zone.path, newEpoch: UUID()) },
            { _ = try EmbeddedStore(path: zone.path, newEpoch: UUID(), isRestored: true) },
            { _ = try ZoneVerification(path: zone.path, repairing: true) },
        ]
        for opening in openings {
            let error = #expect(throws: TidemarkError.self) { try opening() }
            #expect(error?.code == .unusableFile)
            #expect(error?.message.contains("earlier version") == true)
            #expect(error?.fix.contains("Serve it with that version") == true)
        }
        #expect(try await Self.content(zone.path) == before)
    }

    /// The statements of a file, its journal mode and its zone.
    private static func content(_ path: String) async throws -> [String] {
        try await DatabaseQueue(path: path).read { db in
            try String.fetchAll(db, sql: "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
                + String.fetchAll(db, sql: "PRAGMA journal_mode")
                + String.fetchAll(db, sql: "SELECT epoch || ' ' || revision FROM tidemark_zone")
        }
    }
}
