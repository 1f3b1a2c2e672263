import Foundation
package import GRDB
import Synchronization
import TidemarkCore

/// Notes where the app's own transactions end, so that each becomes a change set, and wakes the
/// background loop for them, or for what the server hints at.
///
/// It notes the first and the last number that capture's triggers have taken. What it knows is lost
/// with the process; then neighbouring transactions go together, which is still atomic.
package final class CommitObserver: TransactionObserver, Sendable {
    /// State: everything under one lock.
    ///
    /// Written on GRDB's writer queue, read by the engine.
    private struct State {
        /// The first number that was captured in the transaction that is open; nil: nothing was.
        var first: Int64?
        var known = KnownTransactions()
        var hasNews = false
        var waiter: CheckedContinuation<Void, Never>?
        /// Whether the pause was over before anybody waited for it.
        var isOver = false
        /// What the server has told last, and nobody has looked at.
        var hint: Hint?
        /// Whether a commit wakes the waiter, or a hint, or the end of its pause alone.
        var wakesWithEdit = true
        var wakesWithHint = false
    }

    private let state = Mutex(State())

    /// Makes an observer that has seen nothing.
    package init() {}

    package func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        if case .insert(let table) = eventKind { return table == "tidemark_capture" }
        return false
    }

    package func databaseDidChange(with event: DatabaseEvent) {
        let number = event.rowID
        // Those of a statement that failed are given out again, so the lowest is the first.
        state.withLock { $0.first = min($0.first ?? number, number) }
    }

    package func databaseDidCommit(_ db: Database) {
        guard let first = state.withLock(\.first) else { return }
        let last = lastCaptured(db)
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.first = nil
            if let last { state.known.note(first: first, last: last) }
            state.hasNews = true
            guard state.wakesWithEdit else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    package func databaseDidRollback(_ db: Database) { state.withLock { $0.first = nil } }

    /// The number of the last captured change that waits in the file; nil: none does.
    ///
    /// The numbers of a statement that failed are given out again, and nobody tells of that; so
    /// what its rows were numbered is not believed.
    private func lastCaptured(_ db: Database) -> Int64? {
        do { return try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(seq) FROM tidemark_capture")) } catch {
            // An end that is not noted unites neighbours. What is wrong, the next sync will say.
            return nil
        }
    }

    /// The transactions noted so far.
    ///
    /// They stay noted: a drain that is rolled back needs them again, and numbers are never reused.
    package func takeBoundaries() -> KnownTransactions {
        state.withLock { state in
            state.hasNews = false
            state.known.forgetOldest()
            return state.known
        }
    }

    /// Wakes the waiter for what another program has written.
    package func wakeForEdit() {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.hasNews = true
            guard state.wakesWithEdit else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Notes what the server says that the zone is at.
    package func hear(_ hint: Hint) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.hint = hint
            guard state.wakesWithHint else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// What the server has told since the last call; nil: nothing.
    package func takeHint() -> Hint? {
        state.withLock { state in
            defer { state.hint = nil }
            return state.hint
        }
    }

    /// Returns after the next commit of captured changes, if `orEdit`, or with a hint of the
    /// server, if `orHint`, or after a pause, or on cancellation.
    package func wait(atMost pause: Duration, orEdit: Bool, orHint: Bool = false) async {
        state.withLock { $0.isOver = false }
        let timer = Task { [self] in
            // Cancelled, it has been waited for, or the waiting itself was cancelled.
            do { try await Task.sleep(for: pause) } catch { return }
            wake()
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDue = state.withLock { state -> Bool in
                    if orEdit && state.hasNews || orHint && state.hint != nil || state.isOver || Task.isCancelled {
                        return true
                    }
                    state.waiter = continuation
                    state.wakesWithEdit = orEdit
                    state.wakesWithHint = orHint
                    return false
                }
                if isDue { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
        timer.cancel()
    }

    private func wake() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            state.isOver = true
            return state.waiter
        }
        waiter?.resume()
    }
}
