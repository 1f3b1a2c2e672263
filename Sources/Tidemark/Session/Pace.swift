/// How long the background loop pauses: the interval while all is well, growing pauses after
/// failures, and never less than the server asked for.
///
/// A value; the shell sleeps.
package struct Pace: Sendable {
    let interval: Duration
    private let first: Duration
    private var failures = 0
    private var asked = Duration.zero

    /// The longest pause after failures that the device chooses by itself.
    static let pauseMax = Duration.seconds(300)
    /// The longest pause that a server can ask for: a broken one must not silence a device for
    /// ever.
    static let askedMax = Duration.seconds(3_600)

    /// The shortest time between a round and one that a hint asks for: a zone that moves on all the
    /// time is followed in steps.
    static let hintGap = Duration.milliseconds(250)

    /// Makes a pace that pauses for an interval while all is well, and for `first` after the first
    /// failure.
    package init(interval: Duration, first: Duration = .seconds(1)) {
        self.interval = interval
        self.first = first
    }

    /// Notes that a round went well.
    package mutating func succeeded() { (failures, asked) = (0, .zero) }

    /// Notes that a round failed, and the seconds that the other side asked to be left alone for.
    package mutating func failed(retryAfterSeconds: Int? = nil) {
        failures = min(failures + 1, 16)
        let seconds = min(max(retryAfterSeconds ?? 0, 0), Int(Self.askedMax / .seconds(1)))
        asked = .seconds(seconds)
    }

    /// Whether an edit of the app, or a hint of the server, ends the pause early: not when the
    /// server asked for it.
    package var endsWithEdit: Bool { asked == .zero }

    /// The pause before the next round.
    ///
    /// `jitter` is a random factor from 0.5 to 1.5, so that devices that failed together do not
    /// return together. What the server asked for is only ever lengthened.
    package func pause(jitter: Double) -> Duration {
        guard failures > 0 else { return interval }
        let grown = first * (1 << (failures - 1))
        return max(min(grown, Self.pauseMax) * jitter, asked * max(jitter, 1))
    }
}
