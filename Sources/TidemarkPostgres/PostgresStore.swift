import Foundation
import Logging
// Errors and limits come along, so that a program imports what its package names.
@_exported public import TidemarkCore
public import TidemarkEngine
import TidemarkSQL

/// Zones in a PostgreSQL database: the store for production.
///
/// This is the async shell around ``PostgresTransaction`` and the handler. It holds no state that other nodes need: any
/// number of stores, in any number of processes, can serve one database. Commits are durable before the answer leaves.
/// libpq runs on threads of its own. Safe to use from any task.
public final class PostgresStore: SyncService {
    /// Options for opening a store.
    public typealias Options = PostgresStoreOptions

    /// Announces commits of this store, of other nodes and of other programs to listeners.
    public let fanOut: FanOut
    /// The devices' contacts that this node has not yet written.
    public let contacts: ContactBook
    /// Tables and columns that the store created, such as `table medal` or `column team.town`.
    public var additions: [String] { zones.additions }
    /// The changes of conflict policies that opening the store made.
    public var policyChanges: [PolicyChange] { zones.policyChanges }
    /// The current schema of the zones' tables.
    public var schema: SyncSchema { zones.served.schema }

    private let options: Options
    private let announcements: Announcements
    let zones: ZoneConnections
    package let commit: GroupCommitter.Commit
    private let committer: GroupCommitter
    private let metrics: ServerMetrics
    private let pulls: Pulls
    private let snapshots: ZoneSnapshots
    private let places: ReaderPlaces
    private let digests = SharedDigest()

    /// Opens a database, and prepares it if no store has served it yet; `metrics` records every commit.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once, or ``TidemarkCore/TidemarkError``.
    public init(_ options: Options, metrics: ServerMetrics = ServerMetrics()) async throws {
        let fanOut = FanOut(limits: options.limits, metrics: metrics)
        let announcements = Announcements(fanOut)
        let zones = try await ZoneConnections(options, announcements)
        let contacts = ContactBook(now: options.now ?? SystemClock.milliseconds)
        self.contacts = contacts
        self.announcements = announcements
        self.metrics = metrics
        self.options = options
        self.fanOut = fanOut
        self.zones = zones
        places = ReaderPlaces(readers: options.connectionsMax)
        snapshots = ZoneSnapshots(folder: options.folder, now: options.now ?? SystemClock.milliseconds)
        let limits = options.limits
        let group = CommitGroup(limits: limits)
        commit = { zone, requests in
            try await zones.inTransaction(zone, beginsLater: true) { transaction in
                let answers = try group.handle(requests, at: transaction.now, in: transaction)
                if !answers.haveEffect { transaction.isVoid = true }
                return answers.results
            }
        }
        committer = GroupCommitter(limits: limits, metrics: metrics, commit: commit)
        pulls = Pulls(
            limits: options.limits, metrics: metrics, contacts: contacts, shared: options.shared,
            head: { try await zones.pullHead(of: $0, for: $1) },
            load: { try await zones.recentChangeSets($0, $1, bytesMax: $2) })
        announcements.start { [weak pulls] in try await pulls?.change(after: $0) }
        await establishFingerprints()
    }

    /// Computes the fingerprints of adopted rows now: otherwise the first commit does it, while all others wait.
    ///
    /// Later revisions without one are those of altered tables, as in a SQLite file.
    private func establishFingerprints() async {
        for zone in options.zones {
            do {
                try await zones.inTransaction(zone) { transaction in
                    let revision = try transaction.head().state.revision
                    let isKnown = try revision != 1 || transaction.storedFingerprint(at: revision) != nil
                    transaction.isVoid = isKnown
                    if !isKnown { _ = try transaction.fingerprint(at: revision) }
                }
            } catch {
                options.logger.warning(
                    "the zone's first commit has to compute its fingerprint",
                    metadata: ["zone": "\(zone)", "error": "\(error)"])
            }
        }
    }

    /// Answers one request; every change set that the answer acknowledges is on disk.
    public func answer(_ request: ZoneRequest) async throws -> ZoneAnswer {
        let zone = request.access.zone
        if let answer = try await pulls.answer(request) { return answer }
        do { return try await commit(request) } catch let damage as DamagedLog {
            try await zones.inTransaction(zone) { try $0.forgetLog(through: damage.revision) }
            metrics.recordDamagedLog()
            options.logger.error("\(damage.warning)", metadata: ["zone": "\(zone)"])
            return try await commit(request)
        }
    }

    private func commit(_ request: ZoneRequest) async throws -> ZoneAnswer {
        let answer = try await committer.answer(request, zone: request.access.zone)
        if let device = answer.device { contacts.record(device, request.access, at: answer.revision) }
        return answer
    }

    /// Reads the zones' current epochs and revisions, in one query.
    public func latest(of accesses: [ZoneAccess]) async throws -> [ZoneRevision] {
        try await zones.revisions(of: accesses.map(\.zone))
    }

    /// Checks for commits of other nodes and writes of other programs, in case a notification was lost.
    public func look(zone: String) async throws {
        let position = try await zones.position(of: zone)
        // All zones share the tables, so only one zone checks for altered tables.
        let isResponsible = (fanOut.zones.min() ?? zone) == zone
        let isAltered = isResponsible ? try await zones.isAltered() : false
        if position.hasOutside || isAltered {
            try await zones.inTransaction(zone) { try $0.absorbOutsideChanges() }
        } else {
            announcements.publish(position.revision)
        }
    }

    /// Returns a snapshot of the zone at its latest revision, and builds it if there is none yet.
    ///
    /// With `base`, returns a delta instead if that is smaller. A new device may get an older
    /// snapshot, within ``TidemarkCore/Limits/snapshotRevisionsBehindMax``.
    public func snapshot(_ access: ZoneAccess, _ wanted: WantedSnapshot) async throws -> SnapshotFile? {
        let zone = access.zone
        let base: DeltaBase?
        switch wanted {
        case .tagged(let tag): return await snapshots.snapshot(zone: zone, tag: tag)
        case .since(let known): base = known
        }
        let behind = options.limits.snapshotRevisionsBehindMax
        for _ in 0..<ZoneConnections.attemptsMax {
            let state = try await zones.inTransaction(zone) { transaction in
                try transaction.absorbOutsideChanges()
                // The snapshot contains the fingerprint; storing it here avoids computing it again.
                _ = try transaction.fingerprint(at: transaction.head().state.revision)
                return try transaction.head().state
            }
            let cache = await snapshots.cache(of: zone)
            let file = try await cache.file(since: base, at: state, behind: behind) { [zones, places] path, base in
                try await places.run(for: .maker) {
                    try await zones.reading { pg, served in
                        try BuildSnapshot(pg: pg, served: served, zone: zone, base: base).build(at: path)
                    }
                }
            }
            if let file { return file }
        }
        throw ZoneConnections.busy
    }

    /// Releases a snapshot after its reader is done.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async { await snapshots.release(snapshot) }

    /// Returns the zone's schema as JSON: its hash, its columns and its CREATE statements.
    public func schema(_ access: ZoneAccess) async throws -> SchemaDocument {
        let zone = access.zone
        return try await zones.inTransaction(zone) { transaction in
            let served = transaction.served
            return SchemaDocument(zone: zone, try transaction.head().state, served.schema, tables: served.text)
        }
    }

    /// Computes the content hash of every table, at one revision; callers share one computation.
    public func digest(_ access: ZoneAccess) async throws -> ZoneDigest {
        let zone = access.zone
        let zones = zones
        let places = places
        let path = "\(options.folder)/.tidemark-digest-\(ProcessInfo.processInfo.globallyUniqueString)"
        for _ in 0..<ZoneConnections.attemptsMax {
            let state = try await zones.read(access, ZoneQuestion { $0.state })
            let digest = try await digests.digest(of: zone, at: state) {
                defer { removeIfThere(path) }
                return try await places.run(for: .maker) {
                    try await zones.reading { pg, served in
                        try BuildSnapshot(pg: pg, served: served, zone: zone).digest(at: path)
                    }
                }
            }
            if let digest { return digest }
        }
        throw ZoneConnections.busy
    }

    /// Answers a question about a zone in one read transaction, beside its commits.
    public func read<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        try await places.run(for: .init(access)) { [zones] in try await zones.read(access, question) }
    }

    /// Writes the contacts of all zones' devices.
    public func keepContacts() async throws {
        let unwritten = contacts.take()
        guard !unwritten.isEmpty else { return }
        do { try await zones.keepContacts(unwritten) } catch {
            contacts.putBack(unwritten)
            throw error
        }
    }

    /// Forgets a device in zones.
    public func forget(device: String, of user: String?, in zones: [String]) async throws {
        contacts.forget(device: device, of: user, in: zones)
        try await self.zones.forgetDevice(device, of: user, in: zones)
    }

    /// Reads the state of a zone, for people and logs.
    public func state(zone: String) async throws -> ZoneState {
        try await zones.inTransaction(zone) { try $0.head().state }
    }

    /// Stops the notifications, and removes the store's files; no request may be in flight.
    public func close() async {
        zones.close()
        await snapshots.clear()
    }

    /// Checks that the store can answer requests: queries the database for a zone.
    public func probe() async throws { try await zones.probe() }
}
