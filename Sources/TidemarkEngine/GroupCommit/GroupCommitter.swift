import Synchronization
package import TidemarkCore

/// Group commit: requests that wait for the same zone share one transaction and one flush.
///
/// This is the asynchronous shell around ``GroupQueue``, for any store. While the store commits one
/// group of a zone, the next one gathers. No request waits for others to arrive. Zones are
/// independent of each other. Safe to use from any task.
package final class GroupCommitter: Sendable {
    /// Runs one group in one transaction, and returns when the transaction is durable.
    ///
    /// Returns a result for each request. If the answers grow too large for one transaction, it
    /// returns results for the first requests only, and the rest join the next group. Throws when
    /// the transaction failed; every request of the group gets the error. At most one call runs at
    /// a time for a zone. It is never cancelled, even if a client disconnects.
    package typealias Commit =
        @Sendable (_ zone: String, _ group: [ZoneRequest]) async throws -> [ZoneResult]

    private struct Waiter {
        let request: ZoneRequest
        let continuation: CheckedContinuation<ZoneAnswer, any Error>
    }

    private struct State {
        /// The queue of each zone for which a task is committing groups.
        var zones: [String: GroupQueue<Waiter>] = [:]
        var lastTicket: GroupQueue<Waiter>.Ticket = 0
    }

    private let bounds: GroupQueue<Waiter>.Bounds
    private let metrics: ServerMetrics
    private let commit: Commit
    private let state = Mutex(State())

    /// Makes a committer.
    ///
    /// - Parameters:
    ///   - limits: The bounds of a group.
    ///   - metrics: Records every group.
    ///   - commit: Runs a group in a transaction.
    package init(limits: Limits, metrics: ServerMetrics, commit: @escaping Commit) {
        bounds = .init(entriesMax: limits.groupRequestsMax, bytesMax: limits.groupBytesMax)
        self.metrics = metrics
        self.commit = commit
    }

    /// Answers a request in the zone's next group, and returns when its effects are durable.
    ///
    /// - Throws: The error that refuses the request or fails the group's transaction. Throws
    ///   `CancellationError` if the task is cancelled before the group starts; the request then had
    ///   no effect.
    package func answer(_ request: ZoneRequest, zone: String) async throws -> ZoneAnswer {
        let ticket = state.withLock { state in
            state.lastTicket += 1
            return state.lastTicket
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                enter(Waiter(request: request, continuation: continuation), ticket: ticket, zone: zone)
            }
        } onCancel: {
            guard let waiter = state.withLock({ $0.zones[zone]?.leave(ticket) }) else { return }
            metrics.changeWaiting(by: -1)
            waiter.continuation.resume(throwing: CancellationError())
        }
    }

    private func enter(_ waiter: Waiter, ticket: GroupQueue<Waiter>.Ticket, zone: String) {
        let (isCancelled, isFirst) = state.withLock { state -> (Bool, Bool) in
            // From here on, the cancellation handler finds the waiter in the queue.
            guard !Task.isCancelled else { return (true, false) }
            let isFirst = state.zones[zone] == nil
            state.zones[zone, default: GroupQueue(bounds: bounds)].append(
                waiter,
                bytes: waiter.request.byteCount,
                ticket: ticket
            )
            metrics.changeWaiting(by: 1)
            return (false, isFirst)
        }
        guard !isCancelled else {
            waiter.continuation.resume(throwing: CancellationError())
            return
        }
        if isFirst { Task { await commitAll(of: zone) } }
    }

    /// Commits group after group until no request waits for the zone.
    private func commitAll(of zone: String) async {
        var answeredCount = 0
        while let group = nextGroup(of: zone, answeredCount: answeredCount) {
            let start = ContinuousClock.now
            let result: Result<[ZoneResult], any Error>
            do { result = .success(try await commit(zone, group.map(\.request))) } catch { result = .failure(error) }
            metrics.recordCommit(result, in: ContinuousClock.now - start)
            answeredCount = resume(group, with: result)
            metrics.changeWaiting(by: -answeredCount)
        }
    }

    /// Finishes the group in flight, and starts the next one if any request waits.
    private func nextGroup(of zone: String, answeredCount: Int) -> [Waiter]? {
        state.withLock { state in
            state.zones[zone]?.finishGroup(answeredCount: answeredCount)
            let group = state.zones[zone]?.next()
            if group == nil { state.zones[zone] = nil }
            return group
        }
    }

    /// Resumes the waiters that have a result, and returns their number.
    private func resume(_ group: [Waiter], with result: Result<[ZoneResult], any Error>) -> Int {
        switch result {
        case .success(let results) where !results.isEmpty:
            for (waiter, result) in zip(group, results) { waiter.continuation.resume(with: result) }
            return min(group.count, results.count)
        case .success: return resume(group, with: .failure(Self.noAnswers))
        case .failure(let error):
            for waiter in group { waiter.continuation.resume(throwing: error) }
            return group.count
        }
    }

    private static var noAnswers: TidemarkError {
        TidemarkError(.internalFailure, "A group of requests ended without an answer.", fix: "Please report this.")
    }
}
