import Foundation
package import GRDB
import Synchronization
import TidemarkCore

/// Records the boundaries of the app's transactions, and wakes the background loop.
///
/// Each recorded transaction becomes a change set. A boundary is the first and the last number that
/// the capture triggers have used. The list is lost with the process; then adjacent transactions are
/// combined, which is still atomic. A commit or a hint of the server wakes the loop.
package final class CommitObserver: TransactionObserver, Sendable {
    /// The state under the mutex, written on GRDB's writer queue and read by the engine.
    private struct State {
        /// The first number captured in the open transaction; nil if there is none.
        var first: Int64?
        var transactions = KnownTransactions()
        var hasNews = false
        var waiter: CheckedContinuation<Void, Never>?
        /// Whether the pause ended before the engine waited for it.
        var isOver = false
        /// The server's last hint, until the engine takes it.
        var hint: Hint?
        var wakesWithEdit = true
        var wakesWithHint = false
    }

    private let state = Mutex(State())
    /// Counts the commits of this database, and other changes of the engine's state.
    let signal = ChangeSignal()

    package init() {}

    package func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        if case .insert(let table) = eventKind { return table == "tidemark_capture" }
        return false
    }

    package func databaseDidChange(with event: DatabaseEvent) {
        let number = event.rowID
        // SQLite reuses the numbers of a failed statement, so the lowest is the first.
        state.withLock { $0.first = min($0.first ?? number, number) }
    }

    package func databaseDidCommit(_ db: Database) {
        signal.advance()
        guard let first = state.withLock(\.first) else { return }
        let last = lastCaptured(db)
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.first = nil
            if let last { state.transactions.append(first: first, last: last) }
            state.hasNews = true
            guard state.wakesWithEdit else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    package func databaseDidRollback(_ db: Database) { state.withLock { $0.first = nil } }

    /// Reads the file, because SQLite reuses the numbers of a failed statement without an event; nil if there is none.
    private func lastCaptured(_ db: Database) -> Int64? {
        do { return try Int64.fetchOne(db, cached: "SELECT max(seq) FROM tidemark_capture") } catch {
            // A missing boundary combines adjacent transactions. The next sync reports the error.
            return nil
        }
    }

    /// Keeps the list, because a drain after a rollback needs it again; committed numbers are never reused.
    package func takeBoundaries() -> KnownTransactions {
        state.withLock { state in
            state.hasNews = false
            state.transactions.dropOldest()
            return state.transactions
        }
    }

    /// Wakes the waiter for a write of another program.
    package func wakeForEdit() {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.hasNews = true
            guard state.wakesWithEdit else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    package func hear(_ hint: Hint) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.hint = hint
            guard state.wakesWithHint else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Returns the server's last hint since the previous call; nil if there is none.
    package func takeHint() -> Hint? {
        state.withLock { state in
            defer { state.hint = nil }
            return state.hint
        }
    }

    /// Waits for a pause; with `orEdit`, a commit of captured changes ends it early, and with `orHint`, a hint.
    package func wait(atMost pause: Duration, orEdit: Bool, orHint: Bool = false) async {
        state.withLock { $0.isOver = false }
        let timer = Task { [self] in
            // Cancellation means that the wait has ended already.
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

    func wake() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            state.isOver = true
            return state.waiter
        }
        waiter?.resume()
    }
}
