/// A hybrid logical clock: the wall's time as long as that goes forward, and a counter where it
/// does not.
///
/// A time is one integer: milliseconds since 1970 times 1,000, plus a counter. It is below 2^53, so
/// that readers who take numbers as doubles keep it exact; that lasts until the year 2255. Whoever
/// has seen a time gives only later ones, so what was written with knowledge of something is always
/// later than that, whatever the wall says.
///
/// A pure value: what the wall says is an argument. (Kulkarni and others, "Logical Physical
/// Clocks", 2014.)
public struct HybridClock: Hashable, Sendable {
    /// The counts in a millisecond.
    public static let ticksPerMillisecond: Int64 = 1_000
    /// The highest time, 2^53 - 1.
    public static let timeMax: Int64 = (1 << 53) - 1

    /// The last time that was given or seen.
    public private(set) var last: Int64

    /// Makes a clock that has given or seen `last`.
    public init(last: Int64 = 0) { self.last = min(max(last, 0), Self.timeMax) }

    /// The next time, when the wall says so many milliseconds since 1970: later than every one
    /// before, except at the end of all times.
    public mutating func next(at milliseconds: Int64) -> Int64 {
        last = min(max(Self.time(at: milliseconds), last + 1), Self.timeMax)
        return last
    }

    /// Sees a time that somebody else gave.
    public mutating func receive(_ time: Int64) { last = min(max(last, time), Self.timeMax) }

    /// Takes a time that somebody claims, unless it lies ahead of the wall by more than
    /// `skewMax` milliseconds; then it counts as given here and now.
    public mutating func admit(_ time: Int64, at milliseconds: Int64, skewMax: Int64) -> Int64 {
        if planted(PlantedBug.believesAnyTime) { return time }
        let wall = min(max(milliseconds, 0), Self.timeMax / Self.ticksPerMillisecond)
        guard time / Self.ticksPerMillisecond <= wall + skewMax else { return next(at: milliseconds) }
        receive(time)
        return max(time, 0)
    }

    /// The time of a wall without a counter; before 1970 it is 0.
    private static func time(at milliseconds: Int64) -> Int64 {
        min(max(milliseconds, 0), timeMax / ticksPerMillisecond) * ticksPerMillisecond
    }
}

/// Who wrote something, and when: what ``ConflictPolicy/latest`` compares.
public struct Stamp: Hashable, Sendable, Comparable {
    /// The time by the writer's hybrid clock.
    public let time: Int64
    /// The device; nil when another program wrote it, or nobody said.
    public let device: String?

    /// Makes a stamp.
    public init(time: Int64 = 0, device: String? = nil) {
        self.time = time
        self.device = device
    }

    /// Earlier, or at the same time by a device whose id comes first.
    public static func < (left: Stamp, right: Stamp) -> Bool {
        (left.time, left.device ?? "") < (right.time, right.device ?? "")
    }
}
