import Testing
import TidemarkCore

/// Case 47: clocks that stand still, jump or are wrong.
@Suite struct HybridClockTests {
    private static let noon: Int64 = 1_795_000_000_000
    private static let skewMax = Limits.standard.clockSkewMillisecondsMax

    @Test func `case 47: a wall clock that stands still, or jumps back, still gives increasing times`() {
        var clock = HybridClock()
        let walls = [Self.noon, Self.noon, Self.noon - 86_400_000, 0, -86_400_000, Int64.min, Self.noon]
        let times = walls.map { clock.next(at: $0) }
        #expect(times.first == Self.noon * HybridClock.ticksPerMillisecond)
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
    }

    @Test func `case 47: times after an observed time are later than it`() {
        var clock = HybridClock(last: 7)
        clock.receive(Self.noon * 1_000)
        #expect(clock.next(at: 0) == Self.noon * 1_000 + 1)
        clock.receive(3)
        #expect(clock.next(at: 0) == Self.noon * 1_000 + 2)
    }

    @Test(arguments: [2_147_483_648_000, 253_402_300_799_000, Int64.max])
    func `case 47: 2038, the year 9999 and the end of Int64 are times below 2^53`(wall: Int64) {
        var clock = HybridClock()
        #expect(clock.next(at: wall) <= HybridClock.timeMax)
        #expect(clock.next(at: wall) <= HybridClock.timeMax)
        clock.receive(Int64.max)
        #expect(clock.last == HybridClock.timeMax)
    }

    @Test func `case 47: a clock within the allowed skew is believed, one beyond counts as now`() {
        let edge = (Self.noon + Self.skewMax) * HybridClock.ticksPerMillisecond
        var clock = HybridClock()
        #expect(clock.admit(edge, at: Self.noon, skewMax: Self.skewMax) == edge)
        clock = HybridClock()
        let late = edge + HybridClock.ticksPerMillisecond
        #expect(clock.admit(late, at: Self.noon, skewMax: Self.skewMax) == Self.noon * 1_000)
        #expect(clock.admit(HybridClock.timeMax, at: Self.noon, skewMax: Self.skewMax) == Self.noon * 1_000 + 1)
        // A clock that is behind is believed too: it loses to others, but not to times it has seen.
        #expect(clock.admit(5, at: Self.noon, skewMax: Self.skewMax) == 5)
    }

    @Test func `equal times of two devices are ordered by device id, an absent id first`() {
        #expect(Stamp(time: 1, device: "a") < Stamp(time: 1, device: "b"))
        #expect(Stamp(time: 1) < Stamp(time: 1, device: "a"))
        #expect(Stamp(time: 1, device: "b") < Stamp(time: 2, device: "a"))
    }
}
