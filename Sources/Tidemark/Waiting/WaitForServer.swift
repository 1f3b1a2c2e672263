import GRDB
import TidemarkCore

/// The loop of every wait: look at the file, and wait for a change.
extension SyncEngine {
    /// Waits until `look`, which knows whether a round has succeeded since, shows the end; no limit waits without end.
    ///
    /// While the background sync runs, its rounds suffice. Otherwise the wait has rounds of its own. A refusal counts
    /// only when no round runs, because the round may still merge the refused change set.
    ///
    /// Throws ``WaitError``, an error that no retry can help, or `CancellationError`, also after ``stop()``.
    func wait<Value: Sendable>(
        within limit: Duration?, until look: @escaping @Sendable (Database, _ hasSynced: Bool) throws -> Look<Value>
    ) async throws -> Value {
        let end = limit.map { ContinuousClock.now + $0 }
        let era = stops
        let firstRounds = roundsDone
        let failure = Remembered<(any Error)?>(nil)
        var ownRounds: Task<Void, Never>?
        defer { ownRounds?.cancel() }
        while true {
            try Task.checkCancellation()
            try await database.typingStorage { try await outside.prepare() }
            guard era == stops else { throw CancellationError() }
            let count = commits.signal.count
            let mayStillMerge = hasRound
            let hasSynced = roundsDone > firstRounds
            var pending = 0
            let seen = try await database.typingStorage { [database] in
                try await database.read { try look($0, hasSynced) }
            }
            switch seen {
            case .done(let value): return value
            case .pending(let number): pending = number
            case .refused(let id):
                if !mayStillMerge, !hasRound { throw WaitError.refused(conflict: id) }
                pending = 1
            }
            if let error = failure.update({ $0 }) ?? (loop == nil ? nil : lastFailure), Self.endsWait(error) {
                throw error
            }
            if let end, end <= .now { throw WaitError.notYet(pending: pending) }
            if loop == nil, ownRounds == nil, era == stops {
                ownRounds = Task { [weak self] in await self?.repeatRounds(until: failure) }
            }
            // Another process may have the round that ends the wait.
            await outside.waitForChange(beyond: count, atMost: end.map { $0 - .now })
        }
    }

    /// Whether a person has to change something first.
    static func endsWait(_ error: any Error) -> Bool {
        guard let error = error as? TidemarkError else { return true }
        return ![.retry, .resync, .renew, .repair].contains(error.recovery)
    }

    /// Has rounds until the task is cancelled, or an error ends the wait.
    private func repeatRounds(until failure: Remembered<(any Error)?>) async {
        var pace = Pace(interval: .seconds(1))
        while !Task.isCancelled {
            do {
                try await sync()
                pace.recordSuccess()
            } catch {
                if Self.endsWait(error) {
                    failure.update { $0 = error }
                    return commits.signal.advance()
                }
                pace.recordFailure(retryAfterSeconds: (error as? TidemarkError)?.retryAfterSeconds)
            }
            await commits.signal.wait(beyond: .max, atMost: pace.pause(jitter: Pace.systemJitter()))
        }
    }
}
