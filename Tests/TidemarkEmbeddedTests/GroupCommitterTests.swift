import Synchronization
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// Rule 31: the asynchronous shell around the queue, with a scripted store.
@Suite struct GroupCommitterTests {
    private static let limits = Limits.standard

    private static func request(_ text: String) -> ZoneRequest {
        ZoneRequest(.sync(Array(text.utf8)), access: .local("main"))
    }

    private static func echo(_ group: [ZoneRequest]) -> [Result<ZoneAnswer, any Error>] {
        group.map { .success(ZoneAnswer(.text($0.text))) }
    }

    /// Reports each commit, and waits for permission.
    private struct Store: Sendable {
        let groups = AsyncStream.makeStream(of: [String].self)
        let permits = AsyncStream.makeStream(of: Void.self)

        @Sendable func commit(_ zone: String, _ group: [ZoneRequest]) async throws -> [Result<ZoneAnswer, any Error>] {
            groups.continuation.yield(group.map { String(decoding: $0.text, as: UTF8.self) })
            for await _ in permits.stream { break }
            return echo(group)
        }
    }

    @Test func `zones are independent: one commits while another is stuck`() async throws {
        let (permits, permit) = AsyncStream.makeStream(of: Void.self)
        let (starts, started) = AsyncStream.makeStream(of: Void.self)
        let committer = GroupCommitter(limits: Self.limits, metrics: ServerMetrics()) { zone, group in
            if zone == "slow" {
                started.yield()
                for await _ in permits { break }
            }
            return Self.echo(group)
        }
        async let slow = committer.answer(Self.request("a"), zone: "slow")
        for await _ in starts { break }
        let quick = try await committer.answer(Self.request("b"), zone: "quick")
        #expect(quick.text == Array("b".utf8))
        permit.yield()
        #expect(try await slow.text == Array("a".utf8))
    }

    @Test func `rule 4: after a failed commit every request of the group fails, and the next succeeds`() async throws {
        struct Failed: Error {}
        let isFailing = Mutex(true)
        let committer = GroupCommitter(limits: Self.limits, metrics: ServerMetrics()) { _, group in
            if isFailing.withLock({ $0 }) { throw Failed() }
            return Self.echo(group)
        }
        await withTaskGroup(of: Void.self) { tasks in
            for number in 0..<20 {
                tasks.addTask {
                    await #expect(throws: Failed.self) {
                        try await committer.answer(Self.request("\(number)"), zone: "main")
                    }
                }
            }
        }
        isFailing.withLock { $0 = false }
        let answer = try await committer.answer(Self.request("x"), zone: "main")
        #expect(answer.text == Array("x".utf8))
    }

    @Test func `a group that ends early leaves its unanswered requests to the next one, in order`() async throws {
        let store = Store()
        let handled = Mutex<[[String]]>([])
        let committer = GroupCommitter(limits: Self.limits, metrics: ServerMetrics()) { zone, group in
            let results = try await store.commit(zone, group)
            handled.withLock { $0.append(group.map { String(decoding: $0.text, as: UTF8.self) }) }
            return Array(results.prefix(2))
        }
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for number in 0..<7 {
                tasks.addTask {
                    let text = "\(number)"
                    let answer = try await committer.answer(Self.request(text), zone: "main")
                    #expect(answer.text == Array(text.utf8))
                }
            }
            for _ in 0..<7 { store.permits.continuation.yield() }
            try await tasks.waitForAll()
        }
        // The unanswered requests come first in the next group.
        let groups = handled.withLock { $0 }
        for (group, next) in zip(groups, groups.dropFirst()) where group.count > 2 {
            #expect(next.starts(with: group.dropFirst(2)))
        }
    }

    @Test func `a store that answers no request gives an error instead of an endless wait`() async throws {
        let committer = GroupCommitter(limits: Self.limits, metrics: ServerMetrics()) { _, _ in [] }
        let error = await #expect(throws: TidemarkError.self) {
            try await committer.answer(Self.request("x"), zone: "main")
        }
        #expect(error?.code == .internalFailure)
    }

    @Test func `a request cancelled in the queue has no effect, one cancelled in flight commits`() async throws {
        let store = Store()
        let committer = GroupCommitter(limits: Self.limits, metrics: ServerMetrics()) { zone, group in
            try await store.commit(zone, group)
        }
        var groups = store.groups.stream.makeAsyncIterator()
        let first = Task { try await committer.answer(Self.request("first"), zone: "main") }
        #expect(await groups.next() == ["first"])
        let second = Task { try await committer.answer(Self.request("second"), zone: "main") }
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
        first.cancel()
        store.permits.continuation.yield()
        #expect(try await first.value.text == Array("first".utf8))
        store.permits.continuation.yield()
        let third = try await committer.answer(Self.request("third"), zone: "main")
        #expect(third.text == Array("third".utf8))
        #expect(await groups.next() == ["third"])
    }
}
