import Foundation
import Testing
import TidemarkServer
import TidemarkStore

/// Which snapshot files stay on a server's disk, for how long, and what a failed build leaves.
@Suite struct SnapshotShelfTests {
    private static func file(_ revision: Int64, epoch: String = "e") -> SnapshotFile {
        SnapshotFile(
            path: "/\(epoch)/\(revision)",
            byteCount: 1,
            epoch: epoch,
            revision: revision,
            hash: "\(revision)"
        )
    }

    @Test func `Rule 21, case 59: a file left behind stays for its time after its last use`() {
        var shelf = SnapshotShelf(keptMilliseconds: 100)
        let (old, new) = (Self.file(1), Self.file(2))
        #expect(shelf.put(old, schema: "s", at: 0) == [])
        shelf.lend(old)
        #expect(shelf.put(new, schema: "s", at: 10) == [])
        #expect(shelf.expire(at: 1_000) == [], "it is being read")
        #expect(shelf.takeBack(old, at: 1_000) == [])
        #expect(shelf.expire(at: 1_099) == [])
        #expect(shelf.file(tag: old.tag) == old)

        shelf.lend(old)
        #expect(shelf.expire(at: 5_000) == [], "its reader came back for the rest")
        #expect(shelf.takeBack(old, at: 5_000) == [])
        #expect(shelf.expire(at: 5_100) == [old.path])
        #expect(shelf.file(tag: old.tag) == nil)
        #expect(shelf.file(tag: new.tag) == new)
    }

    @Test func `Rule 21: one older file stays, however many the zone has left behind`() {
        var shelf = SnapshotShelf(keptMilliseconds: 100)
        var dropped: [String] = []
        for revision in Int64(1)...5 {
            dropped += shelf.put(Self.file(revision), schema: "s", at: revision)
        }
        #expect(dropped == ["/e/1", "/e/2", "/e/3"])
        shelf.lend(Self.file(5))
        #expect(Set(shelf.clear()) == ["/e/4", "/e/5"])
        #expect(shelf.takeBack(Self.file(5), at: 9) == [])
    }

    @Test func `a build that ends after a newer one takes no newer file's place`() {
        var shelf = SnapshotShelf()
        #expect(shelf.put(Self.file(7), schema: "s", at: 0) == [])
        #expect(shelf.put(Self.file(6), schema: "s", at: 0) == [])
        #expect(shelf.current == Self.file(7))
        shelf.lend(Self.file(6))
        #expect(shelf.takeBack(Self.file(6), at: 0) == [])
        #expect(shelf.put(Self.file(1, epoch: "other"), schema: "s", at: 0) == ["/e/6"])
        #expect(shelf.current == Self.file(1, epoch: "other"))
    }

    private struct DiskFull: Error {}

    @Test func `a snapshot that could not be built is built when it is asked for again`()
        async throws
    {
        let cache = SnapshotCache(besides: NSTemporaryDirectory() + "tidemark-no-zone")
        let state = ZoneState(epoch: "e", revision: 1, horizon: 0, schema: "s")
        await #expect(throws: DiskFull.self) {
            try await cache.snapshot(at: state) { _ in throw DiskFull() }
        }
        let file = try await cache.snapshot(at: state) { _ in Self.file(1) }
        #expect(file == Self.file(1))
    }
}
