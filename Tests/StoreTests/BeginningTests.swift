import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Rule 36: a new device need not wait for a snapshot of the very latest rows, on either
/// store.
@Suite struct BeginningTests {
    private static func zone(_ store: Store, behind: Int64, keeping: Int? = nil) async throws -> Zone {
        var limits = Limits.standard
        limits.snapshotRevisionsBehindMax = behind
        limits.revisionsKept = keeping
        limits.compactionStepMin = 1
        return try await Zone(
            store, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES (1, 'a')",
            limits: limits)
    }

    /// Commits revisions.
    private static func commit(_ count: Int, to zone: Zone) async throws {
        for _ in 0..<count {
            let revision = try await zone.revision()
            _ = try await zone.sync(
                at: revision, #"{"note":{"update":[1],"attributes":{"1":{"text":"\#(revision)"}}}}"#)
        }
    }

    /// The revision of the snapshot that a device gets.
    private static func revision(_ zone: Zone, since base: DeltaBase?) async throws -> Int64 {
        let file = try await zone.service.snapshot(zone: "main", since: base)
        #expect(FileManager.default.fileExists(atPath: file.path))
        await zone.service.releaseSnapshot(file)
        return file.revision
    }

    @Test(arguments: Store.all) func `F4: a new device gets an existing snapshot within the bound, else a new one`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store, behind: 4)
        #expect(try await Self.revision(zone, since: .nothing) == 1)
        try await Self.commit(2, to: zone)
        #expect(try await Self.revision(zone, since: .nothing) == 1)
        try await Self.commit(3, to: zone)
        #expect(try await Self.revision(zone, since: .nothing) == 6)
    }

    @Test(arguments: Store.all) func `a device with rows, or with a later revision, gets the latest snapshot`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store, behind: 1_000)
        #expect(try await Self.revision(zone, since: .nothing) == 1)
        try await Self.commit(2, to: zone)
        #expect(try await Self.revision(zone, since: nil) == 3)
        #expect(try await Self.revision(zone, since: .nothing) == 3)
    }

    @Test(arguments: Store.all) func `without a bound every device gets the latest snapshot`(store: Store) async throws
    {
        let zone = try await Self.zone(store, behind: 0)
        #expect(try await Self.revision(zone, since: .nothing) == 1)
        try await Self.commit(1, to: zone)
        #expect(try await Self.revision(zone, since: .nothing) == 2)
    }

    @Test(arguments: Store.all)
    func `a snapshot from before the compaction horizon is not offered to new devices`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, behind: 1_000, keeping: 2)
        #expect(try await Self.revision(zone, since: .nothing) == 1)
        try await Self.commit(6, to: zone)
        let revision = try await Self.revision(zone, since: .nothing)
        #expect(try await zone.sync(at: revision).maxRevision == 7)
    }
}
