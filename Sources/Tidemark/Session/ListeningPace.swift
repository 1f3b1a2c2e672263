/// When a device that listens tries again after its connection has ended: growing pauses, spread by
/// chance, and what the server asked for.
///
/// A value; the shell sleeps.
struct ListeningPace: Sendable {
    private var failures = 0
    private var heardOfThisOne = 0
    private var asked = Duration.zero

    /// The longest pause that the device chooses by itself.
    static let pauseMax = Duration.seconds(60)
    /// A connection on which so much was heard was a good one: a proxy may let the first words
    /// through and cut then, again and again.
    private static let heardMin = 3

    /// Notes that something was heard.
    mutating func heard(_ event: PushEvent) {
        heardOfThisOne += 1
        if heardOfThisOne >= Self.heardMin { failures = 0 }
        // Who says good bye is in order.
        guard case .bye(let milliseconds) = event else { return }
        failures = 0
        ask(.milliseconds(milliseconds ?? 0))
    }

    /// Notes that the server refused, and the seconds that it asked to be left alone for.
    mutating func refused(retryAfterSeconds: Int?) { ask(.seconds(retryAfterSeconds ?? 0)) }

    /// Notes that the connection has ended, or never came about.
    ///
    /// `jitter` is a random factor from 0.5 to 1.5: devices that lost one server together do not
    /// come to the next one together.
    ///
    /// - Returns: The pause before the next one.
    mutating func ended(jitter: Double) -> Duration {
        failures = min(failures + 1, 16)
        defer { (heardOfThisOne, asked) = (0, .zero) }
        let grown = min(Duration.seconds(1) * (1 << (failures - 1)), Self.pauseMax)
        return max(grown * jitter, asked * max(jitter, 1))
    }

    private mutating func ask(_ pause: Duration) { asked = min(max(pause, .zero), Pace.askedMax) }
}
