import Foundation
import Synchronization
package import TidemarkCore

/// The thread of a bus, with what it has still to tell, the latest of each zone.
///
/// It lives until ``stop()``: whatever breaks is made anew, after growing pauses.
package final class BusThread: Sendable {
    private struct State {
        /// What is to be told, the latest of each zone.
        var pending: [String: ZoneRevision] = [:]
        /// What has been told.
        var told: [String: ZoneRevision] = [:]
        var isStopped = false
    }

    /// The pauses before a lost connection is made anew, in milliseconds.
    private static let pauses: (first: Int32, max: Int32) = (100, 5_000)

    private let state = Mutex(State())
    /// A pipe by which the thread is woken.
    private let waker: Int32
    /// Can be read when the thread has something to do.
    package let sleeper: Int32

    /// Makes a thread that has not begun.
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

    /// Whether the thread is to end.
    package var isStopped: Bool { state.withLock(\.isStopped) }

    /// Runs `work` on a thread of its own, again whenever it throws; it says when it is connected.
    package func start(_ work: @escaping @Sendable (_ isConnected: () -> Void) throws -> Void) {
        Thread.detachNewThread { self.run(work) }
    }

    /// Ends the thread soon.
    package func stop() {
        state.withLock { $0.isStopped = true }
        wake()
    }

    /// Has a revision told, unless it is no news.
    package func tell(_ revision: ZoneRevision) {
        let isNew = state.withLock { state in
            guard revision.isNews(to: state.told[revision.zone]), revision.isNews(to: state.pending[revision.zone])
            else { return false }
            state.pending[revision.zone] = revision
            return true
        }
        if isNew { wake() }
    }

    /// Takes what is to be told, on the thread.
    package func takePending() -> [ZoneRevision] {
        drainPipe()
        return state.withLock { state in
            let pending = state.pending
            state.pending.removeAll()
            state.told.merge(pending) { $1 }
            return pending.values.sorted { $0.zone < $1.zone }
        }
    }

    // MARK: Private

    private func run(_ work: (_ isConnected: () -> Void) throws -> Void) {
        var pause = Self.pauses.first
        while !isStopped {
            do { try work { pause = Self.pauses.first } } catch {
                // Nobody depends on it: zones that are listened to are looked at by a timer too.
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
        // A full pipe wakes as well.
        _ = write(waker, &byte, 1)
    }

    private func drainPipe() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(sleeper, &bytes, bytes.count) > 0 {}
    }
}
