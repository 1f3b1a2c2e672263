import Synchronization

/// A time that a test moves.
final class TestClock: Sendable {
    private let milliseconds: Mutex<Int64>

    init(_ start: Int64) { milliseconds = Mutex(start) }

    /// The time, in milliseconds.
    var now: @Sendable () -> Int64 { { [self] in milliseconds.withLock { $0 } } }

    /// Moves the time on.
    func advance(seconds: Int64) { milliseconds.withLock { $0 += seconds * 1_000 } }
}
