import Synchronization
public import TidemarkCore

/// Group commit: requests that wait for the same zone share one transaction and one flush.
///
/// The shell around ``GroupQueue``, for any store. While a zone's group is being committed, the
/// next one gathers; no request waits for others to come. Zones know nothing of each other.
/// Safe to use from any task.
///
/// ```swift
/// let committer = GroupCommitter(limits: limits, metrics: metrics) { zone, group in
///     try await connections.inTransaction { transaction in   // commits when it returns
///         try handler.handle(group, in: transaction)          // a GroupHandler
///     }
/// }
/// ```
public final class GroupCommitter: Sendable {
    /// Runs one group in one transaction, and returns when that is durable.
    ///
    /// Returns a result for each request, or for the first ones when the group was more than one
    /// transaction should do: those left over are in the next group. Throws when the transaction
    /// failed; all of the group get the error. At most one runs at a time for a zone, and it is
    /// never cancelled: what has begun is finished, whoever has gone meanwhile.
    public typealias Commit =
        @Sendable (_ zone: String, _ group: [ZoneRequest]) async throws -> [Result<ZoneAnswer, any Error>]

    private struct Waiter {
        let request: ZoneRequest
        let continuation: CheckedContinuation<ZoneAnswer, any Error>
    }

    private struct State {
        /// A zone is here for exactly as long as a task commits its groups.
        var zones: [String: GroupQueue<Waiter>] = [:]
        var tickets: GroupQueue<Waiter>.Ticket = 0
    }

    private let bounds: GroupQueue<Waiter>.Bounds
    private let metrics: ServerMetrics
    private let commit: Commit
    private let state = Mutex(State())

    /// Makes a committer.
    ///
    /// - Parameters:
    ///   - limits: The bounds of a group.
    ///   - metrics: Told of every group.
    ///   - commit: Runs a group in a transaction.
    public init(limits: Limits, metrics: ServerMetrics, commit: @escaping Commit) {
        bounds = .init(entriesMax: limits.groupRequestsMax, bytesMax: limits.groupBytesMax)
        self.metrics = metrics
        self.commit = commit
    }

    /// Has a request answered in the zone's next group; returns when its effects are durable.
    ///
    /// - Throws: What the request is refused with, what the group's transaction failed with, or
    ///   `CancellationError` when the task was cancelled before the request's turn came: then it
    ///   did nothing.
    public func answer(_ request: ZoneRequest, zone: String) async throws -> ZoneAnswer {
        let ticket = state.withLock { state in
            state.tickets += 1
            return state.tickets
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                enter(Waiter(request: request, continuation: continuation), ticket, zone)
            }
        } onCancel: {
            guard let waiter = state.withLock({ $0.zones[zone]?.leave(ticket) }) else { return }
            metrics.waiting(changedBy: -1)
            waiter.continuation.resume(throwing: CancellationError())
        }
    }

    private func enter(_ waiter: Waiter, _ ticket: GroupQueue<Waiter>.Ticket, _ zone: String) {
        let (isCancelled, leads) = state.withLock { state -> (Bool, Bool) in
            // Whoever is cancelled from here on is found in the queue.
            guard !Task.isCancelled else { return (true, false) }
            let leads = state.zones[zone] == nil
            state.zones[zone, default: GroupQueue(bounds: bounds)].append(
                waiter,
                bytes: waiter.request.body.count,
                ticket: ticket
            )
            metrics.waiting(changedBy: 1)
            return (false, leads)
        }
        guard !isCancelled else {
            waiter.continuation.resume(throwing: CancellationError())
            return
        }
        if leads { Task { await commitAll(of: zone) } }
    }

    /// Commits group after group until nobody waits for the zone.
    private func commitAll(of zone: String) async {
        var answered = 0
        while let group = next(of: zone, answered: answered) {
            let start = ContinuousClock.now
            let result: Result<[Result<ZoneAnswer, any Error>], any Error>
            do { result = .success(try await commit(zone, group.map(\.request))) } catch { result = .failure(error) }
            metrics.committed(result, in: ContinuousClock.now - start)
            answered = answer(group, result)
            metrics.waiting(changedBy: -answered)
        }
    }

    /// Ends the group in flight, and sends the next one off unless nobody waits.
    private func next(of zone: String, answered: Int) -> [Waiter]? {
        state.withLock { state in
            state.zones[zone]?.land(answered: answered)
            let group = state.zones[zone]?.next()
            if group == nil { state.zones[zone] = nil }
            return group
        }
    }

    /// Gives everybody their answer, and says how many have got one.
    private func answer(_ group: [Waiter], _ result: Result<[Result<ZoneAnswer, any Error>], any Error>) -> Int {
        switch result {
        case .success(let results) where !results.isEmpty:
            for (waiter, result) in zip(group, results) { waiter.continuation.resume(with: result) }
            return min(group.count, results.count)
        case .success: return answer(group, .failure(Self.nobodyAnswered))
        case .failure(let error):
            for waiter in group { waiter.continuation.resume(throwing: error) }
            return group.count
        }
    }

    private static var nobodyAnswered: TidemarkError {
        TidemarkError(.internalFailure, "A group of requests ended without an answer.", fix: "Please report this.")
    }
}
