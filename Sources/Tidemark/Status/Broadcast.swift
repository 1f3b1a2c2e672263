import Synchronization

/// Sends values to any number of streams from any task; a slow reader loses the oldest and never blocks the engine.
final class Broadcast<Value: Sendable>: Sendable {
    private struct State {
        var next = 0
        var readers: [Int: AsyncStream<Value>.Continuation] = [:]
    }

    private let state = Mutex(State())

    /// Returns a stream of the values sent from now on, with a buffer of 1,000 values.
    func stream() -> AsyncStream<Value> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1_000)) { continuation in
            let number = state.withLock { state -> Int in
                state.next += 1
                state.readers[state.next] = continuation
                return state.next
            }
            continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.readers[number] = nil } }
        }
    }

    func send(_ value: Value) { for reader in state.withLock({ Array($0.readers.values) }) { reader.yield(value) } }

    /// Ends the streams handed out so far.
    func finish() {
        let readers = state.withLock { state in
            defer { state.readers = [:] }
            return state.readers.values
        }
        for reader in readers { reader.finish() }
    }
}
