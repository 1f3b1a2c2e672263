internal import Synchronization

/// Whether the server wants more requests: not any more once it has been told to stop.
final class Readiness: Sendable {
    private let stopping = Mutex(false)

    /// Whether it is on its way down.
    var isStopping: Bool { stopping.withLock { $0 } }

    /// Tells load balancers from now on to send requests elsewhere; all that come are answered.
    func stop() { stopping.withLock { $0 = true } }
}
