import Foundation
import GRDB
import Logging
public import TidemarkCore
public import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Zones in a PostgreSQL database: the store for production.
///
/// The shell around ``PostgresTransaction`` and the handler. It holds no state that another node
/// would miss: any number of stores, in any number of processes, serve one database. Commits are
/// durable before the answer leaves; libpq runs on threads of its own. Safe to use from any task.
public final class PostgresStore: SyncService {
    /// How a store is opened.
    public typealias Options = PostgresStoreOptions

    /// Whom the store tells what it commits, and what other nodes and programs have committed.
    public let fanOut: FanOut
    /// What was made of a schema that had more than the database: `table medal`, `column
    /// team.town`.
    public var made: [String] { zones.made }
    /// What became of the conflict policies when the store was opened.
    public var policyChanges: [PolicyChange] { zones.policyChanges }
    /// What the zones' tables are.
    public var schema: SyncSchema { zones.served.schema }

    private let options: Options
    private let announcements: Announcements
    private let zones: ZoneConnections
    private let handler: SyncHandler
    private let commit: GroupCommitter.Commit
    private let committer: GroupCommitter
    private let metrics: ServerMetrics
    private let pulls: Pulls
    private let snapshots: ZoneSnapshots

    /// Opens a database, and makes it ready when it is not served yet.
    ///
    /// `metrics` are told of every commit.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once, or
    ///   ``TidemarkCore/TidemarkError``.
    public init(_ options: Options, metrics: ServerMetrics = ServerMetrics()) async throws {
        let fanOut = FanOut(limits: options.limits, metrics: metrics)
        let announcements = Announcements(fanOut)
        let zones = try await ZoneConnections(options, announcements)
        self.announcements = announcements
        self.metrics = metrics
        self.options = options
        self.fanOut = fanOut
        self.zones = zones
        handler = SyncHandler(limits: options.limits)
        snapshots = ZoneSnapshots(folder: options.folder, now: options.now ?? SystemClock.milliseconds)
        let group = GroupHandler(limits: options.limits)
        let limits = options.limits
        commit = { zone, requests in
            try await zones.inTransaction(zone, asking: GroupQuestion(requests)) { transaction in
                let results = try transaction.answer(requests, by: group)
                if !GroupHandler.isWorthCommitting(results) { transaction.isVoid = true }
                return results
            }
        }
        committer = GroupCommitter(limits: limits, metrics: metrics, commit: commit)
        pulls = try Pulls(
            limits: options.limits,
            metrics: metrics,
            shared: options.shared,
            head: { try await zones.head(of: $0, for: $1) },
            load: { try await zones.recent($0, $1, bytesMax: $2) }
        )
        announcements.start { [weak pulls] in try await pulls?.change(after: $0) }
    }

    /// Answers one round of synchronisation; what the answer acknowledges is on disk.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        if let answer = try await pulls.answer(body, zone: zone) { return answer }
        let request = ZoneRequest(.sync, body: body)
        do { return try await committer.answer(request, zone: zone).body } catch let damage as DamagedLog {
            try await zones.inTransaction(zone) { try $0.forgetLog(through: damage.revision) }
            metrics.foundDamagedLog()
            options.logger.error("\(damage.warning)", metadata: ["zone": "\(zone)"])
            return try await committer.answer(request, zone: zone).body
        }
    }

    /// Answers requests as one group, in their order: at least the first.
    package func sync(zone: String, together bodies: [[UInt8]]) async throws -> [Result<[UInt8], any Error>] {
        try await commit(zone, bodies.map { ZoneRequest(.sync, body: $0) }).map { result in result.map(\.body) }
    }

    /// What is new for a device that has the rows of a tag.
    public func news(zone: String, device: String, since tag: ZoneTag) async throws -> News? {
        try await pulls.news(zone: zone, device: device, since: tag)
    }

    /// Whether a request is to be held for news.
    public func hold(zone: String, body: [UInt8]) async throws -> Hold? {
        if let held = try await pulls.hold(body, zone: zone) { return held.hold }
        let handler = handler
        return try await zones.inTransaction(zone) { try handler.hold(body, in: $0) }
    }

    /// What a zone is at.
    public func latest(zone: String) async throws -> ZoneRevision { try await zones.position(of: zone).revision }

    /// Looks what other nodes have committed and other programs have written, should a notification
    /// have been lost.
    public func look(zone: String) async throws {
        let position = try await zones.position(of: zone)
        // Altered tables are everybody's: one zone asks for all.
        let asks = (fanOut.zones.min() ?? zone) == zone
        let isAltered = asks ? try await zones.isAltered() : false
        if position.hasOutside || isAltered {
            try await zones.inTransaction(zone) { try $0.absorbOutsideChanges() }
        } else {
            announcements.committed(position.revision)
        }
    }

    /// Compares ranges of a device's rows with the zone's.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await committer.answer(ZoneRequest(.fingerprints, body: body), zone: zone).body
    }

    /// A snapshot of the zone at its latest revision, built when there is none yet; with `base`, a
    /// delta where that is less.
    ///
    /// For whoever has nothing an older one will do, within
    /// ``TidemarkCore/Limits/snapshotRevisionsBehindMax``.
    public func snapshot(zone: String, since base: DeltaBase?) async throws -> SnapshotFile {
        let behind = base == .nothing ? options.limits.snapshotRevisionsBehindMax : 0
        for _ in 0..<ZoneConnections.attemptsMax {
            let state = try await zones.inTransaction(zone) { transaction in
                try transaction.absorbOutsideChanges()
                // The snapshot carries it; kept, so that it is computed at most once.
                _ = try transaction.fingerprint(at: transaction.state.revision)
                return transaction.state
            }
            if let base, let file = try await delta(since: base, at: state, zone) { return file }
            let cache = await snapshots.cache(of: zone)
            let file = try await cache.snapshot(at: state, behind: behind) { [zones] path in
                try await zones.reading { pg, served in
                    try BuildSnapshot(pg: pg, served: served, zone: zone).build(at: path)
                }
            }
            if let file { return file }
        }
        throw ZoneConnections.busy
    }

    /// A file of what has changed since; nil where all rows are better.
    private func delta(since base: DeltaBase, at state: ZoneState, _ zone: String) async throws -> SnapshotFile? {
        guard base.epoch == state.epoch, base.schema == state.schema, base.revision < state.revision else { return nil }
        return try await snapshots.cache(of: zone).delta(since: base.revision, at: state) { [zones] path in
            try await zones.reading { pg, served in
                try BuildSnapshot(pg: pg, served: served, zone: zone, base: base).build(at: path)
            }
        }
    }

    /// The snapshot of a tag, if this node still has it.
    public func snapshot(zone: String, tag: String) async throws -> SnapshotFile? {
        await snapshots.snapshot(zone: zone, tag: tag)
    }

    /// Tells that nobody reads the snapshot any more.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async { await snapshots.release(snapshot) }

    /// The statements that make the zone's tables, as JSON.
    public func schema(zone: String) async throws -> [UInt8] {
        try await zones.inTransaction(zone) { transaction in
            let served = transaction.served
            let shape = served.schema.shape.split(separator: "\n").map { ChangeSetJSON.quote(String($0)) }
            let state = transaction.state
            let text =
                #"{"zone":\#(ChangeSetJSON.quote(zone)),"epoch":"\#(state.epoch)","revision":\#(state.revision),"#
                + #""schema":"\#(served.hash)","shape":[\#(shape.joined(separator: ","))],"tables":\#(served.text)}"#
            return Array(text.utf8)
        }
    }

    /// The content hash of every table, at one revision.
    public func digest(zone: String) async throws -> ZoneDigest {
        let path = "\(options.folder)/.tidemark-digest-\(ProcessInfo.processInfo.globallyUniqueString)"
        defer { removeIfThere(path) }
        for _ in 0..<ZoneConnections.attemptsMax {
            try await zones.inTransaction(zone) { try $0.absorbOutsideChanges() }
            let digest = try await zones.reading { pg, served in
                try BuildSnapshot(pg: pg, served: served, zone: zone).digest(at: path)
            }
            if let digest { return digest }
        }
        throw ZoneConnections.busy
    }

    /// The latest revision and epoch of a zone, for people and logs.
    public func state(zone: String) async throws -> ZoneState { try await zones.inTransaction(zone) { $0.state } }

    /// Removes the files that the store made; nothing may be in flight.
    public func close() async {
        zones.close()
        await snapshots.clear()
    }

    /// Whether requests can be answered: asks the database for a zone.
    public func probe() async throws { try await zones.probe() }
}
