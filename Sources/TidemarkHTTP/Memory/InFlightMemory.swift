internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TidemarkCore
internal import TidemarkServer

/// The memory of requests and answers in flight: the shell around ``MemoryBudget``, in which
/// bodies wait for their turn.
///
/// Safe to use from any task.
final class InFlightMemory: Sendable {
    /// What a byte of a body counts for: the body is held whole, and as much again is used while
    /// it is staged.
    static let bodyMultiple = 2
    /// How long a body waits for room before it is refused.
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

    /// Makes a memory of which nothing is taken.
    init(limits: Limits, metrics: ServerMetrics) {
        state = Mutex(State(budget: MemoryBudget(bounds: Self.bounds(limits))))
        bytesMax = limits.inFlightBytesMax
        self.metrics = metrics
        eventLoop = MultiThreadedEventLoopGroup.singleton.any()
    }

    /// Checks that the largest body that the limits allow fits into the memory that they allow.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it does not: it would be refused for ever.
    static func check(_ limits: Limits) throws(TidemarkError) {
        let bounds = bounds(limits)
        guard !bounds.areSufficient else { return }
        let needed = ((bounds.bodyBytesMax * 8 / 7) >> 20) + 1
        throw TidemarkError(
            .invalidArgument,
            "\(limits.inFlightBytesMax >> 20) MiB of memory for requests in flight do not hold the largest request.",
            fix: "Allow at least \(needed) MiB, or take smaller requests."
        )
    }

    /// Begins the share of one exchange, which ends when nobody holds it any more.
    func share() -> MemoryShare { MemoryShare(memory: self, ticket: state.withLock { $0.budget.open() }) }

    private static func bounds(_ limits: Limits) -> MemoryBudget.Bounds {
        MemoryBudget.Bounds(bytesMax: limits.inFlightBytesMax, bodyBytesMax: bodyMultiple * limits.requestBytesMax)
    }

    /// The refusal of an exchange for which there is no room.
    private func noRoom() -> Refusal {
        metrics.refusedForMemory()
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

    /// Ends a wait that has lasted too long, unless it is over already.
    private func giveUp(_ ticket: MemoryBudget.Ticket, _ wait: UInt64) {
        let waiter: Waiter? = state.withLock { state in
            guard state.waiters[ticket]?.wait == wait, state.budget.leave(ticket) else { return nil }
            return state.waiters.removeValue(forKey: ticket)
        }
        waiter?.continuation.resume(returning: false)
    }

    /// Changes the budget; all who have room now go on.
    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, admitted, change) = state.withLock { state in
            let before = state.budget.bytes
            let result = body(&state)
            let admitted = state.budget.admit().compactMap { state.waiters.removeValue(forKey: $0) }
            return (result, admitted, state.budget.bytes - before)
        }
        if change != 0 { metrics.memory(changedBy: change) }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
        return result
    }
}

/// The memory of one exchange, from the first byte of its request to the last byte of its answer.
///
/// It is given back when nobody holds it any more: after the last byte, when the client hangs up,
/// when a route throws, when a task is cancelled.
final class MemoryShare: Sendable {
    private let memory: InFlightMemory
    private let ticket: MemoryBudget.Ticket

    fileprivate init(memory: InFlightMemory, ticket: MemoryBudget.Ticket) {
        self.memory = memory
        self.ticket = ticket
    }

    deinit { memory.close(ticket) }

    /// Asks for the memory of a body of so many bytes, and waits a while if there is none.
    ///
    /// - Throws: The refusal, when there is still none.
    func grow(toBody bytes: Int) async throws(Refusal) {
        try await memory.grow(ticket, to: InFlightMemory.bodyMultiple * bytes)
    }

    /// The body has been read.
    func finishReading() { memory.finishReading(ticket) }

    /// Keeps as much as an answer of so many bytes takes, instead of what the request took.
    ///
    /// - Throws: The refusal, when there is no room.
    func answer(bytes: Int) throws(Refusal) { try memory.answer(ticket, bytes: bytes) }

    /// Gives the memory back before the exchange ends.
    func giveBack() { memory.close(ticket) }
}
