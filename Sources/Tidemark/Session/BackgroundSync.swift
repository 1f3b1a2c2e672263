import GRDB
import TidemarkCore

/// The background sync: a loop of rounds, a connection that announces revisions, and a look at other programs' commits.
extension SyncEngine {
    /// Syncs in the background: after local commits, after commits at the server, and every `interval`.
    ///
    /// The engine polls for commits of other programs every 0.1 seconds. Each poll's changes become one change set.
    ///
    /// It retries failed rounds after growing pauses with jitter, and sends an event for each failure.
    ///
    /// - Parameters:
    ///   - interval: The longest pause after a successful round.
    ///   - isLive: Whether to hold a connection on which the server announces new revisions. Without
    ///     it, or while it is broken, remote changes arrive with the next round.
    public func start(every interval: Duration = .seconds(30), isLive: Bool = true) async {
        guard loop == nil else { return }
        if isLive { listen() }
        let pace = Pace(interval: interval)
        loop = Task { [weak self] in
            var pace = pace
            var pushedChange: PushedChange?
            while !Task.isCancelled {
                guard let self else { return }
                await self.round(&pace, pushedChange)
                pushedChange = await self.rest(pace)
            }
        }
        await watchOutside()
        // The engine may have been stopped meanwhile.
        if loop == nil { await outside.stopDraining() }
    }

    /// Ends the background sync, and returns when the file is free.
    ///
    /// It cancels the rounds in flight, also those of other callers, which get `CancellationError`. Each transaction
    /// is applied completely or not at all. Afterwards no task of the engine uses the file until the next call. So
    /// an app may be suspended then, also with a file that it shares with its extensions.
    public func stop() async {
        let tasks = [loop, listening].compactMap(\.self)
        loop = nil
        listening = nil
        for task in tasks { task.cancel() }
        stops += 1
        commits.signal.advance()
        await endRounds()
        // The engine may have been started again meanwhile.
        if loop == nil { await outside.stopDraining() }
        for task in tasks { await task.value }
    }

    /// Begins to listen to the server, until ``stop()``.
    package func listen() {
        guard listening == nil else { return }
        let connection = Listening(database: database, transport: transport, commits: commits)
        listening = Task { await connection.run() }
    }

    nonisolated func hear(_ hint: Hint) { commits.hear(hint) }

    /// Waits between two rounds; with `canEndEarly`, until an edit or a revision that the file lacks.
    package func pause(atMost pause: Duration, canEndEarly: Bool) async -> PushedChange? {
        let start = ContinuousClock.now
        let end = start + pause
        let earliestEnd = start + Pace.hintGap
        while !Task.isCancelled {
            await commits.wait(atMost: end - .now, orEdit: canEndEarly, orHint: canEndEarly)
            guard canEndEarly, let hint = commits.takeHint() else { return nil }
            guard await isNews(hint.end) else { continue }
            await commits.wait(atMost: earliestEnd - .now, orEdit: true)
            return (commits.takeHint() ?? hint).change
        }
        return nil
    }

    private func isNews(_ hint: ZoneRevision) async -> Bool {
        do { return hint.isNews(to: try await database.read { try ZoneRevision(knownIn: $0) }) } catch {
            // The next round will report the file's error.
            return true
        }
    }

    /// Runs one round and sets the pace; `sync()` reports a failure to the app.
    private func round(_ pace: inout Pace, _ pushedChange: PushedChange?) async {
        do {
            try await sync(pushedChange: pushedChange)
            pace.recordSuccess()
        } catch { pace.recordFailure(retryAfterSeconds: (error as? TidemarkError)?.retryAfterSeconds) }
    }
}

/// The pauses of the background loop, and the obstacles that no time removes.
extension SyncEngine {
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
        switch obstacle.current {
        case nil, .pause:
            return await pause(atMost: pace.pause(jitter: Pace.systemJitter()), canEndEarly: pace.endsWithEdit)
        case .signInNeeded, .accessEnded, .zoneUnknown:
            await waitForAccess(pace)
            return nil
        }
    }

    /// Waits for other credentials, at least as long as the pace demands.
    private func waitForAccess(_ pace: Pace) async {
        let former = obstacle.current
        let end = ContinuousClock.now + Pace.accessPause
        let mark = await transport.credentialsMark()
        var pause = pace.pause(jitter: Pace.systemJitter())
        // The app may have signed in while the credentials were asked.
        while !Task.isCancelled, obstacle.current == former, ContinuousClock.now < end {
            await commits.wait(atMost: pause, orEdit: false)
            if await transport.credentialsMark() != mark { return }
            pause = Pace.credentialsPause
        }
    }

    /// Throws ``TidemarkCore/ErrorCode/rateLimited`` during the pause that the server requested.
    func refusePause() throws {
        guard let seconds = obstacle.pauseSeconds(now: environment.now()), case .pause(let until) = obstacle.current
        else { return }
        var error = TidemarkError(
            .rateLimited, "The server asked this device to send nothing until \(until).",
            fix: "Sync again then. Changes made here are kept, and sent later.")
        error.retryAfterSeconds = seconds
        throw error
    }

    func recordFailure(_ error: TidemarkError) {
        let former = obstacle.current
        lastFailure = error
        obstacle.record(error, now: environment.now())
        if obstacle.current == .signInNeeded, former != .signInNeeded { eventHub.send(.signInNeeded) }
        commits.signal.advance()
    }

    func clearObstacle() {
        let former = obstacle.current
        lastFailure = nil
        obstacle = Obstacle()
        commits.signal.advance()
        // The listener pauses for longer after it was refused.
        guard [.signInNeeded, .accessEnded, .zoneUnknown].contains(former), let refused = listening else { return }
        refused.cancel()
        listening = nil
        listen()
    }
}
