import Foundation

/// A door that is open until a test closes it, to hold up a store.
///
/// Only for threads that may block, such as a database's.
public final class Latch: @unchecked Sendable {
    // All state is used under the condition's lock.
    private let condition = NSCondition()
    private var isOpen = true
    private let arrivals = AsyncStream.makeStream(of: Void.self)

    /// Makes an open door.
    public init() {}

    /// Closes the door.
    public func close() { condition.withLock { isOpen = false } }

    /// Opens the door.
    public func open() {
        condition.withLock {
            isOpen = true
            condition.broadcast()
        }
    }

    /// A clock that stands still, and whose reader must pass the door.
    @Sendable public func passing() -> Int64 {
        condition.lock()
        defer { condition.unlock() }
        if !isOpen { arrivals.continuation.yield() }
        while !isOpen { condition.wait() }
        return 1_700_000_000_000
    }

    /// Returns once a thread has come to the closed door.
    public func somebodyWaits() async { for await _ in arrivals.stream { break } }
}
