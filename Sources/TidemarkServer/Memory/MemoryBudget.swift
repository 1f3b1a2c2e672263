internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TidemarkCore
internal import TidemarkEngine

/// Decides, without waiting, how much memory each request and answer in flight may use.
///
/// Every exchange has a share, from the first byte of its request to the last byte of its answer.
/// Small shares have a reserve that large ones cannot use. For the rest, one rule holds: the server can
/// always read the oldest unfinished body to its end. All other shares leave room for it. So bodies
/// that grow at the same time cannot block each other for ever.
struct MemoryBudget: Sendable {
    struct Bounds: Hashable, Sendable {
        let bytesMax: Int
        /// The share of the largest body.
        let bodyBytesMax: Int
        /// Shares up to this size are small.
        var smallBytesMax = 128 << 10
        /// The bytes that only small shares use.
        var reservedBytes: Int { bytesMax / 8 }
        var largeBytesMax: Int { bytesMax - reservedBytes }
        /// Whether the largest body fits.
        var areSufficient: Bool { largeBytesMax >= bodyBytesMax }
    }

    typealias Ticket = UInt64

    private struct Share {
        enum Phase { case reading, handled, answering }
        var bytes = 0
        var isLarge = false
        var phase = Phase.reading
    }

    private let bounds: Bounds
    private var shares: [Ticket: Share] = [:]
    private var tickets: Ticket = 0
    /// The large shares whose bodies are being read, oldest first.
    private var reading: [Ticket] = []
    /// The shares that wait for more memory, in order of their requests.
    private var waiting: [(ticket: Ticket, bytes: Int)] = []
    private var smallBytes = 0
    private var largeBytes = 0
    /// The bytes of large shares in phase `handled`, which become free soon.
    private var handledBytes = 0
    /// The bytes of large shares in phase `answering`.
    private var answeredBytes = 0

    init(bounds: Bounds) { self.bounds = bounds }

    var bytes: Int { smallBytes + largeBytes }

    mutating func open() -> Ticket {
        tickets += 1
        shares[tickets] = Share()
        return tickets
    }

    /// Grows the share of a body to `bytes`; if false, it waits until ``admit()`` returns it or ``leave(_:)`` ends it.
    mutating func grow(_ ticket: Ticket, to bytes: Int) -> Bool {
        if take(bytes, for: ticket) { return true }
        waiting.append((ticket, bytes))
        return false
    }

    /// Ends the wait of a share; returns whether it was waiting.
    mutating func leave(_ ticket: Ticket) -> Bool {
        guard let place = waiting.firstIndex(where: { $0.ticket == ticket }) else { return false }
        waiting.remove(at: place)
        return true
    }

    /// Marks the body as read; its share no longer grows.
    mutating func finishReading(_ ticket: Ticket) {
        guard var share = shares[ticket], share.phase == .reading else { return }
        discount(share, of: ticket)
        share.phase = .handled
        count(share, of: ticket)
    }

    /// Replaces a request's share by its answer's; false, without a change, if there is no room.
    ///
    /// An answer larger than the budget is allowed if no other large answer is being sent, or it could never be sent.
    mutating func answer(_ ticket: Ticket, bytes: Int) -> Bool {
        guard let old = shares[ticket] else { return false }
        discount(old, of: ticket)
        var share = Share(bytes: bytes, phase: .answering)
        let isSmall = bytes <= bounds.smallBytesMax && smallBytes + bytes <= bounds.reservedBytes
        share.isLarge = !isSmall
        let isSmaller = old.phase == .answering && bytes <= old.bytes
        let fits = isSmall || isSmaller || answeredBytes == 0 || hasRoom(for: bytes, besides: nil)
        count(fits ? share : old, of: ticket)
        return fits
    }

    mutating func close(_ ticket: Ticket) {
        guard let share = shares.removeValue(forKey: ticket) else { return }
        discount(share, of: ticket)
        shares[ticket] = nil
        _ = leave(ticket)
    }

    /// Grants memory to waiting shares that fit now, and returns them.
    mutating func admit() -> [Ticket] {
        var tickets: [Ticket] = []
        var rest: [(ticket: Ticket, bytes: Int)] = []
        for (ticket, bytes) in waiting {
            if take(bytes, for: ticket) { tickets.append(ticket) } else { rest.append((ticket, bytes)) }
        }
        waiting = rest
        return tickets
    }
}

extension MemoryBudget {
    private mutating func take(_ bytes: Int, for ticket: Ticket) -> Bool {
        guard var share = shares[ticket], bytes > share.bytes else { return true }
        let more = bytes - share.bytes
        let isSmall = !share.isLarge && bytes <= bounds.smallBytesMax && smallBytes + more <= bounds.reservedBytes
        let need = share.isLarge ? more : bytes
        guard isSmall || hasRoom(for: need, besides: ticket) else { return false }
        discount(share, of: ticket, leaves: false)
        share.bytes = bytes
        share.isLarge = !isSmall
        count(share, of: ticket)
        return true
    }

    /// Whether `need` bytes leave enough for the rest of the oldest body, or for a next one.
    private func hasRoom(for need: Int, besides ticket: Ticket?) -> Bool {
        let free = bounds.largeBytesMax - largeBytes
        guard need <= free else { return false }
        let oldest = reading.first ?? ticket
        if let oldest, oldest == ticket { return true }
        let oldestBytes = oldest.flatMap { shares[$0]?.bytes } ?? 0
        return free - need + handledBytes >= bounds.bodyBytesMax - oldestBytes
    }

    private mutating func count(_ share: Share, of ticket: Ticket) {
        shares[ticket] = share
        guard share.isLarge else {
            smallBytes += share.bytes
            return
        }
        largeBytes += share.bytes
        switch share.phase {
        case .reading: if !reading.contains(ticket) { reading.append(ticket) }
        case .handled: handledBytes += share.bytes
        case .answering: answeredBytes += share.bytes
        }
    }

    /// Subtracts a share from the sums; if it `leaves`, it also loses its place among the oldest.
    private mutating func discount(_ share: Share, of ticket: Ticket, leaves: Bool = true) {
        guard share.isLarge else {
            smallBytes -= share.bytes
            return
        }
        largeBytes -= share.bytes
        switch share.phase {
        case .reading: if leaves { reading.removeAll { $0 == ticket } }
        case .handled: handledBytes -= share.bytes
        case .answering: answeredBytes -= share.bytes
        }
    }
}

/// The memory of requests and answers in flight: the asynchronous shell of ``MemoryBudget``, safe to use from any task.
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

    init(limits: Limits, metrics: ServerMetrics) {
        state = Mutex(State(budget: MemoryBudget(bounds: Self.bounds(limits))))
        bytesMax = limits.inFlightBytesMax
        self.metrics = metrics
        eventLoop = MultiThreadedEventLoopGroup.singleton.any()
    }

    /// Throws unless the largest body fits into the memory; otherwise the server would always refuse it.
    static func check(_ limits: Limits) throws(TidemarkError) {
        let bounds = bounds(limits)
        guard !bounds.areSufficient else { return }
        let needed = ((bounds.bodyBytesMax * 8 / 7) >> 20) + 1
        throw TidemarkError(
            .invalidArgument,
            "\(limits.inFlightBytesMax >> 20) MiB of memory for requests in flight do not hold the largest request.",
            fix: "Allow at least \(needed) MiB, or lower the largest request.")
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
            fix: "Try again later. Small requests get through sooner.")
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

/// The memory of one exchange, which its release returns: after the last byte, a disconnection or an error.
final class MemoryShare: Sendable {
    private let memory: InFlightMemory
    private let ticket: MemoryBudget.Ticket

    fileprivate init(memory: InFlightMemory, ticket: MemoryBudget.Ticket) {
        self.memory = memory
        self.ticket = ticket
    }

    deinit { memory.close(ticket) }

    /// Reserves memory for a body of `bytes`; without any, waits a while and throws the refusal.
    func grow(toBody bytes: Int) async throws(Refusal) {
        try await memory.grow(ticket, to: InFlightMemory.bodyMultiple * bytes)
    }

    /// Fixes the share after the last byte of the body.
    func finishReading() { memory.finishReading(ticket) }
    /// Replaces the request's memory by that of an answer of `bytes`; throws the refusal if there is none.
    func answer(bytes: Int) throws(Refusal) { try memory.answer(ticket, bytes: bytes) }
    /// Returns the memory before the exchange ends.
    func giveBack() { memory.close(ticket) }
}
