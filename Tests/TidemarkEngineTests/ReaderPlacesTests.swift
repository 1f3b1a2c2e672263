import Synchronization
import Testing
import TidemarkCore
import TidemarkEngine

/// The readers of a store: what one sender can take of them, and what all who ask for a digest share.
@Suite(.timeLimit(.minutes(2))) struct ReaderPlacesTests {
    /// Work that goes on until the test ends it.
    private actor Work {
        private(set) var begun = 0
        private var waiting: [CheckedContinuation<Void, Never>] = []
        private var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

        func run() async {
            begun += 1
            for watcher in watchers where watcher.count <= begun { watcher.continuation.resume() }
            watchers.removeAll { $0.count <= begun }
            await withCheckedContinuation { waiting.append($0) }
        }

        func untilBegun(_ count: Int) async {
            if begun < count { await withCheckedContinuation { watchers.append((count, $0)) } }
        }

        func endOne() { if !waiting.isEmpty { waiting.removeFirst().resume() } }
    }

    @Test func `one sender has its share, others go on, and the next of its questions begins when one ends`()
        async throws
    {
        let places = ReaderPlaces(5, share: 2)
        let work = Work()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for _ in 1...6 { tasks.addTask { try await places.run(for: .sender("anna")) { await work.run() } } }
            await work.untilBegun(2)
            for reader in [ReaderPlaces.Reader.sender("ben"), .sender("\n127.0.0.1"), .anybody, .maker] {
                try await places.run(for: reader) {}
            }
            #expect(await work.begun == 2)
            await work.endOne()
            await work.untilBegun(3)
            #expect(await work.begun == 3)
            for count in 4...6 {
                await work.endOne()
                await work.untilBegun(count)
            }
            for _ in 1...2 { await work.endOne() }
            try await tasks.waitForAll()
        }
    }

    @Test func `a store keeps readers for commits, however many senders ask`() async throws {
        let places = ReaderPlaces(readers: 8)
        let work = Work()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for number in 1...8 {
                tasks.addTask { try await places.run(for: .sender("\(number)")) { await work.run() } }
            }
            await work.untilBegun(5)
            for count in 6...8 {
                #expect(await work.begun == count - 1)
                await work.endOne()
                await work.untilBegun(count)
            }
            for _ in 1...5 { await work.endOne() }
            try await tasks.waitForAll()
        }
    }

    private static func digest(_ revision: Int64) -> ZoneDigest {
        ZoneDigest(zone: "main", revision: revision, tables: [], hash: "\(revision)")
    }

    private static func state(_ revision: Int64, epoch: String = "e") -> ZoneState {
        ZoneState(epoch: epoch, revision: revision, horizon: 0, schema: "s")
    }

    @Test func `twelve who ask for a digest of one revision share one computation`() async throws {
        let shared = SharedDigest()
        let work = Work()
        try await withThrowingTaskGroup(of: ZoneDigest?.self) { tasks in
            for _ in 1...12 {
                tasks.addTask {
                    try await shared.digest(of: "main", at: Self.state(7)) {
                        await work.run()
                        return Self.digest(7)
                    }
                }
            }
            await work.untilBegun(1)
            await work.endOne()
            for try await digest in tasks { #expect(digest?.revision == 7) }
        }
        #expect(await work.begun == 1)
    }

    @Test func `who asks after a digest has ended gets one of the rows of then`() async throws {
        let shared = SharedDigest()
        let runs = Mutex(0)
        let ask = { @Sendable (zone: String, state: ZoneState) in
            try await shared.digest(of: zone, at: state) {
                runs.withLock { $0 += 1 }
                return Self.digest(state.revision)
            }
        }
        // Rows may have changed without a revision.
        for count in 1...2 {
            #expect(try await ask("main", Self.state(7))?.revision == 7)
            #expect(runs.withLock { $0 } == count)
        }
        #expect(try await ask("main", Self.state(8))?.revision == 8)
    }

    private struct DiskFull: Error {}

    @Test func `a digest that failed is computed again for the next who asks`() async throws {
        let shared = SharedDigest()
        await #expect(throws: DiskFull.self) {
            try await shared.digest(of: "main", at: Self.state(1)) { throw DiskFull() }
        }
        #expect(try await shared.digest(of: "main", at: Self.state(1)) { Self.digest(1) }?.revision == 1)
    }
}
