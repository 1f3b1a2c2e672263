import Synchronization
import Testing
import TidemarkCore
import TidemarkEngine

/// The announcements of commits to listeners.
@Suite(.timeLimit(.minutes(30))) struct AnnouncementsTests {
    private static func revision(_ number: Int64) -> ZoneRevision {
        ZoneRevision(zone: "main", epoch: "e", revision: number)
    }

    private static func change(_ base: ZoneRevision, to end: Int64) -> ZoneChange {
        ZoneChange(
            base: base, since: ZoneTag(revision: base.revision, hash: "0123456789abcdef"), end: revision(end),
            authors: [], answer: "{}")
    }

    @Test func `D2: commits during the reading of a change are announced together, and read once`() async throws {
        let fanOut = FanOut()
        let announcements = Announcements(fanOut)
        let bases = Mutex<[Int64]>([])
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        announcements.start { base in
            bases.withLock { $0.append(base.revision) }
            for await _ in gate { break }
            return Self.change(base, to: base.revision == 1 ? 2 : 9)
        }
        fanOut.publish(Self.revision(1))
        let listener = try fanOut.listen(to: "main", since: Self.revision(1), device: "ben")
        fanOut.publish(Self.revision(1))
        for number in 2...9 as ClosedRange<Int64> { announcements.publish(Self.revision(number)) }
        open.yield()
        let first = await listener.next()
        #expect(first?.end == Self.revision(2))
        open.yield()
        let second = await listener.next()
        #expect(second?.end == Self.revision(9))
        #expect(bases.withLock { $0 } == [1, 2])
    }

    @Test func `D2: if a change cannot be read, the revision is announced alone`() async throws {
        let fanOut = FanOut()
        let announcements = Announcements(fanOut)
        let listener = try fanOut.listen(to: "main", since: Self.revision(1), device: "ben")
        fanOut.publish(Self.revision(1))
        announcements.publish(Self.revision(2))
        #expect(await listener.next() == .moved(Self.revision(2)), "no read has started")
        announcements.start { _ in throw TidemarkError(.storageFailed, "The disk.", fix: "") }
        announcements.publish(Self.revision(3))
        #expect(await listener.next() == .moved(Self.revision(3)))
        announcements.publish(Self.revision(3))
        announcements.publish(Self.revision(2))
        announcements.publish(Self.revision(4))
        #expect(await listener.next() == .moved(Self.revision(4)), "a late change is not announced")
    }
}

extension FanOut.Message {
    /// The revision that a change leads to; nil for any other message.
    fileprivate var end: ZoneRevision? { if case .changed(let change) = self { change.end } else { nil } }
}
