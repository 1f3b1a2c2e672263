import Foundation
import Testing
import TidemarkPostgres
import TidemarkTestSupport

/// A node keeps a snapshot of each zone, all in one folder.
@Suite struct SnapshotFileTests {
    @Test func `rule 22: two databases with a zone of the same name do not share a snapshot`() async throws {
        let first = try await PostgresZone()
        let second = try await PostgresZone()
        for zone in [first, second, first] {
            let file = try await zone.store.snapshot(zone: "main", since: nil)
            #expect(file.epoch == (try await zone.store.latest(zone: "main")).epoch)
            #expect(FileManager.default.fileExists(atPath: file.path))
            await zone.store.releaseSnapshot(file)
        }
        let one = try await first.store.snapshot(zone: "main", since: nil)
        let other = try await second.store.snapshot(zone: "main", since: nil)
        #expect(one.path != other.path)
        for (zone, file) in [(first, one), (second, other)] {
            await zone.store.releaseSnapshot(file)
            await zone.store.close()
        }
    }

    @Test func `reading one zone's snapshot does not remove another zone's`() async throws {
        let zone = try await PostgresZone(zones: ["a", "b"])
        let reading = try await zone.store.snapshot(zone: "a", since: nil)
        let snapshot = try await zone.store.snapshot(zone: "b", since: nil)
        await zone.store.releaseSnapshot(snapshot)
        await zone.store.releaseSnapshot(reading)
        for name in ["a", "b"] {
            let file = try await zone.store.snapshot(zone: name, since: nil)
            #expect(FileManager.default.fileExists(atPath: file.path))
            await zone.store.releaseSnapshot(file)
        }
        await zone.store.close()
    }
}
