import Foundation
import Synchronization
import TidemarkCore

/// Carries news of commits between the nodes of one database by PostgreSQL's `LISTEN` and `NOTIFY`.
///
/// Notifications are hints that may be late or lost; a timer also checks zones that have listeners. The bus has its own
/// connection and thread. It sends a notification after the commit, because PostgreSQL serializes the commits of
/// transactions that contain a `NOTIFY`. Safe to use from any task.
final class NotifyBus: Sendable {
    private struct State {
        /// The latest unsent revision of each zone.
        var pending: [String: ZoneRevision] = [:]
        /// The last revision of each zone that the thread took from ``pending``.
        var last: [String: ZoneRevision] = [:]
        var isStopped = false
    }

    /// The pauses before a reconnection, in milliseconds.
    private static let pauses: (first: Int32, max: Int32) = (100, 5_000)

    private let address: String
    private let state = Mutex(State())
    /// The end of a pipe that wakes the thread when it is written.
    private let waker: Int32
    /// The end of the pipe that is readable when the thread has work.
    private let sleeper: Int32

    init(address: String) {
        self.address = address
        var ends: [Int32] = [-1, -1]
        pipe(&ends)
        for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
        sleeper = ends[0]
        waker = ends[1]
    }

    deinit {
        close(waker)
        close(sleeper)
    }

    /// Starts the thread, which calls `hear` and runs until ``stop()``; `hear` must not wait.
    func start(_ hear: @escaping @Sendable (NodeNews) -> Void) { Thread.detachNewThread { self.run(hear) } }

    /// Sends a revision to the other nodes soon, unless it is not new; returns at once.
    func tell(_ revision: ZoneRevision) {
        let isNew = state.withLock { state in
            guard revision.isNews(to: state.last[revision.zone]), revision.isNews(to: state.pending[revision.zone])
            else { return false }
            state.pending[revision.zone] = revision
            return true
        }
        if isNew { wake() }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        wake()
    }

    private var isStopped: Bool { state.withLock(\.isStopped) }

    /// Listens, and connects again after a failure, with growing pauses.
    private func run(_ hear: (NodeNews) -> Void) {
        var pause = Self.pauses.first
        while !isStopped {
            do {
                let pg = try PostgresConnection(address)
                // A lost notification costs nothing, so the bus does not wait for the disk.
                try pg.execute("SET synchronous_commit = off; LISTEN tidemark")
                pause = Self.pauses.first
                while !isStopped { try exchange(pg, hear) }
            } catch {
                // A lost notification does no harm: a timer also checks zones that have listeners.
                rest(pause)
                pause = min(pause * 2, Self.pauses.max)
            }
        }
    }

    /// Waits for notifications or for revisions to send.
    private func exchange(_ pg: PostgresConnection, _ hear: (NodeNews) -> Void) throws {
        for message in try pg.notifications(or: sleeper, milliseconds: 60_000) {
            if let news = NodeNews(message) { hear(news) }
        }
        for revision in takePending() { try pg.query("SELECT pg_notify('tidemark', $1)", [NodeNews.message(revision)]) }
    }

    private func takePending() -> [ZoneRevision] {
        drainPipe()
        return state.withLock { state in
            let pending = state.pending
            state.pending.removeAll()
            state.last.merge(pending) { $1 }
            return pending.values.sorted { $0.zone < $1.zone }
        }
    }

    private func rest(_ milliseconds: Int32) {
        var file = pollfd(fd: sleeper, events: Int16(POLLIN), revents: 0)
        poll(&file, 1, milliseconds)
        drainPipe()
    }

    private func wake() {
        var byte: UInt8 = 0
        // A full pipe also wakes the thread.
        _ = write(waker, &byte, 1)
    }

    private func drainPipe() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(sleeper, &bytes, bytes.count) > 0 {}
    }
}
