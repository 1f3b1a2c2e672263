import Testing
import TidemarkCore

@testable import TidemarkEngine

/// Rule 30: the announcements for each listener, as a value: without a clock, a socket or a task.
@Suite struct AudienceTests {
    private func revision(_ number: Int64, epoch: String = "e", zone: String = "main") -> ZoneRevision {
        ZoneRevision(zone: zone, epoch: epoch, revision: number)
    }

    @Test func `a listener that was busy for 1,000 commits receives the last one, once`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", since: nil) ?? 0
        for number in 1...1_000 { #expect(audience.publish(revision(Int64(number))) == [listener]) }
        #expect(audience.next(for: listener) == .moved(revision(1_000)))
        #expect(audience.next(for: listener) == nil)
        #expect(!audience.isDue(listener))
    }

    @Test func `D3: a reconnecting listener receives the zone's revision unless it knows it`() {
        for (lastRevision, expected) in [(nil, 7), (6, 7), (7, nil), (8, 7)] as [(Int64?, Int64?)] {
            var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
            let listener = audience.join("main", since: lastRevision.map { revision($0) }) ?? 0
            _ = audience.publish(revision(7))
            #expect(audience.next(for: listener) == expected.map { .moved(revision($0)) })
        }
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", since: revision(9, epoch: "old")) ?? 0
        _ = audience.publish(revision(7))
        #expect(audience.next(for: listener) == .moved(revision(7)), "another history")
    }

    @Test func `a listener ahead of a restored server receives the revision and continues`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", since: revision(119), device: "anna") ?? 0
        _ = audience.publish(revision(116))
        #expect(audience.next(for: listener) == .moved(revision(116)))
        #expect(audience.next(for: listener) == nil)
        #expect(audience.publish(revision(117)) == [listener])
        #expect(audience.next(for: listener) == .moved(revision(117)))
        #expect(audience.next(for: listener) == nil)
    }

    @Test func `a beat wakes every listener once`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listeners = (0..<6).compactMap { _ in audience.join("main", since: nil) }
        #expect(audience.beat() == listeners)
        for listener in listeners {
            #expect(audience.next(for: listener) == .heartbeat)
            #expect(audience.next(for: listener) == nil)
        }
        audience.leave(listeners[0])
        #expect(audience.beat() == Array(listeners.dropFirst()))
    }

    @Test func `an announcement older than the last one is dropped`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", since: nil) ?? 0
        _ = audience.publish(revision(7))
        _ = audience.next(for: listener)
        for late in [7, 6, 1] as [Int64] { #expect(audience.publish(revision(late)) == []) }
        #expect(audience.next(for: listener) == nil)
    }

    @Test func `D2: a change is pushed to listeners with a device id, at its base and not its author`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        #expect(audience.base(of: "main") == nil)
        let plain = audience.join("main", since: nil) ?? 0
        _ = audience.publish(revision(6))
        #expect(audience.base(of: "main") == nil, "no listener takes changes")
        let ben = audience.join("main", since: revision(6), device: "ben") ?? 0
        let anna = audience.join("main", since: revision(6), device: "anna") ?? 0
        let late = audience.join("main", since: revision(5), device: "late") ?? 0
        #expect(audience.base(of: "main") == revision(6))
        let change = ZoneChange(
            base: revision(6), since: ZoneTag(revision: 6, hash: "0123456789abcdef"), end: revision(7),
            authors: ["anna"], answer: "{}")
        #expect(audience.publish(revision(7), by: change) == [plain, ben, anna, late])
        #expect(audience.next(for: ben) == .changed(change))
        for listener in [plain, anna, late] { #expect(audience.next(for: listener) == .moved(revision(7))) }
        // The next revision is not the one that the change leads to.
        _ = audience.publish(revision(8))
        #expect(audience.next(for: ben) == .moved(revision(8)))
        for listener in [ben, anna, late] { audience.leave(listener) }
        #expect(audience.base(of: "main") == nil)
    }

    @Test func `rule 8: a listener hears of its own zone only`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let a = audience.join("a", since: nil) ?? 0
        let b = audience.join("b", since: nil) ?? 0
        #expect(audience.zones == ["a", "b"])
        #expect(audience.publish(revision(3, zone: "a")) == [a])
        #expect(audience.publish(revision(3, zone: "c")) == [])
        #expect(audience.next(for: b) == nil)
        #expect(audience.next(for: a) == .moved(revision(3, zone: "a")))
    }

    @Test func `rule 21: the number of listeners is bounded, and a leaving one makes room`() {
        var audience = Audience(listenersMax: 2, ticksPerBeat: 4)
        let first = audience.join("main", since: nil) ?? 0
        #expect(audience.join("main", since: nil) != nil)
        #expect(audience.join("main", since: nil) == nil)
        audience.leave(first)
        #expect(audience.count == 1)
        #expect(audience.isDue(first), "a removed listener has nothing to wait for")
        #expect(audience.next(for: first) == nil)
        #expect(audience.join("main", since: nil) != nil)
    }

    @Test func `rule 21: no state is kept for zones without listeners`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        for number in 0..<1_000 {
            let zone = "zone \(number)"
            let listener = audience.join(zone, since: nil) ?? 0
            _ = audience.publish(revision(1, zone: zone))
            audience.leave(listener)
        }
        #expect(audience.zones.isEmpty && audience.count == 0)
    }

    @Test func `each stream gets one heartbeat in four ticks, spread over the ticks`() {
        var audience = Audience(listenersMax: 100, ticksPerBeat: 4)
        let listeners = (0..<8).compactMap { _ in audience.join("main", since: nil) }
        let beats = (0..<4).map { _ in audience.tick() }
        #expect(beats.map(\.count) == [2, 2, 2, 2])
        #expect(Set(beats.joined()) == Set(listeners))
        for listener in listeners {
            #expect(audience.next(for: listener) == .heartbeat)
            #expect(audience.next(for: listener) == nil)
        }
    }

    @Test func `at shutdown each listener gets the latest revision, then the end, and none may join`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join("main", since: nil) ?? 0
        _ = audience.publish(revision(5))
        #expect(audience.close() == [listener])
        #expect(audience.next(for: listener) == .moved(revision(5)))
        #expect(audience.next(for: listener) == .bye)
        #expect(audience.next(for: listener) == nil)
        #expect(audience.count == 0)
        #expect(audience.join("main", since: nil) == nil)
    }

    @Test func `one listener hears of all its zones, and of none that it has left`() {
        var audience = Audience(listenersMax: 10, ticksPerBeat: 4)
        let listener = audience.join() ?? 0
        audience.setZones(["a", "b"], of: listener)
        #expect(audience.publish(revision(3, zone: "b")) == [listener])
        #expect(audience.publish(revision(2, zone: "a")) == [listener])
        #expect(audience.next(for: listener) == .moved(revision(2, zone: "a")))
        #expect(audience.next(for: listener) == .moved(revision(3, zone: "b")))
        #expect(audience.next(for: listener) == nil)
        audience.setZones(["b", "c"], of: listener)
        #expect(audience.zones == ["b", "c"])
        #expect(audience.publish(revision(9, zone: "a")) == [])
        #expect(audience.next(for: listener) == nil, "it has the revision of the zone that stayed")
        audience.announce(list: 7, to: listener)
        #expect(audience.isDue(listener))
        #expect(audience.next(for: listener) == .listed(7))
        #expect(audience.next(for: listener) == nil)
        audience.leave(listener)
        #expect(audience.zones.isEmpty && audience.count == 0)
    }
}

/// The lock and the waiting around the audience.
@Suite(.timeLimit(.minutes(30))) struct FanOutTests {
    @Test func `10,000 listeners are woken by one commit`() async throws {
        let fanOut = FanOut()
        let messages = try await withThrowingTaskGroup(of: FanOut.Message?.self) { group in
            for _ in 0..<10_000 {
                let listener = try fanOut.listen(to: "main")
                group.addTask { await listener.next() }
            }
            fanOut.publish(zone: "main", epoch: "e", revision: 7)
            return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        let expected = ZoneRevision(zone: "main", epoch: "e", revision: 7)
        #expect(messages == [.moved(expected): 10_000])
        #expect(fanOut.listenerCount == 0, "a released listener is removed")
    }

    @Test func `a listener with a cancelled task ends its wait`() async throws {
        let fanOut = FanOut()
        let listener = try fanOut.listen(to: "main")
        let waiting = Task { await listener.next() }
        waiting.cancel()
        #expect(await waiting.value == nil)
        #expect(fanOut.listenerCount == 0)
    }

    @Test func `a listener above the limit is told to come back later`() async throws {
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
