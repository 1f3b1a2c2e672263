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
        /// The server's last hint, until the engine takes it.
        var hint: Hint?
        /// Whether the engine's pause is over for another reason.
        var isOver = false
    }

    private let state = Mutex(State())
    /// Counts the commits of this database, and other changes of the engine's state.
    let signal = ChangeSignal()
    /// Counts what may end a pause of the engine.
    private let wakes = ChangeSignal()

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
        state.withLock { state in
            state.first = nil
            if let last { state.transactions.append(first: first, last: last) }
        }
        wakeForEdit()
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

    /// Wakes the engine for a write, of this program or another one.
    package func wakeForEdit() {
        state.withLock { $0.hasNews = true }
        wakes.advance()
    }

    package func hear(_ hint: Hint) {
        state.withLock { $0.hint = hint }
        wakes.advance()
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
        let end = ContinuousClock.now + pause
        state.withLock { $0.isOver = false }
        while !Task.isCancelled {
            let count = wakes.count
            let isDue = state.withLock { orEdit && $0.hasNews || orHint && $0.hint != nil || $0.isOver }
            let rest = end - .now
            guard !isDue, rest > .zero else { return }
            await wakes.wait(beyond: count, atMost: rest)
        }
    }

    func wake() {
        state.withLock { $0.isOver = true }
        wakes.advance()
    }
}

/// An event of the server about a new revision.
package struct Hint: Hashable, Sendable {
    package let end: ZoneRevision
    /// The change that led to it, if the server pushed it.
    package var change: PushedChange?

    package init(end: ZoneRevision, change: PushedChange? = nil) {
        self.end = end
        self.change = change
    }
}
