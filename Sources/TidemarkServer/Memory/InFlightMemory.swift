internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TidemarkCore
internal import TidemarkEngine

/// The memory of requests and answers in flight.
///
/// The asynchronous shell around ``MemoryBudget``, in which bodies wait for memory. Safe to use from any
/// task.
final class InFlightMemory: Sendable {
    /// The bytes to reserve per byte of a body: the body itself, and as much again for its staging.
    static let bodyMultiple = 2
    /// How long a body waits for memory before the server refuses it.
    private static let waitMax = TimeAmount.seconds(2)

    private struct State {
        var budget: MemoryBudget
        var waiters: [MemoryBudget.Ticket: Waiter] = [:]
        var waits: UInt64 = 0
    }

    private struct Waiter {
        let wait: UInt64
        let continuation: CheckedContinuation<Bool, Never>
    }

    private let state: Mutex<State>
    private let bytesMax: Int
    private let metrics: ServerMetrics
    private let eventLoop: any EventLoop

    /// Creates an unused memory.
    init(limits: Limits, metrics: ServerMetrics) {
        state = Mutex(State(budget: MemoryBudget(bounds: Self.bounds(limits))))
        bytesMax = limits.inFlightBytesMax
        self.metrics = metrics
        eventLoop = MultiThreadedEventLoopGroup.singleton.any()
    }

    /// Checks that the largest body fits into the memory; otherwise the server would always refuse it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if it does not fit.
    static func check(_ limits: Limits) throws(TidemarkError) {
        let bounds = bounds(limits)
        guard !bounds.areSufficient else { return }
        let needed = ((bounds.bodyBytesMax * 8 / 7) >> 20) + 1
        throw TidemarkError(
            .invalidArgument,
            "\(limits.inFlightBytesMax >> 20) MiB of memory for requests in flight do not hold the largest request.",
            fix: "Allow at least \(needed) MiB, or lower the largest request."
        )
    }

    /// Begins the share of one exchange, which ends when it is released.
    func share() -> MemoryShare { MemoryShare(memory: self, ticket: state.withLock { $0.budget.open() }) }

    private static func bounds(_ limits: Limits) -> MemoryBudget.Bounds {
        MemoryBudget.Bounds(bytesMax: limits.inFlightBytesMax, bodyBytesMax: bodyMultiple * limits.requestBytesMax)
    }

    /// Counts and returns the refusal of an exchange without memory.
    private func noRoom() -> Refusal {
        metrics.recordMemoryRefusal()
        return Refusal(
            .unavailable,
            "Other requests and answers take the \(bytesMax >> 20) MiB of memory that the server has for them.",
            fix: "Try again later. Small requests get through sooner."
        )
    }
}

extension InFlightMemory {
    fileprivate func grow(_ ticket: MemoryBudget.Ticket, to bytes: Int) async throws(Refusal) {
        let isGranted = await withCheckedContinuation { continuation in
            let wait: UInt64? = change { state in
                guard !state.budget.grow(ticket, to: bytes) else { return nil }
                state.waits += 1
                state.waiters[ticket] = Waiter(wait: state.waits, continuation: continuation)
                return state.waits
            }
            guard let wait else { return continuation.resume(returning: true) }
            eventLoop.scheduleTask(in: Self.waitMax) { self.giveUp(ticket, wait) }
        }
        guard isGranted else { throw noRoom() }
    }

    fileprivate func finishReading(_ ticket: MemoryBudget.Ticket) { change { $0.budget.finishReading(ticket) } }

    fileprivate func answer(_ ticket: MemoryBudget.Ticket, bytes: Int) throws(Refusal) {
        guard change({ $0.budget.answer(ticket, bytes: bytes) }) else { throw noRoom() }
    }

    fileprivate func close(_ ticket: MemoryBudget.Ticket) { change { $0.budget.close(ticket) } }

    /// Ends a wait at its timeout, unless it is over already.
    private func giveUp(_ ticket: MemoryBudget.Ticket, _ wait: UInt64) {
        let waiter: Waiter? = state.withLock { state in
            guard state.waiters[ticket]?.wait == wait, state.budget.leave(ticket) else { return nil }
            return state.waiters.removeValue(forKey: ticket)
        }
        waiter?.continuation.resume(returning: false)
    }

    /// Changes the budget, then resumes the waiters that fit now.
    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, admitted, change) = state.withLock { state in
            let before = state.budget.bytes
            let result = body(&state)
            let admitted = state.budget.admit().compactMap { state.waiters.removeValue(forKey: $0) }
            return (result, admitted, state.budget.bytes - before)
        }
        if change != 0 { metrics.changeMemory(by: change) }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
        return result
    }
}

/// The memory of one exchange, from the first byte of its request to the last byte of its answer.
///
/// Its release returns the memory: after the last byte, if the client disconnects, if a route throws,
/// or if a task is cancelled.
final class MemoryShare: Sendable {
    private let memory: InFlightMemory
    private let ticket: MemoryBudget.Ticket

    fileprivate init(memory: InFlightMemory, ticket: MemoryBudget.Ticket) {
        self.memory = memory
        self.ticket = ticket
    }

    deinit { memory.close(ticket) }

    /// Reserves memory for a body of `bytes`, and waits a while if there is none.
    ///
    /// - Throws: The refusal after the wait.
    func grow(toBody bytes: Int) async throws(Refusal) {
        try await memory.grow(ticket, to: InFlightMemory.bodyMultiple * bytes)
    }

    /// Fixes the share after the last byte of the body.
    func finishReading() { memory.finishReading(ticket) }

    /// Replaces the request's memory by the memory of an answer of `bytes`.
    ///
    /// - Throws: The refusal, if there is no memory.
    func answer(bytes: Int) throws(Refusal) { try memory.answer(ticket, bytes: bytes) }

    /// Returns the memory before the exchange ends.
    func giveBack() { memory.close(ticket) }
}
