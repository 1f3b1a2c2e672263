import Synchronization
package import TidemarkCore

/// Answers requests without change sets from the latest revisions in memory.
///
/// This needs no transaction, and mostly reads no table. It is the asynchronous shell around
/// ``RecentChangeSets``, for any store. It reads the zone's head from the store for every request,
/// so an answer contains every earlier commit of any node. Safe to use from any task.
package final class Pulls: Sendable {
    /// Reads a zone's head for a device; nil if the store has to write something first.
    package typealias Head = @Sendable (_ zone: String, _ device: String?) async throws -> ZoneHead?
    /// Loads consecutive change sets up to the end of a range, oldest first: all, or the last part within `bytesMax`.
    package typealias Load =
        @Sendable (_ zone: String, _ range: ClosedRange<Int64>, _ bytesMax: Int) async throws -> [RecentChangeSet]

    private let limits: Limits
    private let metrics: ServerMetrics
    private let head: Head
    private let load: Load
    private let shared: (any SharedChangeSets)?
    private let contacts: ContactBook
    private let bytesMax = RecentChangeSets.Bounds().bytesMax
    private let zones = Mutex(RecentZones())

    /// `shared` is a cache shared with other nodes; `contacts` records the devices of the answers.
    package init(
        limits: Limits, metrics: ServerMetrics, contacts: ContactBook, shared: (any SharedChangeSets)? = nil,
        head: @escaping Head, load: @escaping Load
    ) {
        self.limits = limits
        self.metrics = metrics
        self.contacts = contacts
        self.shared = shared
        self.head = head
        self.load = load
    }

    /// Answers a request; nil when only the store can.
    package func answer(_ request: ZoneRequest) async throws -> ZoneAnswer? {
        if case .news(let device, let tag) = request.kind {
            return ZoneAnswer(.news(try await news(request.access, device: device, since: tag)))
        }
        let limits = limits
        guard case .sync(let text) = request.kind, let pull = try PullRequests.read(text, limits: limits) else {
            return nil
        }
        let answer = try await answer(to: pull.device, zone: request.access.zone) {
            $0.answer(pull, at: $1, limits: limits)
        }
        guard let answer else { return nil }
        if let device = pull.device { contacts.record(device, request.access, at: answer.maxRevision) }
        metrics.recordPull(lag: answer.maxRevision - pull.maxRevision)
        return ZoneAnswer(text: answer.text)
    }

    /// Answers a conditional GET of a device with a tag; nil when only the store can.
    private func news(_ access: ZoneAccess, device: String, since tag: ZoneTag) async throws -> News? {
        let limits = limits
        let answer = try await answer(to: device, zone: access.zone) {
            $0.news(for: device, since: tag, at: $1, limits: limits)
        }
        guard let answer, let fingerprint = answer.fingerprint else { return nil }
        contacts.record(device, access, at: answer.maxRevision)
        metrics.recordPull(lag: answer.maxRevision - tag.revision)
        guard answer.maxRevision > tag.revision else { return .nothing }
        let end = ZoneTag(of: answer.zone, revision: answer.maxRevision, fingerprint)
        return .answer(Array(answer.text.utf8), end)
    }

    /// Returns the change from a revision to the zone's latest; nil if it is not available or not small.
    package func change(after base: ZoneRevision) async throws -> ZoneChange? {
        let limits = limits
        return try await answer(to: nil, zone: base.zone) { $0.change(after: base, at: $1, limits: limits) }
    }

    /// Answers from memory, after loading missing revisions.
    private func answer<Answer>(
        to device: String?, zone: String, _ judge: (RecentChangeSets, ZoneHead) -> FromMemory<Answer>
    ) async throws -> Answer? {
        guard let head = try await head(zone, device) else { return nil }
        var outcome = judge(zones.withLock { $0.recent(zone) }, head)
        guard case .load(let range) = outcome else {
            metrics.recordLookup(isHit: outcome.answer != nil)
            return outcome.answer
        }
        metrics.recordLookup(isHit: false)
        let run = try await loadMissing(range, of: zone, at: head)
        zones.withLock { $0.take(run, of: zone, at: head) }
        outcome = judge(zones.withLock { $0.recent(zone) }, head)
        return outcome.answer
    }

    /// Loads change sets from the shared cache, else from the store.
    private func loadMissing(_ range: ClosedRange<Int64>, of zone: String, at head: ZoneHead) async throws
        -> [RecentChangeSet]
    {
        guard let shared else { return try await load(zone, range, bytesMax) }
        let name = SharedZone(zone: zone, epoch: head.state.epoch, schema: head.state.schema)
        let chain = zones.withLock { $0.recent(zone).chain(through: range.upperBound, at: head) }
        if let chain {
            let run = await shared.changeSets(range, of: name)
            let isAuthentic = run.isAuthentic(range, endingIn: chain)
            metrics.recordSharedLookup(isHit: isAuthentic)
            if isAuthentic { return run }
        }
        let run = try await load(zone, range, bytesMax)
        shared.keep(run.filter(\.hasBody), of: name)
        return run
    }
}

extension FromMemory { fileprivate var answer: Answer? { if case .answer(let answer) = self { answer } else { nil } } }

/// Reads requests without change sets, which need no schema.
package enum PullRequests {
    /// The most bytes of such a request.
    private static let bytesMax = 4_096
    private static let lap = Array(#""lap""#.utf8)
    private static let changeSets = Array(#""changeSets""#.utf8)
    private static let noChangeSets = Array(#""changeSets":[]"#.utf8)

    /// Reads a request; nil when it has change sets or a lap.
    package static func read(_ body: [UInt8], limits: Limits) throws(TidemarkError) -> SyncRequest? {
        guard mayBePull(body) else { return nil }
        return try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) -> SyncRequest? in
            var reader = try JSONReader(bytes, depthMax: limits.jsonDepthMax)
            return try SyncRequest.readPull(&reader, limits: limits)
        }
    }

    /// Whether a body may be a request without change sets and lap, whose member names are unescaped.
    ///
    /// If a client formats an empty `changeSets` differently, the store gives the same answer.
    private static func mayBePull(_ body: [UInt8]) -> Bool {
        body.count <= bytesMax && !body.contain(lap) && (body.contain(noChangeSets) || !body.contain(changeSets))
    }
}
