import Synchronization
import Testing
import TidemarkCore
import TidemarkServer
import TidemarkStore

/// What listeners are told of commits, by whoever commits them.
@Suite(.timeLimit(.minutes(30))) struct AnnouncementsTests {
    private static func revision(_ number: Int64) -> ZoneRevision {
        ZoneRevision(zone: "main", epoch: "e", revision: number)
    }

    private static func change(_ base: ZoneRevision, to end: Int64) -> ZoneChange {
        ZoneChange(
            base: base,
            since: ZoneTag(revision: base.revision, hash: "0123456789abcdef"),
            end: revision(end),
            authors: [],
            answer: "{}"
        )
    }

    @Test func `D2: what is committed while a change is read is told together, and read once`() async throws {
        let fanOut = FanOut()
        let announcements = Announcements(fanOut)
        let bases = Mutex<[Int64]>([])
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        announcements.start { base in
            bases.withLock { $0.append(base.revision) }
            for await _ in gate { break }
            return Self.change(base, to: base.revision == 1 ? 2 : 9)
        }
        fanOut.committed(Self.revision(1))
        let listener = try fanOut.listen(to: "main", told: Self.revision(1), device: "ben")
        fanOut.committed(Self.revision(1))
        for number in 2...9 as ClosedRange<Int64> { announcements.committed(Self.revision(number)) }
        open.yield()
        let first = await listener.next()
        #expect(first?.end == Self.revision(2))
        open.yield()
        let second = await listener.next()
        #expect(second?.end == Self.revision(9))
        #expect(bases.withLock { $0 } == [1, 2])
    }

    @Test func `D2: where a change cannot be read, the revision is told all the same`() async throws {
        let fanOut = FanOut()
        let announcements = Announcements(fanOut)
        let listener = try fanOut.listen(to: "main", told: Self.revision(1), device: "ben")
        fanOut.committed(Self.revision(1))
        announcements.committed(Self.revision(2))
        #expect(await listener.next() == .moved(Self.revision(2)), "nobody reads yet")
        announcements.start { _ in throw TidemarkError(.storageFailed, "The disk.", fix: "") }
        announcements.committed(Self.revision(3))
        #expect(await listener.next() == .moved(Self.revision(3)))
        announcements.committed(Self.revision(3))
        announcements.committed(Self.revision(2))
        announcements.committed(Self.revision(4))
        #expect(await listener.next() == .moved(Self.revision(4)), "what is late is not told")
    }
}

extension FanOut.Message {
    /// Where a change leads; nil for any other message.
    fileprivate var end: ZoneRevision? { if case .changed(let change) = self { change.end } else { nil } }
}
