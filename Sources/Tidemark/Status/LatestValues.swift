import Synchronization

/// One reader of a stream of state: the value now, and then the latest value after each change.
///
/// Each value is read when the reader asks for it, so it is true when the stream says it, and no value waits for a
/// slow reader. A change is a commit of this process, which the signal announces, or one of another process, for which
/// all readers of an engine share one poll. An app without readers pays nothing for either.
final class LatestValues<Value: Sendable>: Sendable {
    /// The pause after which an unreadable file is read again.
    private static var retryPause: Duration { .seconds(1) }
    private let signal: ChangeSignal
    private let outside: OutsideCommits
    private let read: @Sendable () async throws -> Value?
    private let isRepetition: @Sendable (Value, Value) -> Bool
    /// The last value, and the changes before it; nil before the first one.
    private let last = Mutex<(value: Value, count: UInt64)?>(nil)

    /// Leaves out each value that is a repetition of the one before it.
    init(
        of engine: SyncEngine, without isRepetition: @escaping @Sendable (Value, Value) -> Bool = { _, _ in false },
        read: @escaping @Sendable (SyncEngine) async throws -> Value
    ) {
        signal = engine.commits.signal
        outside = engine.outside
        self.isRepetition = isRepetition
        self.read = { [weak engine] in
            guard let engine else { return nil }
            return try await read(engine)
        }
    }

    /// Returns the value now, or waits for a change and returns the value then; nil at the end of the stream.
    func next() async throws -> Value? {
        while true {
            let former = last.withLock(\.self)
            if let former { await outside.waitForChange(beyond: former.count) }
            guard !Task.isCancelled, !signal.isFinished else { return nil }
            // Both are older than the value, so no change after it goes unnoticed.
            try await outside.prepare()
            let count = signal.count
            guard let value = try await read() else { return nil }
            last.withLock { $0 = (value, count) }
            if let former, isRepetition(former.value, value) { continue }
            return value
        }
    }

    /// As ``next()``, but waits while the file cannot be read: the background sync reports why.
    func nextReadable() async -> Value? {
        while !Task.isCancelled, !signal.isFinished {
            do { return try await next() } catch { await signal.wait(beyond: .max, atMost: Self.retryPause) }
        }
        return nil
    }
}
