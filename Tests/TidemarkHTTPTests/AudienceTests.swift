import Testing
import TidemarkCore

@testable import TidemarkServer

/// Rule 30: who is told what, as a value: without a clock, a socket or a task.
@Suite struct AudienceTests {
    private func revision(_ number: Int64, epoch: String = "e", zone: String = "main") -> ZoneRevision {
        ZoneRevision(zone: zone, epoch: epoch, revision: number)
    }

    @Test func `a listener that was busy for 1,000 commits is told the last of them, once`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", .stays, told: nil) ?? 0
        for number in 1...1_000 { #expect(audience.committed(revision(Int64(number))) == [listener]) }
        #expect(audience.next(for: listener) == .moved(revision(1_000)))
        #expect(audience.next(for: listener) == nil)
        #expect(!audience.isDue(listener))
    }

    @Test func `D3: who comes back hears what the zone is at, unless they were told that last`() {
        for (told, expected) in [(nil, 7), (6, 7), (7, nil), (8, 7)] as [(Int64?, Int64?)] {
            var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
            let listener = audience.join("main", .stays, told: told.map { revision($0) }) ?? 0
            _ = audience.committed(revision(7))
            #expect(audience.next(for: listener) == expected.map { .moved(revision($0)) })
        }
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", .stays, told: revision(9, epoch: "old")) ?? 0
        _ = audience.committed(revision(7))
        #expect(audience.next(for: listener) == .moved(revision(7)), "another history")
    }

    @Test func `a listener ahead of a server that was put back hears where that is, and goes on`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", .stays, told: revision(119), device: "anna") ?? 0
        _ = audience.committed(revision(116))
        #expect(audience.next(for: listener) == .moved(revision(116)))
        #expect(audience.next(for: listener) == nil)
        #expect(audience.committed(revision(117)) == [listener])
        #expect(audience.next(for: listener) == .moved(revision(117)))
        #expect(audience.next(for: listener) == nil)
    }

    @Test func `a message that was overtaken on its way is nobody's news`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", .stays, told: nil) ?? 0
        _ = audience.committed(revision(7))
        _ = audience.next(for: listener)
        for late in [7, 6, 1] as [Int64] { #expect(audience.committed(revision(late)) == []) }
        #expect(audience.next(for: listener) == nil)
    }

    @Test func `D2: a change is for who names a device, is where it begins, and has not made it`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        #expect(audience.base(of: "main") == nil)
        let plain = audience.join("main", .stays, told: nil) ?? 0
        _ = audience.committed(revision(6))
        #expect(audience.base(of: "main") == nil, "nobody takes changes")
        let ben = audience.join("main", .stays, told: revision(6), device: "ben") ?? 0
        let anna = audience.join("main", .stays, told: revision(6), device: "anna") ?? 0
        let late = audience.join("main", .stays, told: revision(5), device: "late") ?? 0
        #expect(audience.base(of: "main") == revision(6))
        let change = ZoneChange(
            base: revision(6),
            since: ZoneTag(revision: 6, hash: "0123456789abcdef"),
            end: revision(7),
            authors: ["anna"],
            answer: "{}"
        )
        #expect(audience.committed(revision(7), by: change) == [plain, ben, anna, late])
        #expect(audience.next(for: ben) == .changed(change))
        for listener in [plain, anna, late] { #expect(audience.next(for: listener) == .moved(revision(7))) }
        // What came next is not what the change leads to.
        _ = audience.committed(revision(8))
        #expect(audience.next(for: ben) == .moved(revision(8)))
        for listener in [ben, anna, late] { audience.leave(listener) }
        #expect(audience.base(of: "main") == nil)
    }

    @Test func `rule 8: nobody hears of a zone that they do not listen to`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let a = audience.join("a", .stays, told: nil) ?? 0
        let b = audience.join("b", .stays, told: nil) ?? 0
        #expect(audience.zones == ["a", "b"])
        #expect(audience.committed(revision(3, zone: "a")) == [a])
        #expect(audience.committed(revision(3, zone: "c")) == [])
        #expect(audience.next(for: b) == nil)
        #expect(audience.next(for: a) == .moved(revision(3, zone: "a")))
    }

    @Test func `rule 21: there is room for so many, and who leaves makes room`() {
        var audience = Audience(listenersMax: 2, ticksPerBeat: 4)
        let first = audience.join("main", .stays, told: nil) ?? 0
        #expect(audience.join("main", .once, told: nil) != nil)
        #expect(audience.join("main", .stays, told: nil) == nil)
        audience.leave(first)
        #expect(audience.count == 1)
        #expect(audience.isDue(first), "who has left waits for nothing")
        #expect(audience.next(for: first) == nil)
        #expect(audience.join("main", .stays, told: nil) != nil)
    }

    @Test func `rule 21: nothing is kept of zones that nobody listens to any more`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        for number in 0..<1_000 {
            let zone = "zone \(number)"
            let listener = audience.join(zone, .stays, told: nil) ?? 0
            _ = audience.committed(revision(1, zone: zone))
            audience.leave(listener)
        }
        #expect(audience.zones.isEmpty && audience.count == 0)
    }

    @Test func `each who stays hears one sign of life in four ticks, not all at once`() {
        var audience = Audience(listenersMax: 100, ticksPerBeat: 4)
        let listeners = (0..<8).compactMap { _ in audience.join("main", .stays, told: nil) }
        let waiting = audience.join("main", .once, told: nil) ?? 0
        let beats = (0..<4).map { _ in audience.tick() }
        #expect(beats.map(\.count) == [2, 2, 2, 2])
        #expect(Set(beats.joined()) == Set(listeners))
        for listener in listeners {
            #expect(audience.next(for: listener) == .heartbeat)
            #expect(audience.next(for: listener) == nil)
        }
        #expect(!audience.isDue(waiting))
    }

    @Test func `at the end everybody is told what is new, then good bye, and nobody comes in`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", .stays, told: nil) ?? 0
        _ = audience.committed(revision(5))
        #expect(audience.close() == [listener])
        #expect(audience.next(for: listener) == .moved(revision(5)))
        #expect(audience.next(for: listener) == .bye)
        #expect(audience.next(for: listener) == nil)
        #expect(audience.count == 0)
        #expect(audience.join("main", .stays, told: nil) == nil)
    }
}

/// The lock and the waiting around it.
@Suite(.timeLimit(.minutes(30))) struct FanOutTests {
    @Test func `10,000 listeners are woken by one commit`() async throws {
        let fanOut = FanOut()
        let heard = try await withThrowingTaskGroup(of: FanOut.Message?.self) { group in
            for _ in 0..<10_000 {
                let listener = try fanOut.listen(to: "main")
                group.addTask { await listener.next() }
            }
            fanOut.committed(zone: "main", epoch: "e", revision: 7)
            return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        let expected = ZoneRevision(zone: "main", epoch: "e", revision: 7)
        #expect(heard == [.moved(expected): 10_000])
        #expect(fanOut.listenerCount == 0, "whom nobody holds any more has left")
    }

    @Test func `a listener whose task is cancelled waits no longer`() async throws {
        let fanOut = FanOut()
        let listener = try fanOut.listen(to: "main")
        let waiting = Task { await listener.next() }
        waiting.cancel()
        #expect(await waiting.value == nil)
        #expect(fanOut.listenerCount == 0)
    }

    @Test func `a listener that is one too many is told to come back later`() async throws {
        var limits = Limits.standard
        limits.listenersMax = 1
        let fanOut = FanOut(limits: limits)
        let first = try fanOut.listen(to: "main")
        let error = #expect(throws: TidemarkError.self) { try fanOut.listen(to: "main") }
        #expect(error?.code == .unavailable && error?.recovery == .retry)
        first.leave()
        #expect(await first.next() == nil)
        _ = try fanOut.listen(to: "main")
    }
}
