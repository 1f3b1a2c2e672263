import NIOConcurrencyHelpers

/// A clock that stands still until a test moves it.
final class StoppedClock: Clock {
    struct Instant: InstantProtocol {
        var offset = Duration.zero

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
    }

    private struct State {
        var now = Instant()
        var sleepers: [Int: (until: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var number = 0
        var watchers: [CheckedContinuation<Void, Never>] = []
    }

    private let state = NIOLockedValueBox(State())

    var now: Instant { state.withLockedValue(\.now) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let number = state.withLockedValue { state in
            state.number += 1
            return state.number
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let watchers = state.withLockedValue { state in
                    defer { state.watchers = [] }
                    state.sleepers[number] = (deadline, continuation)
                    return state.watchers
                }
                for watcher in watchers { watcher.resume() }
                if Task.isCancelled { wake(number, throwing: CancellationError()) }
            }
        } onCancel: {
            wake(number, throwing: CancellationError())
        }
    }

    private func wake(_ number: Int, throwing error: any Error) {
        let sleeper = state.withLockedValue { $0.sleepers.removeValue(forKey: number) }
        sleeper?.continuation.resume(throwing: error)
    }

    /// Returns when a task sleeps on this clock.
    func untilSomebodySleeps() async {
        await withCheckedContinuation { continuation in
            let isAsleep = state.withLockedValue { state in
                if state.sleepers.isEmpty { state.watchers.append(continuation) }
                return !state.sleepers.isEmpty
            }
            if isAsleep { continuation.resume() }
        }
    }

    /// Moves the clock, and wakes the tasks that are due.
    func advance(by duration: Duration) {
        let woken = state.withLockedValue { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.until <= state.now }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }
}
