/// Computes pauses: the interval, after failures growing ones, or the server's longer one; the shell sleeps.
package struct Pace: Sendable {
    let interval: Duration
    private let first: Duration
    /// The longest pause after failures that the device chooses by itself.
    private let longest: Duration
    private var failures = 0
    private var requestedPause = Duration.zero
    private var eventCount = 0
    /// The number of events after which a connection counts as good: a proxy may cut each one after the first events.
    private static let goodEventsMin = 3
    /// The longest pause that a server can request: a broken server must not stop a device for ever.
    static let requestedPauseMax = Duration.seconds(3_600)
    /// The pause after a refusal that only a person can end.
    static let accessPause = Duration.seconds(300)
    /// The pause between two looks for other credentials, which may belong to another process.
    static let credentialsPause = Duration.seconds(10)
    /// The failures after which the pause grows no more.
    private static let failuresMax = 16
    /// The shortest time between a round and the next one for a hint: it bounds the rounds of a busy zone.
    static let hintGap = Duration.milliseconds(250)

    /// Makes a pace that pauses for `interval` after a success and for `first` after the first failure.
    package init(interval: Duration, first: Duration = .seconds(1), longest: Duration = .seconds(300)) {
        self.interval = interval
        self.first = first
        self.longest = longest
    }

    /// The pace of a listening device, which reconnects whenever a connection ends.
    static let listening = Pace(interval: .seconds(1), longest: .seconds(60))

    package mutating func recordSuccess() {
        failures = 0
        requestedPause = .zero
    }

    package mutating func recordFailure(retryAfterSeconds: Int? = nil) {
        failures = min(failures + 1, Self.failuresMax)
        let seconds = min(max(retryAfterSeconds ?? 0, 0), Int(Self.requestedPauseMax / .seconds(1)))
        requestedPause = .seconds(seconds)
    }

    /// Whether an edit or a hint ends the pause early; not if the server requested the pause.
    package var endsWithEdit: Bool { requestedPause == .zero }

    /// Returns the pause before the next round; `jitter`, 0.5 to 1.5, spreads devices and shortens no requested pause.
    package func pause(jitter: Double) -> Duration {
        guard failures > 0 else { return interval }
        let ownPause = min(first * (1 << (failures - 1)), longest)
        return max(ownPause * jitter, requestedPause * max(jitter, 1))
    }

    // MARK: Connections

    mutating func recordEvent(_ event: PushEvent) {
        eventCount += 1
        if eventCount >= Self.goodEventsMin { failures = 0 }
        // A server that announces its shutdown is not a failure.
        guard case .bye(let milliseconds) = event else { return }
        failures = 0
        requestedPause = min(max(.milliseconds(milliseconds ?? 0), .zero), Self.requestedPauseMax)
    }

    /// Returns the pause after the end of a connection, at least that of a refusal.
    mutating func pauseAfterConnection(retryAfterSeconds: Int? = nil, jitter: Double) -> Duration {
        let announced = requestedPause
        recordFailure(retryAfterSeconds: retryAfterSeconds)
        if retryAfterSeconds == nil { requestedPause = announced }
        let pause = pause(jitter: jitter)
        requestedPause = .zero
        eventCount = 0
        return pause
    }
}
