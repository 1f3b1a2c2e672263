import Foundation

/// A hybrid logical clock: wall-clock time while that goes forward, otherwise a counter.
///
/// A time is one integer: milliseconds since 1970 times 1,000, plus a counter. It stays below 2^53
/// until the year 2255, so that readers with doubles keep it exact. A clock that has received a time
/// issues only later ones. So a change is always later than every change that its author had seen.
///
/// A pure value: the wall-clock time is an argument. (Kulkarni and others, "Logical Physical Clocks", 2014.)
package struct HybridClock: Hashable, Sendable {
    /// The number of counter values in a millisecond.
    package static let ticksPerMillisecond: Int64 = 1_000
    /// The highest time, 2^53 - 1.
    package static let timeMax: Int64 = (1 << 53) - 1
    /// The latest time that the clock issued or received.
    package private(set) var last: Int64

    package init(last: Int64 = 0) { self.last = min(max(last, 0), Self.timeMax) }

    /// Issues a time for milliseconds since 1970, later than every time before unless the clock is at ``timeMax``.
    package mutating func next(at milliseconds: Int64) -> Int64 {
        last = min(max(Self.time(at: milliseconds), last + 1), Self.timeMax)
        return last
    }

    /// Receives a time that another clock issued.
    package mutating func receive(_ time: Int64) { last = min(max(last, time), Self.timeMax) }

    /// Receives a device's time, or issues one if it is more than `skewMax` milliseconds ahead.
    package mutating func admit(_ time: Int64, at milliseconds: Int64, skewMax: Int64) -> Int64 {
        if planted(PlantedBug.believesAnyTime) { return time }
        let wall = min(max(milliseconds, 0), Self.timeMax / Self.ticksPerMillisecond)
        guard time / Self.ticksPerMillisecond <= wall + skewMax else { return next(at: milliseconds) }
        receive(time)
        return max(time, 0)
    }

    /// Converts a wall-clock time; before 1970 the result is 0.
    private static func time(at milliseconds: Int64) -> Int64 {
        min(max(milliseconds, 0), timeMax / ticksPerMillisecond) * ticksPerMillisecond
    }
}

/// The author and the time of a change, which ``ConflictPolicy/latest`` compares.
package struct Stamp: Hashable, Sendable, Comparable {
    /// The time by the writer's hybrid clock.
    package let time: Int64
    /// The device; nil if another program wrote the change, or the author is unknown.
    package let device: String?
    /// The user who sent the change, which decides no conflict; nil at a server without identity.
    package let user: String?

    package init(time: Int64 = 0, device: String? = nil, user: String? = nil) {
        self.time = time
        self.device = device
        self.user = user
    }

    /// Orders stamps by time, then by device id.
    package static func < (left: Stamp, right: Stamp) -> Bool {
        (left.time, left.device ?? "") < (right.time, right.device ?? "")
    }
}

/// The system's wall clock, the server's only source of time.
package enum SystemClock {
    /// Milliseconds since 1970.
    @Sendable package static func milliseconds() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }
}
