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
    /// The changes before the last value; nil before the first one.
    private let lastCount = Mutex<UInt64?>(nil)

    init(of engine: SyncEngine, read: @escaping @Sendable (SyncEngine) async throws -> Value) {
        signal = engine.commits.signal
        outside = engine.outside
        self.read = { [weak engine] in
            guard let engine else { return nil }
            return try await read(engine)
        }
    }

    /// Returns the value now, or waits for a change and returns the value then; nil at the end of the stream.
    func next() async throws -> Value? {
        if let count = lastCount.withLock(\.self) { await outside.waitForChange(beyond: count) }
        guard !Task.isCancelled, !signal.isFinished else { return nil }
        // Both are older than the value, so no change after it goes unnoticed.
        try await outside.prepare()
        let count = signal.count
        let value = try await read()
        lastCount.withLock { $0 = count }
        return value
    }

    /// As ``next()``, but waits while the file cannot be read: the background sync reports why.
    func nextReadable() async -> Value? {
        while !Task.isCancelled, !signal.isFinished {
            do { return try await next() } catch { await signal.wait(beyond: .max, atMost: Self.retryPause) }
        }
        return nil
    }
}

extension LatestValues where Value: Equatable {
    /// As ``next()``, but leaves out a value equal to `last`, which it then sets.
    func next(otherThan last: Remembered<Value?>) async throws -> Value? {
        while let value = try await next() { if last.replace(by: value) { return value } }
        return nil
    }

    /// As ``nextReadable()``, but leaves out a value equal to `last`, which it then sets.
    func nextReadable(otherThan last: Remembered<Value?>) async -> Value? {
        while let value = await nextReadable() { if last.replace(by: value) { return value } }
        return nil
    }
}

extension Remembered {
    /// Remembers a value, and returns whether it is another one than before.
    fileprivate func replace<Wrapped: Equatable>(by value: Wrapped) -> Bool where Value == Wrapped? {
        update { last in
            defer { last = value }
            return last != value
        }
    }
}
