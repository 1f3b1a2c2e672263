/// Computes growing pauses before a listening device reconnects, or the server's longer ones; the shell sleeps.
struct ListeningPace: Sendable {
    private var failures = 0
    private var eventCount = 0
    private var requestedPause = Duration.zero
    /// The longest pause that the device chooses by itself.
    static let pauseMax = Duration.seconds(60)
    /// The number of events after which a connection counts as good: a proxy may cut each one after the first events.
    private static let goodEventsMin = 3
    /// The failures after which the pause grows no more.
    private static let failuresMax = 16

    mutating func recordEvent(_ event: PushEvent) {
        eventCount += 1
        if eventCount >= Self.goodEventsMin { failures = 0 }
        // A server that announces its shutdown is not a failure.
        guard case .bye(let milliseconds) = event else { return }
        failures = 0
        requestPause(.milliseconds(milliseconds ?? 0))
    }

    mutating func recordRefusal(retryAfterSeconds: Int?) { requestPause(.seconds(retryAfterSeconds ?? 0)) }

    /// Returns the pause before the next connection; `jitter`, 0.5 to 1.5, spreads the devices of a failed server.
    mutating func nextPause(jitter: Double) -> Duration {
        failures = min(failures + 1, Self.failuresMax)
        let ownPause = min(Duration.seconds(1) * (1 << (failures - 1)), Self.pauseMax)
        let pause = max(ownPause * jitter, requestedPause * max(jitter, 1))
        eventCount = 0
        requestedPause = .zero
        return pause
    }

    private mutating func requestPause(_ pause: Duration) {
        requestedPause = min(max(pause, .zero), Pace.requestedPauseMax)
    }
}
