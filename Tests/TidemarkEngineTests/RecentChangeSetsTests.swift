import Testing
import TidemarkCore
import TidemarkSQL
import TidemarkEngine

/// Rule 35: a node's cache of a zone's latest change sets, and when it does not trust it.
@Suite struct RecentChangeSetsTests {
    private static let epoch = "00000000-0000-4000-8000-000000000000"

    /// A history of a number of revisions; those from `fork` on have other contents.
    private static func history(_ count: Int64, fork: Int64 = .max) -> [RecentChangeSet] {
        var chain = ""
        var sets = [RecentChangeSet]()
        for revision in 1...count {
            let body = #"{"revision":\#(revision)\#(revision < fork ? "" : ",\"other\":1")}"#
            chain = RecentChangeSet.chain(after: chain, revision: revision, device: "d", body: body)
            sets.append(RecentChangeSet(revision: revision, device: "d", fingerprint: nil, chain: chain, body: body))
        }
        return sets
    }

    private static func head(_ history: [RecentChangeSet], schema: String = "s") -> ZoneHead {
        ZoneHead(
            state: ZoneState(epoch: epoch, revision: Int64(history.count), horizon: 0, schema: schema),
            fingerprint: Fingerprint.none, chain: history[history.count - 1].chain, hasMessages: false)
    }

    private static func ask(_ recent: RecentChangeSets, after revision: Int64, at head: ZoneHead) -> PullAnswer {
        recent.answer(
            SyncRequest(maxRevision: revision),
            at: head, limits: .standard)
    }

    private static func bodies(_ answer: PullAnswer) -> [String]? {
        if case .answer(let answer) = answer { answer.changeSets } else { nil }
    }

    @Test func `only missing change sets are loaded, each once`() {
        let first = Self.history(10)
        let later = Self.history(15)
        var recent = RecentChangeSets()
        #expect(Self.ask(recent, after: 7, at: Self.head(first)) == .load(7...10))
        recent.take(Array(first[6...9]), at: Self.head(first))
        #expect(Self.bodies(Self.ask(recent, after: 7, at: Self.head(first)))?.count == 3)
        #expect(Self.ask(recent, after: 4, at: Self.head(first)) == .load(4...6))
        recent.take(Array(first[3...5]), at: Self.head(first))
        #expect(Self.bodies(Self.ask(recent, after: 4, at: Self.head(first)))?.count == 6)
        #expect(Self.ask(recent, after: 8, at: Self.head(later)) == .load(11...15))
        recent.take(Array(later[10...14]), at: Self.head(later))
        #expect(Self.bodies(Self.ask(recent, after: 4, at: Self.head(later))) == later[4...14].map(\.body))
        #expect(Self.bodies(Self.ask(recent, after: 15, at: Self.head(later))) == [])
    }

    /// Three revisions with their fingerprints, and the last one's change set.
    private static func change(after base: ZoneRevision, lastNoteRevision: Int64? = nil, limits: Limits = .standard)
        -> FromMemory<ZoneChange>
    {
        let history = history(3).map {
            RecentChangeSet(
                revision: $0.revision, device: $0.device, fingerprint: Fingerprint.none, chain: $0.chain, body: $0.body)
        }
        let plainHead = head(history)
        let head = ZoneHead(
            state: plainHead.state, fingerprint: plainHead.fingerprint, chain: plainHead.chain, hasMessages: false,
            lastNoteRevision: lastNoteRevision)
        var recent = RecentChangeSets()
        recent.take(history, at: head)
        return recent.change(after: base, at: head, limits: limits)
    }

    @Test func `D2: a pushed change has the bytes of the answer to a request`() {
        let base = ZoneRevision(zone: "main", epoch: Self.epoch, revision: 2)
        guard case .answer(let change) = Self.change(after: base) else {
            Issue.record("there is no change")
            return
        }
        #expect(change.base == base && change.end.revision == 3)
        #expect(change.authors == ["d"])
        #expect(change.since.revision == 2)
        #expect(change.answer.contains(#""changeSets":[{"revision":3}]"#))
    }

    @Test func `D2: large changes, another history and pending notes are announced only`() {
        let base = ZoneRevision(zone: "main", epoch: Self.epoch, revision: 2)
        var small = Limits.standard
        small.changeEventBytesMax = 10
        #expect(Self.change(after: base, limits: small) == .ask)
        let other = ZoneRevision(zone: "main", epoch: "other", revision: 2)
        #expect(Self.change(after: other) == .ask)
        let even = ZoneRevision(zone: "main", epoch: Self.epoch, revision: 3)
        #expect(Self.change(after: even) == .ask)
        #expect(Self.change(after: base, lastNoteRevision: 3) == .ask)
        #expect(Self.change(after: base, lastNoteRevision: 2) != .ask, "those were there before")
    }

    @Test(arguments: [(10, 8), (12, 8), (9, 3), (7, 3)] as [(Int64, Int64)])
    func `a database restored under a running node is noticed by its hash chain`(reached: Int64, fork: Int64) {
        // The node has ten revisions; the database has lost those from the fork on, and
        // reached others with the same numbers.
        let changeSets = Self.history(10)
        let real = Self.history(reached, fork: fork)
        var recent = RecentChangeSets()
        recent.take(changeSets, at: Self.head(changeSets))
        let head = Self.head(real)
        for _ in 0..<2 {
            guard case .load(let range) = Self.ask(recent, after: 2, at: head) else { break }
            recent.take(real.filter { range.contains($0.revision) }, at: head)
        }
        #expect(Self.bodies(Self.ask(recent, after: 2, at: head)) == real.dropFirst(2).map(\.body))
    }

    @Test func `rule 17: a tag counts only with the cached fingerprint`() {
        let changeSets = Self.history(5)
        let print = Fingerprint(high: 1, low: 2)
        let tag = { (revision: Int64, print: Fingerprint) in
            ZoneTag(epoch: Self.epoch, schema: "s", revision: revision, fingerprint: print)
        }
        var recent = RecentChangeSets()
        func ask(_ tag: ZoneTag) -> PullAnswer {
            recent.news(for: "e", since: tag, at: Self.head(changeSets), limits: .standard)
        }
        // The zone's own fingerprint is known; earlier ones have to be loaded, and do not exist
        // here.
        #expect(Self.bodies(ask(tag(5, .none))) == [])
        #expect(ask(tag(5, print)) == .ask)
        #expect(ask(tag(6, .none)) == .ask)
        #expect(ask(tag(3, print)) == .load(3...5))
        recent.take(Array(changeSets[2...4]), at: Self.head(changeSets))
        #expect(ask(tag(3, print)) == .ask)
        #expect(ask(tag(3, .none)) == .ask)
    }

    @Test func `a revision without its change set serves only devices at that revision`() {
        let changeSets = Self.history(6)
        var recent = RecentChangeSets()
        recent.take(
            [
                RecentChangeSet(startingAt: 3, fingerprint: nil, chain: changeSets[2].chain), changeSets[3],
                changeSets[4], changeSets[5],
            ],
            at: Self.head(changeSets)
        )
        #expect(Self.bodies(Self.ask(recent, after: 3, at: Self.head(changeSets))) == changeSets[3...5].map(\.body))
        // A device below it gets none of this, whatever else is cached.
        #expect(Self.ask(recent, after: 1, at: Self.head(changeSets)) == .load(1...2))
        recent.take(Array(changeSets[0...1]), at: Self.head(changeSets))
        #expect(Self.ask(recent, after: 1, at: Self.head(changeSets)) == .load(1...2))
        #expect(Self.bodies(Self.ask(recent, after: 3, at: Self.head(changeSets)))?.count == 3)
        recent.take(Array(changeSets[0...5]), at: Self.head(changeSets))
        #expect(Self.bodies(Self.ask(recent, after: 1, at: Self.head(changeSets)))?.count == 5)
    }

    @Test func `another schema or epoch empties the cache`() {
        let changeSets = Self.history(5)
        var recent = RecentChangeSets()
        recent.take(changeSets, at: Self.head(changeSets))
        let head = Self.head(changeSets, schema: "t")
        #expect(Self.ask(recent, after: 2, at: head) == .load(2...5))
    }

    @Test func `F5: memory is bounded by number and by bytes`() {
        var bounds = RecentChangeSets.Bounds()
        bounds.countMax = 8
        bounds.bytesMax = 45
        let changeSets = Self.history(9)
        var recent = RecentChangeSets(bounds: bounds)
        #expect(Self.ask(recent, after: 1, at: Self.head(changeSets)) == .ask)
        recent.take(changeSets, at: Self.head(changeSets))
        // Fourteen bytes each: three fit; a device at the first misses two.
        #expect(Self.bodies(Self.ask(recent, after: 7, at: Self.head(changeSets)))?.count == 2)
        #expect(Self.ask(recent, after: 6, at: Self.head(changeSets)) == .load(6...6))
    }
}
