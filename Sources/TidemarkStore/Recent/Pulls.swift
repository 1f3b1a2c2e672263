import Synchronization
package import TidemarkCore
package import TidemarkServer

/// Answers requests that only ask what is new, without a transaction and mostly without the zone's
/// tables: from the latest change sets, kept in memory.
///
/// The shell around ``RecentChangeSets``, for any store. What a zone is at is asked of the store
/// for every request, so an answer has all that was committed when the request came, whoever
/// committed it. Safe to use from any task.
package final class Pulls: Sendable {
    /// What a zone is at for a device; nil when something has to be written before that can be
    /// said.
    package typealias Head = @Sendable (_ zone: String, _ device: String?) async throws -> ZoneHead?
    /// Loads consecutive change sets that end with the last of a range, oldest first: all of the
    /// range, or as many as fit into so many bytes.
    package typealias Load =
        @Sendable (_ zone: String, _ range: ClosedRange<Int64>, _ bytesMax: Int) async throws -> [RecentChangeSet]

    private let limits: Limits
    private let metrics: ServerMetrics
    private let requests: PullRequests
    private let head: Head
    private let load: Load
    private let shared: (any SharedChangeSets)?
    private let bytesMax = RecentChangeSets.Bounds().bytesMax
    private let zones = Mutex(RecentZones())

    /// Makes the shell around a store's two functions, and a cache shared with other nodes.
    package init(
        limits: Limits,
        metrics: ServerMetrics,
        shared: (any SharedChangeSets)? = nil,
        head: @escaping Head,
        load: @escaping Load
    ) throws {
        self.limits = limits
        self.metrics = metrics
        self.shared = shared
        self.head = head
        self.load = load
        requests = try PullRequests(limits: limits)
    }

    /// Answers a request; nil when the store has to.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused.
    package func answer(_ body: [UInt8], zone: String) async throws -> [UInt8]? {
        guard let request = try await requests.read(body), let answer = try await answer(request, zone: zone) else {
            return nil
        }
        metrics.pulled(lag: answer.maxRevision - request.maxRevision)
        return Array(answer.text.utf8)
    }

    /// What is new for a device that has the rows of a tag; nil when only the store can tell.
    package func news(zone: String, device: String, since tag: ZoneTag) async throws -> News? {
        let limits = limits
        let answer = try await answer(to: device, zone: zone) {
            $0.news(for: device, since: tag, at: $1, limits: limits)
        }
        guard let answer, let fingerprint = answer.fingerprint else { return nil }
        metrics.pulled(lag: answer.maxRevision - tag.revision)
        guard answer.maxRevision > tag.revision else { return .nothing }
        let end = ZoneTag(of: answer.zone, revision: answer.maxRevision, fingerprint)
        return .answer(Array(answer.text.utf8), end)
    }

    /// Whether a request is to be held for news, as ``TidemarkServer/SyncHandler`` would judge;
    /// nil when the store has to.
    package func hold(_ body: [UInt8], zone: String) async throws -> Held? {
        guard let request = try await requests.read(body), let wait = request.wait, wait > 0,
            let answer = try await answer(request, zone: zone)
        else { return nil }
        guard answer.maxRevision == request.maxRevision else { return .no }
        return .until(
            Hold(
                epoch: answer.zone.epoch,
                revision: answer.maxRevision,
                milliseconds: min(wait, limits.waitMillisecondsMax)
            )
        )
    }

    /// Whether a request waits for news.
    package enum Held: Hashable, Sendable {
        /// It does.
        case until(Hold)
        /// There is something to tell.
        case no

        /// How long, and at what.
        package var hold: Hold? { if case .until(let hold) = self { hold } else { nil } }
    }

    /// What has led from what listeners were told last to what a zone is at now; nil when that is
    /// not known, or not small.
    package func change(after base: ZoneRevision) async throws -> ZoneChange? {
        let limits = limits
        return try await answer(to: nil, zone: base.zone) { $0.change(after: base, at: $1, limits: limits) }
    }

    // MARK: Private

    private func answer(_ request: SyncRequest, zone: String) async throws -> SyncAnswer? {
        let limits = limits
        return try await answer(to: request.device, zone: zone) { $0.answer(request, at: $1, limits: limits) }
    }

    /// Lets what lies in memory be judged, and loads what it lacks.
    private func answer<Answer>(
        to device: String?,
        zone: String,
        _ judge: (RecentChangeSets, ZoneHead) -> FromMemory<Answer>
    ) async throws -> Answer? {
        guard let head = try await head(zone, device) else { return nil }
        var outcome = judge(zones.withLock { $0.recent(zone) }, head)
        guard case .load(let range) = outcome else {
            metrics.lookedUp(isHit: outcome.answer != nil)
            return outcome.answer
        }
        metrics.lookedUp(isHit: false)
        let run = try await missing(range, of: zone, at: head)
        zones.withLock { $0.take(run, of: zone, at: head) }
        outcome = judge(zones.withLock { $0.recent(zone) }, head)
        return outcome.answer
    }

    /// Change sets from the shared cache if it has them, else from the store.
    private func missing(_ range: ClosedRange<Int64>, of zone: String, at head: ZoneHead) async throws
        -> [RecentChangeSet]
    {
        guard let shared else { return try await load(zone, range, bytesMax) }
        let name = SharedZone(zone: zone, epoch: head.state.epoch, schema: head.state.schema)
        let chain = zones.withLock { $0.recent(zone).chain(through: range.upperBound, at: head) }
        if let chain {
            let run = await shared.changeSets(range, of: name)
            let isAuthentic = run.isAuthentic(range, endingIn: chain)
            metrics.shared(isHit: isAuthentic)
            if isAuthentic { return run }
        }
        let run = try await load(zone, range, bytesMax)
        shared.keep(run.filter(\.hasBody), of: name)
        return run
    }
}

extension FromMemory { fileprivate var answer: Answer? { if case .answer(let answer) = self { answer } else { nil } } }
