internal import TidemarkCore
internal import TidemarkEngine

/// Checks within a time bound that the store answers.
///
/// Only one probe runs at a time, however many clients check. So a stalled store holds one connection and one task. The
/// checks in `waiting` wait for the current probe. Once it is late, checks fail at once, until the store answers.
actor StoreCheck {
    private let service: any SyncService
    private let clock: any Clock<Duration>
    private let patience: Duration
    private var waiting: [CheckedContinuation<Void, any Error>] = []
    private var isProbing = false
    private var isLate = false
    /// Counts the probes, so that a timer does not end a later one.
    private var number = 0

    /// Creates a check that has not probed the store yet; the `clock` measures the `patience` with the store.
    init(_ service: any SyncService, patience: Duration, clock: any Clock<Duration>) {
        self.service = service
        self.patience = patience
        self.clock = clock
    }

    /// Returns when the store has answered; throws its error, or `unavailable` if it does not answer in time.
    func run() async throws {
        if isLate { throw late }
        try await withCheckedThrowingContinuation { continuation in
            waiting.append(continuation)
            if !isProbing { probe() }
        }
    }

    private func probe() {
        isProbing = true
        number += 1
        let number = number
        let timer = Task {
            do { try await clock.sleep(for: patience) } catch { return }
            giveUp(on: number)
        }
        Task {
            let result: Result<Void, any Error>
            do { result = .success(try await service.probe()) } catch { result = .failure(error) }
            timer.cancel()
            isProbing = false
            isLate = false
            answer(result)
        }
    }

    private func giveUp(on number: Int) {
        guard isProbing, self.number == number else { return }
        isLate = true
        answer(.failure(late))
    }

    private func answer(_ result: Result<Void, any Error>) {
        let all = waiting
        waiting = []
        for continuation in all { continuation.resume(with: result) }
    }

    private var late: TidemarkError {
        TidemarkError(
            .unavailable, "It has not answered for \(patience.components.seconds) s.",
            fix: "Check the database or the disk; the server continues when they answer.")
    }
}
