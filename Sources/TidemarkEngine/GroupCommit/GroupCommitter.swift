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
    package typealias Commit = @Sendable (_ zone: String, _ group: [ZoneRequest]) async throws -> [ZoneResult]

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

    package init(limits: Limits, metrics: ServerMetrics, commit: @escaping Commit) {
        bounds = .init(entriesMax: limits.groupRequestsMax, bytesMax: limits.groupBytesMax)
        self.metrics = metrics
        self.commit = commit
    }

    /// Answers a request in the zone's next group, and returns when its effects are durable.
    ///
    /// - Throws: The error of the request or its group; `CancellationError` without effect if cancelled before.
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
                waiter, bytes: waiter.request.byteCount, ticket: ticket)
            metrics.changeWaiting(by: 1)
            return (false, isFirst)
        }
        guard !isCancelled else {
            waiter.continuation.resume(throwing: CancellationError())
            return
        }
        if isFirst { Task { await commitAll(of: zone) } }
    }

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

/// The requests that wait for one zone, in groups to commit together.
///
/// One group is in flight at a time; requests that arrive meanwhile join a later one. A group takes all waiting entries
/// in order of arrival, up to the bounds. So no request waits for others to arrive, and none overtakes another.
package struct GroupQueue<Entry> {
    package struct Bounds: Hashable, Sendable {
        package let entriesMax: Int
        /// The most bytes; one entry alone may be more.
        package let bytesMax: Int

        package init(entriesMax: Int, bytesMax: Int) {
            self.entriesMax = max(1, entriesMax)
            self.bytesMax = bytesMax
        }
    }

    /// Identifies an entry while it waits.
    package typealias Ticket = UInt64

    fileprivate struct Position {
        let ticket: Ticket
        let entry: Entry
        let bytes: Int
    }

    private let bounds: Bounds
    private var waiting: [Position] = []
    private var inFlight: [Position] = []

    package init(bounds: Bounds) { self.bounds = bounds }

    package var count: Int { waiting.count }

    package mutating func append(_ entry: Entry, bytes: Int, ticket: Ticket) {
        waiting.append(Position(ticket: ticket, entry: entry, bytes: bytes))
    }

    /// Starts the next group; nil if one is in flight or no entry waits.
    package mutating func next() -> [Entry]? {
        guard inFlight.isEmpty, let first = waiting.first else { return nil }
        var count = 1
        var bytes = first.bytes
        while count < min(waiting.count, bounds.entriesMax), bytes + waiting[count].bytes <= bounds.bytesMax {
            bytes += waiting[count].bytes
            count += 1
        }
        inFlight = Array(waiting.prefix(count))
        waiting.removeFirst(count)
        return inFlight.map(\.entry)
    }

    /// Ends the group in flight, and requeues its unanswered entries at the front.
    package mutating func finishGroup(answeredCount: Int) {
        waiting.insert(contentsOf: inFlight.dropFirst(answeredCount), at: 0)
        inFlight = []
    }

    /// Removes a waiting entry; nil if it is not in the queue, for instance because it is in flight.
    package mutating func leave(_ ticket: Ticket) -> Entry? {
        guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return waiting.remove(at: index).entry
    }
}

extension GroupQueue: Sendable where Entry: Sendable {}
extension GroupQueue.Position: Sendable where Entry: Sendable {}

/// A request that waits for a zone's next commit.
public struct ZoneRequest: Sendable {
    package enum Kind: Sendable {
        /// A round of synchronisation, JSON.
        case sync([UInt8])
        case write(ClientWrites)
        /// A comparison of rows, by ``ComparisonHandler``, JSON.
        case fingerprints([UInt8])
        /// A conditional GET of a device that has the rows of a tag and nothing to send.
        case news(device: String, since: ZoneTag)
    }

    package let kind: Kind
    package let access: ZoneAccess

    package init(_ kind: Kind, access: ZoneAccess) {
        self.kind = kind
        self.access = access
    }

    /// The text of the request; empty for one that is no text.
    package var text: [UInt8] {
        switch kind {
        case .sync(let text), .fingerprints(let text): text
        case .write, .news: []
        }
    }

    /// The size of the request, in bytes.
    package var byteCount: Int { if case .write(let writes) = kind { writes.byteCount } else { text.count } }
}

/// The answer to a request, sent after its group is committed.
public struct ZoneAnswer: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// A text, JSON.
        case text([UInt8])
        /// The answers to writes of a client without rows, in their order, or why none of them is done.
        case writes(Result<[WriteAnswer], Problem>)
        /// The answer to a conditional GET; nil if the device has to send a round of synchronisation.
        case news(News?)
    }

    package let content: Content
    /// The counts of a request with change sets, or for them; nil for any other request.
    package let tally: SyncTally?
    /// The device that sent a sync request; nil if the request names none.
    package let device: String?
    /// The device's revision after the answer; nil for a question.
    package let revision: Int64?

    package init(_ content: Content, tally: SyncTally? = nil, device: String? = nil, revision: Int64? = nil) {
        self.content = content
        self.tally = tally
        self.device = device
        self.revision = revision
    }

    package init(text: String, tally: SyncTally? = nil, device: String? = nil, revision: Int64? = nil) {
        self.init(.text(Array(text.utf8)), tally: tally, device: device, revision: revision)
    }

    /// The text; empty for the answers to writes.
    package var text: [UInt8] { if case .text(let text) = content { text } else { [] } }
}

/// The answer to a request, or the error that refuses it.
package typealias ZoneResult = Result<ZoneAnswer, any Error>

/// Counts of one sync request, for metrics.
package struct SyncTally: Hashable, Sendable {
    /// The change sets that became revisions.
    package var accepted = 0
    package var conflicts = 0
    /// The change sets that had a stored verdict.
    package var repeats = 0
    /// How many revisions the device was behind the zone; nil for a question.
    package var lag: Int64?
}
