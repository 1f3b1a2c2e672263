internal import Synchronization

/// Whether the server wants more requests; false after a signal to stop.
final class Readiness: Sendable {
    private let stopping = Mutex(false)

    /// Whether the server is stopping.
    var isStopping: Bool { stopping.withLock { $0 } }

    /// Marks the server as stopping, so that load balancers avoid it; it still answers requests.
    func stop() { stopping.withLock { $0 = true } }
}
