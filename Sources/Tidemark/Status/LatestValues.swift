import GRDB
import Synchronization

/// One reader of a stream of state: the value now, and then the latest value after each change.
///
/// Each value is read when the reader asks for it, so it is true when the stream says it, and no value waits for a
/// slow reader. A change is a commit of this process, which the signal announces, or a commit of another process.
/// SQLite's `data_version` tells of the second kind, and the reader polls it while it waits. An app without readers
/// pays nothing for either.
final class LatestValues<Value: Sendable>: Sendable {
    private struct Place {
        /// The changes before the last value; nil before the first one.
        var count: UInt64?
        /// SQLite's `data_version` before the last value.
        var version: Int64?
    }

    /// The longest time until a commit of another process is noticed.
    private static var pollPause: Duration { .milliseconds(100) }
    /// The pause after which an unreadable file is read again.
    private static var retryPause: Duration { .seconds(1) }
    private let database: any DatabaseWriter
    private let signal: ChangeSignal
    private let read: @Sendable () async throws -> Value?
    private let place = Mutex(Place())

    /// Creates a reader; `read` returns nil when its source is gone.
    init(
        of database: any DatabaseWriter, after signal: ChangeSignal, read: @escaping @Sendable () async throws -> Value?
    ) {
        self.database = database
        self.signal = signal
        self.read = read
    }

    /// Returns the value now, or waits for a change and returns the value then; nil at the end of the stream.
    func next() async throws -> Value? {
        if let count = place.withLock(\.count), try await !change(after: count) { return nil }
        guard !Task.isCancelled else { return nil }
        // Both are older than the value, so no change after it goes unnoticed.
        let count = signal.count
        let version = try await dataVersion()
        let value = try await read()
        place.withLock { $0 = Place(count: count, version: version) }
        return value
    }

    /// As ``next()``, but waits while the file cannot be read: the background sync reports why.
    func nextReadable() async -> Value? {
        while !Task.isCancelled, !signal.isFinished {
            do { return try await next() } catch { await signal.wait(beyond: signal.count, atMost: Self.retryPause) }
        }
        return nil
    }

    /// Waits for a change, and returns false if none will follow.
    private func change(after count: UInt64) async throws -> Bool {
        while !Task.isCancelled, !signal.isFinished {
            await signal.wait(beyond: count, atMost: Self.pollPause)
            if signal.count > count { return true }
            guard !Task.isCancelled, !signal.isFinished else { return false }
            if try await dataVersion() != place.withLock(\.version) { return true }
        }
        return false
    }

    /// The writer's connection sees the version change with the commits of all other connections only.
    private func dataVersion() async throws -> Int64? {
        try await database.writeWithoutTransaction { db in try Int64.fetchOne(db, cached: "PRAGMA data_version") }
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

extension AsyncStream where Element: Sendable {
    /// A stream of state that waits while the file cannot be read.
    init(_ values: LatestValues<Element>) { self.init(unfolding: { await values.nextReadable() }) }
}
