import Synchronization

/// A clock that stands still until a test moves it.
package final class TestClock: Sendable {
    private let milliseconds = Mutex<Int64>(1_790_000_000_000)

    package init() {}

    /// The time, in milliseconds since 1970.
    package var now: Int64 { milliseconds.withLock { $0 } }

    /// Moves the time on.
    package func advance(days: Int64) { milliseconds.withLock { $0 += days * 86_400_000 } }
}
