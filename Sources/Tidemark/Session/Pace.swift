/// How long the background loop pauses: the interval while all is well, growing pauses after
/// failures.
///
/// A value; the shell sleeps.
struct Pace: Sendable {
    let interval: Duration
    private var failures = 0

    /// The longest pause after failures.
    static let pauseMax = Duration.seconds(300)

    init(interval: Duration) { self.interval = interval }

    /// Notes how a round ended.
    mutating func finished(failed: Bool) { failures = failed ? min(failures + 1, 16) : 0 }

    /// The pause before the next round.
    ///
    /// `jitter` is a random factor from 0.5 to 1.5, so that devices that failed together do not
    /// return together.
    func pause(jitter: Double) -> Duration {
        guard failures > 0 else { return interval }
        let grown = Duration.seconds(1) * (1 << (failures - 1))
        return min(grown, Self.pauseMax) * jitter
    }
}
