import TidemarkCore

/// The pauses of the background loop, and the obstacles that no time removes.
extension SyncEngine {
    /// The pause between two looks for other credentials, which may belong to another process.
    private static let credentialsPause = Duration.seconds(10)

    /// Tells the engine, whose background sync goes on at once, that its credentials may give another token now.
    public func credentialsChanged() {
        clearObstacle()
        commits.wake()
    }

    /// Waits after a round as long as pace and obstacle demand; returns a change that the server pushed.
    ///
    /// Without a valid token or access to the zone, the engine waits for other credentials. It tries again
    /// after five minutes at the latest, because the server's operator can restore both.
    package func rest(_ pace: Pace) async -> PushedChange? {
        switch obstacle.stage {
        case .clear, .paused:
            return await pause(atMost: pace.pause(jitter: Pace.systemJitter()), canEndEarly: pace.endsWithEdit)
        case .signInNeeded, .accessEnded, .zoneUnknown:
            await waitForAccess(pace)
            return nil
        }
    }

    /// Waits for other credentials, at least as long as the pace demands.
    private func waitForAccess(_ pace: Pace) async {
        let stage = obstacle.stage
        let end = ContinuousClock.now + Pace.accessPause
        let mark = await transport.credentialsMark()
        var pause = pace.pause(jitter: Pace.systemJitter())
        // The app may have signed in while the credentials were asked.
        while !Task.isCancelled, obstacle.stage == stage, ContinuousClock.now < end {
            await commits.wait(atMost: pause, orEdit: false)
            if await transport.credentialsMark() != mark { return }
            pause = Self.credentialsPause
        }
    }

    /// Throws ``TidemarkCore/ErrorCode/rateLimited`` during the pause that the server requested.
    func refusePause() throws {
        guard let seconds = obstacle.pauseSeconds(now: environment.now()), let reason = obstacle.description,
            case .pause(let until) = reason
        else { return }
        var error = TidemarkError(
            .rateLimited, "The server asked this device to send nothing until \(until).",
            fix: "Sync again then. Changes made here are kept, and sent later.")
        error.retryAfterSeconds = seconds
        throw error
    }

    func recordFailure(_ error: TidemarkError) {
        let former = obstacle.stage
        lastFailure = error
        obstacle.record(error, now: environment.now())
        if obstacle.stage == .signInNeeded, former != .signInNeeded { eventHub.send(.signInNeeded) }
        commits.signal.advance()
    }

    func clearObstacle() {
        let former = obstacle.stage
        lastFailure = nil
        obstacle.clear()
        commits.signal.advance()
        // The listener pauses for longer after it was refused.
        if [.signInNeeded, .accessEnded, .zoneUnknown].contains(former) { listenAgain() }
    }
}
