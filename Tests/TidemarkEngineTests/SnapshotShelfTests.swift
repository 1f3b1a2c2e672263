import Foundation
import Testing
import TidemarkEngine

/// Rule 34: the snapshot files that stay on a server's disk, their age, and failed builds.
@Suite struct SnapshotShelfTests {
    private static func file(_ revision: Int64, epoch: String = "e") -> SnapshotFile {
        SnapshotFile(path: "/\(epoch)/\(revision)", byteCount: 1, epoch: epoch, revision: revision, hash: "\(revision)")
    }

    /// The result of a build.
    private static func built(_ revision: Int64, at path: String) throws -> SnapshotFile {
        try Data().write(to: URL(filePath: path))
        return SnapshotFile(path: path, byteCount: 0, epoch: "e", revision: revision, hash: "\(revision)")
    }

    @Test func `Rule 21, case 59: an old file stays for its time after its last use`() {
        var shelf = SnapshotShelf(retentionMilliseconds: 100)
        let old = Self.file(1)
        let new = Self.file(2)
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

    @Test func `Rule 21: one older file stays, however many snapshots the zone made`() {
        var shelf = SnapshotShelf(retentionMilliseconds: 100)
        var dropped: [String] = []
        for revision in Int64(1)...5 { dropped += shelf.put(Self.file(revision), schema: "s", at: revision) }
        #expect(dropped == ["/e/1", "/e/2", "/e/3"])
        shelf.lend(Self.file(5))
        #expect(Set(shelf.clear()) == ["/e/4", "/e/5"])
        #expect(shelf.takeBack(Self.file(5), at: 9) == [])
    }

    @Test func `a build that ends after a newer one does not replace the newer file`() {
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

    @Test func `a failed build is repeated at the next request`() async throws {
        let cache = SnapshotCache(besides: NSTemporaryDirectory() + "tidemark-no-zone")
        let state = ZoneState(epoch: "e", revision: 1, horizon: 0, schema: "s")
        await #expect(throws: DiskFull.self) { try await cache.snapshot(at: state) { _ in throw DiskFull() } }
        let file = try await cache.snapshot(at: state) { try Self.built(1, at: $0) }
        #expect(file?.revision == 1)
        await cache.clear()
    }

    @Test func `a deleted file is built again, and its rest is not served`() async throws {
        let cache = SnapshotCache(besides: NSTemporaryDirectory() + "tidemark-no-zone")
        let build: SnapshotCache.Build = { try Self.built(1, at: $0) }
        let first = try #require(try await cache.snapshot(at: Self.state(1), build: build))
        try FileManager.default.removeItem(atPath: first.path)
        #expect(await cache.snapshot(tag: first.tag) == nil)
        let again = try #require(try await cache.snapshot(at: Self.state(1), build: build))
        await cache.release(first)
        #expect(again.path != first.path)
        #expect(FileManager.default.fileExists(atPath: again.path))
        #expect(await cache.snapshot(tag: first.tag) == again)
        await cache.clear()
    }

    /// A build that ends at the test's command, and the revisions of its calls.
    private actor Yard {
        private(set) var startCount = 0
        private var waiting: [CheckedContinuation<Void, Never>] = []
        private var isOpen = false

        func build(_ revision: Int64, at path: String) async throws -> SnapshotFile {
            startCount += 1
            if !isOpen { await withCheckedContinuation { waiting.append($0) } }
            return try SnapshotShelfTests.built(revision, at: path)
        }

        func open() {
            isOpen = true
            for continuation in waiting { continuation.resume() }
            waiting = []
        }
    }

    private static func state(_ revision: Int64) -> ZoneState {
        ZoneState(epoch: "e", revision: revision, horizon: 0, schema: "s")
    }

    @Test func `requests do not wait for the next file; it is built once, after half of the bound`() async throws {
        let cache = SnapshotCache(besides: NSTemporaryDirectory() + "tidemark-no-zone")
        let yard = Yard()
        func snapshotRevision(at revision: Int64) async throws -> Int64? {
            try await cache.snapshot(at: Self.state(revision), behind: 10) { try await yard.build(revision, at: $0) }?
                .revision
        }
        let first = try await cache.snapshot(at: Self.state(1)) { try Self.built(1, at: $0) }
        #expect(first?.revision == 1)
        #expect(try await snapshotRevision(at: 6) == 1)
        // The build that these two start does not end yet.
        for revision in Int64(7)...9 { #expect(try await snapshotRevision(at: revision) == 1) }
        await yard.open()
        // Beyond the bound requests wait for it.
        #expect(try await snapshotRevision(at: 30) == 30)
        #expect(await yard.startCount == 2)
        await cache.clear()
    }

    @Test func `a busy zone builds one file at a time, and requests meanwhile share the next`() async throws {
        let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
        let cache = SnapshotCache(besides: NSTemporaryDirectory() + "tidemark-no-zone") {
            arrived.yield()
            return 0
        }
        let yard = Yard()
        var arrival = arrivals.makeAsyncIterator()
        let first = Task { try await cache.snapshot(at: Self.state(1)) { try await yard.build(1, at: $0) } }
        _ = await arrival.next()
        let others = (Int64(2)...5).map { revision in
            Task { try await cache.snapshot(at: Self.state(revision)) { try await yard.build(5, at: $0) } }
        }
        for _ in others { _ = await arrival.next() }
        // The request has arrived by the time that the cache answers differently.
        #expect(await cache.snapshot(tag: "none") == nil)
        await yard.open()
        #expect(try await first.value?.revision == 1)
        for other in others { #expect(try await other.value?.revision == 5) }
        #expect(await yard.startCount == 2)
        await cache.clear()
    }

    @Test func `a closing store waits for the background build`() async throws {
        let cache = SnapshotCache(besides: NSTemporaryDirectory() + "tidemark-no-zone")
        _ = try await cache.snapshot(at: Self.state(1)) { try Self.built(1, at: $0) }
        let path = NSTemporaryDirectory() + "tidemark-\(UUID()).gz"
        _ = try await cache.snapshot(at: Self.state(2), behind: 1) { _ in
            try Data().write(to: URL(filePath: path))
            return SnapshotFile(path: path, byteCount: 0, epoch: "e", revision: 2, hash: "2")
        }
        await cache.clear()
        #expect(!FileManager.default.fileExists(atPath: path))
    }
}
