internal import TidemarkCore
internal import TidemarkServer

/// Asks the store whether it answers, within a bound.
///
/// One question is under way at a time, however many clients check: a store that stalls holds one
/// connection and one task, not one for each check. `waiting` are the checks that wait for the
/// question under way. Once that is late, checks are answered at once, until the store answers.
actor StoreCheck {
    private let service: any SyncService
    private let clock: any Clock<Duration>
    private let patience: Duration
    private var waiting: [CheckedContinuation<Void, any Error>] = []
    private var isUnderWay = false
    private var isLate = false
    /// Counts the questions, so that a timer does not end a later one.
    private var number = 0

    /// Makes a check that has asked nothing yet.
    ///
    /// - Parameters:
    ///   - service: The store.
    ///   - patience: How long the store may take.
    ///   - clock: Measures it.
    init(_ service: any SyncService, patience: Duration, clock: any Clock<Duration>) {
        self.service = service
        self.patience = patience
        self.clock = clock
    }

    /// Returns when the store has answered.
    ///
    /// - Throws: What the store says; `unavailable` when it has not answered in time.
    func run() async throws {
        if isLate { throw late }
        try await withCheckedThrowingContinuation { continuation in
            waiting.append(continuation)
            if !isUnderWay { ask() }
        }
    }

    private func ask() {
        isUnderWay = true
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
            isUnderWay = false
            isLate = false
            answer(result)
        }
    }

    private func giveUp(on number: Int) {
        guard isUnderWay, self.number == number else { return }
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
            .unavailable,
            "It has not answered for \(patience.components.seconds) s.",
            fix: "Look at the database or the disk; the server goes on when they answer."
        )
    }
}
