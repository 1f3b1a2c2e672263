import Foundation
import Synchronization
package import TidemarkCore

/// The thread of a bus, and its queue: the latest unsent revision of each zone.
///
/// It runs until ``stop()``. After a failure it reconnects, with growing pauses.
package final class BusThread: Sendable {
    private struct State {
        /// The latest unsent revision of each zone.
        var pending: [String: ZoneRevision] = [:]
        /// The last revision of each zone that the thread took from ``pending``.
        var last: [String: ZoneRevision] = [:]
        var isStopped = false
    }

    /// The pauses before a reconnection, in milliseconds.
    private static let pauses: (first: Int32, max: Int32) = (100, 5_000)

    private let state = Mutex(State())
    /// The end of a pipe that wakes the thread when it is written.
    private let waker: Int32
    /// The end of the pipe that is readable when the thread has work.
    package let sleeper: Int32

    /// Makes a thread that has not started.
    package init() {
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

    /// Whether ``stop()`` was called.
    package var isStopped: Bool { state.withLock(\.isStopped) }

    /// Runs `work` on a thread of its own, and again whenever it throws.
    ///
    /// `work` calls its argument when it is connected, which resets the pause.
    package func start(_ work: @escaping @Sendable (_ isConnected: () -> Void) throws -> Void) {
        Thread.detachNewThread { self.run(work) }
    }

    /// Ends the thread soon.
    package func stop() {
        state.withLock { $0.isStopped = true }
        wake()
    }

    /// Queues a revision, unless it is not new.
    package func tell(_ revision: ZoneRevision) {
        let isNew = state.withLock { state in
            guard revision.isNews(to: state.last[revision.zone]), revision.isNews(to: state.pending[revision.zone])
            else { return false }
            state.pending[revision.zone] = revision
            return true
        }
        if isNew { wake() }
    }

    /// Takes the pending revisions, on the thread.
    package func takePending() -> [ZoneRevision] {
        drainPipe()
        return state.withLock { state in
            let pending = state.pending
            state.pending.removeAll()
            state.last.merge(pending) { $1 }
            return pending.values.sorted { $0.zone < $1.zone }
        }
    }

    // MARK: Private

    private func run(_ work: (_ isConnected: () -> Void) throws -> Void) {
        var pause = Self.pauses.first
        while !isStopped {
            do { try work { pause = Self.pauses.first } } catch {
                // A lost message does no harm: a timer also checks zones that have listeners.
                rest(pause)
                pause = min(pause * 2, Self.pauses.max)
            }
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
