import Synchronization

/// Counts the changes after which a stream of state may have another value, and wakes the readers that wait.
///
/// It holds no values: a reader that wakes reads the present one. So a slow reader misses outdated values only. Without
/// readers, a change costs one increment. Safe to use from any task.
final class ChangeSignal: Sendable {
    private struct State {
        var count: UInt64 = 0
        var isFinished = false
        var nextReader: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
        /// The readers whose time was over before they waited.
        var late: Set<UInt64> = []
    }

    private let state = Mutex(State())
    var count: UInt64 { state.withLock(\.count) }
    var isFinished: Bool { state.withLock(\.isFinished) }

    func advance() { wakeAll { $0.count += 1 } }

    /// Wakes all readers for good.
    func finish() { wakeAll { $0.isFinished = true } }

    private func wakeAll(_ change: (inout State) -> Void) {
        let waiting = state.withLock { state in
            change(&state)
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for reader in waiting { reader.resume() }
    }

    /// Waits until there are more changes than `count`, the time is over, or the task is cancelled.
    func wait(beyond count: UInt64, atMost pause: Duration? = nil) async {
        let reader = state.withLock { state in
            state.nextReader += 1
            return state.nextReader
        }
        let timer = pause.map { pause in
            Task { [self] in
                // Cancellation means that the wait has ended already.
                do { try await Task.sleep(for: pause) } catch { return }
                wake(reader)
            }
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    let isLate = state.late.remove(reader) != nil
                    if isLate || state.count > count || state.isFinished || Task.isCancelled { return true }
                    state.waiting[reader] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            wake(reader)
        }
        timer?.cancel()
        state.withLock { _ = $0.late.remove(reader) }
    }

    private func wake(_ reader: UInt64) {
        let waiting = state.withLock { state in
            let waiting = state.waiting.removeValue(forKey: reader)
            if waiting == nil { state.late.insert(reader) }
            return waiting
        }
        waiting?.resume()
    }
}
