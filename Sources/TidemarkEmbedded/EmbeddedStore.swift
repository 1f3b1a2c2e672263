public import Foundation
import GRDB
// Errors and limits come along, so that a program imports what its package names.
@_exported public import TidemarkCore
public import TidemarkEngine
import TidemarkSQL

/// A zone in one SQLite file: the embedded store.
///
/// This is the async shell around ``ZoneTransaction`` and the handlers. Requests that wait for the
/// file share a transaction and its flush to the disk (``TidemarkEngine/GroupCommitter``).
///
/// Opened on an existing file, the store adopts its tables and rows. Commits are durable (`synchronous = EXTRA`) before
/// the answer leaves. SQLite runs on GRDB's own threads, never on the cooperative pool. Safe to use from any task.
public final class EmbeddedStore: SyncService {
    /// The current schema of the zone's tables.
    public var schema: SyncSchema { file.schema }
    /// Tables in the file that are not synced.
    public var skippedTables: [String] { file.adoption.skipped }
    /// The changes of conflict policies that opening the store made.
    public var policyChanges: [PolicyChange] { file.adoption.policyChanges }
    /// The columns that seem to be references and are not declared; only when the file is adopted.
    public var undeclaredReferences: [UndeclaredReference] { file.adoption.undeclaredReferences }
    /// Triggers that cannot run at the server, although the zone's tables have them.
    public var warnings: [SchemaProblem] { file.adoption.warnings }
    /// The views and triggers that call functions of the program, as `view meta (sortconcat)`; a device may lack them.
    public var programCalls: [String] { file.adoption.programCalls }
    /// Tables and columns that the file lacked and the operator's schema has, such as `column team.town`.
    public var additions: [String] { file.growth.additions }
    /// What else the operator's schema has and the file has otherwise; the store leaves the file as it is.
    public var ignoredDifferences: [String] { file.growth.ignored }
    /// The name of a zone without another name.
    public static let zoneName = "main"

    /// The zone's name.
    public let zone: String
    /// Announces commits to listeners.
    public let fanOut: FanOut
    /// The devices' contacts that are not yet written.
    public let contacts: ContactBook

    package let path: String
    let file: ZoneFile
    let snapshots: SnapshotCache
    let limits: Limits
    private let watch: OutsideWatch
    private let handler: SyncHandler
    package let commit: GroupCommitter.Commit
    private let committer: GroupCommitter
    private let metrics: ServerMetrics
    private let warn: @Sendable (String) -> Void
    private let pulls: Pulls
    private let places = ReaderPlaces(readers: ZoneFile.readersMax)
    private let digests = SharedDigest()

    /// Opens a zone's file, and adopts it if it is not a zone yet.
    ///
    /// - Parameters:
    ///   - path: The SQLite file.
    ///   - schemaSQL: Statements for a file without tables; another file gets the tables and columns that it lacks.
    ///   - zone: The zone's name.
    ///   - newEpoch: A random id for a new history.
    ///   - isRestored: Whether the file comes from a backup: devices may know later revisions, so a new history begins.
    ///   - excluding: Tables to leave alone.
    ///   - keys: The columns that identify a record, for tables without a primary key. The zone keeps them.
    ///   - policies: Conflict policies to change, by table and by `table.column`; they begin as `reject`.
    ///   - renames: Columns that the operator renamed in the file since it was served last.
    ///   - objects: Declarations about the program's own triggers and collations; the zone keeps them.
    ///   - limits: The bounds on requests and answers.
    ///   - now: The wall clock, in milliseconds since 1970; nil for the system's.
    ///   - metrics: Records every commit.
    ///   - fanOut: The fan-out that the zone shares with others; nil for one of its own.
    ///   - warn: Receives warnings about the file, as text for the operator.
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` of all problems, ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    public convenience init(
        path: String, schemaSQL: String? = nil, zone: String = EmbeddedStore.zoneName, newEpoch: UUID,
        isRestored: Bool = false, excluding: Set<String> = [], keys: [String: [String]] = [:],
        policies: [String: ConflictPolicy] = [:], renames: [ColumnRename] = [],
        objects: ObjectDeclarations = ObjectDeclarations(), limits: Limits = .standard,
        now: (@Sendable () -> Int64)? = nil, metrics: ServerMetrics = ServerMetrics(), fanOut: FanOut? = nil,
        warn: @escaping @Sendable (String) -> Void = { _ in }
    ) throws {
        try self.init(
            path: path, schemaSQL: schemaSQL, zone: zone,
            opening: ZoneFile.Opening(
                renames: renames, keys: keys, policies: policies, objects: objects, isRestored: isRestored,
                isFirst: true), limits: limits, now: now, metrics: metrics, fanOut: fanOut, contacts: nil, warn: warn,
            adopt: ZoneFile.adopting(zone, newEpoch: newEpoch, excluding: excluding))
    }

    /// Opens a zone's file, which a function adopts; `contacts` is the book that zones share, nil for one of its own.
    init(
        path: String, schemaSQL: String? = nil, zone: String, opening: ZoneFile.Opening, limits: Limits,
        now: (@Sendable () -> Int64)?, metrics: ServerMetrics, fanOut: FanOut?, contacts: ContactBook?,
        warn: @escaping @Sendable (String) -> Void, adopt: @escaping ZoneFile.Adopt
    ) throws {
        StatementJournals.keepInMemory
        self.path = path
        self.zone = zone
        self.limits = limits
        self.metrics = metrics
        self.warn = warn
        let fanOut = fanOut ?? FanOut(limits: limits, metrics: metrics)
        self.fanOut = fanOut
        let contacts = contacts ?? ContactBook(now: now ?? SystemClock.milliseconds)
        self.contacts = contacts
        let announcements = Announcements(fanOut)
        let watch = OutsideWatch(path: path)
        self.watch = watch
        handler = SyncHandler(limits: limits)
        let file = try ZoneFile(
            path: path, schemaSQL: schemaSQL, opening: opening, now: now ?? SystemClock.milliseconds,
            onCommit: { announcements.publish(ZoneRevision(zone: zone, epoch: $0.epoch, revision: $0.revision)) },
            adopt: adopt)
        self.file = file
        let handler = CommitGroup(limits: limits)
        commit = { _, group in try await file.answer(group, by: handler) }
        committer = GroupCommitter(limits: limits, metrics: metrics, commit: commit)
        pulls = Pulls(
            limits: limits, metrics: metrics, contacts: contacts,
            head: { _, device in try await file.head(watch, for: device) },
            load: { _, range, bytesMax in try await file.recent(range, bytesMax: bytesMax) })
        announcements.start { [weak pulls] in try await pulls?.change(after: $0) }
        snapshots = SnapshotCache(besides: path, now: now ?? SystemClock.milliseconds)
    }

    /// Answers one request; every change set that the answer acknowledges is on disk.
    public func answer(_ request: ZoneRequest) async throws -> ZoneAnswer {
        try check(request.access.zone)
        if let answer = try await pulls.answer(request) { return answer }
        do { return try await commit(request) } catch let damage as DamagedLog {
            try await file.committing { transaction, _ in try transaction.forgetLog(through: damage.revision) }
            metrics.recordDamagedLog()
            warn(damage.warning)
            return try await commit(request)
        }
    }

    private func commit(_ request: ZoneRequest) async throws -> ZoneAnswer {
        let answer = try await committer.answer(request, zone: zone)
        if let device = answer.device { contacts.record(device, request.access, at: answer.revision) }
        return answer
    }

    /// Reads the zone's current epoch and revision, if it is among the zones.
    public func latest(of accesses: [ZoneAccess]) async throws -> [ZoneRevision] {
        let zone = zone
        guard accesses.contains(where: { $0.zone == zone }) else { return [] }
        return try await file.reading { [try ZoneFile.lastRevision(of: zone, in: $0)] }
    }

    /// Logs the changes that other programs wrote into the file since the last call.
    public func look(zone: String) async throws {
        try check(zone)
        guard try await file.hasNews(watch) else { return }
        try await file.committing { transaction, _ in try transaction.absorbOutsideChanges() }
    }

    /// Returns the zone's schema as JSON: its hash, its shape and the statements that create its tables.
    public func schema(_ access: ZoneAccess) async throws -> SchemaDocument {
        try check(access.zone)
        let name = zone
        return try await file.committing { transaction, current in
            SchemaDocument(zone: name, try transaction.head().state, current.schema, tables: current.text)
        }
    }

    /// The content hash of every table, at one revision; callers share one computation.
    public func digest(_ access: ZoneAccess) async throws -> ZoneDigest {
        try check(access.zone)
        let zone = zone
        let file = file
        let (schema, hash) = try await file.committing { _, current in (current.schema, current.hash) }
        // A zone that an outside write has stopped has a digest, too.
        let state = try await file.reading { try FileReader($0, schema: schema, hash: hash, for: access).state }
        let digest = try await digests.digest(of: zone, at: state) {
            try await file.reading { db in
                let state = try FileReader(db, schema: schema, hash: hash, for: access).state
                return try Digest.compute(db, schema: schema, zone: zone, revision: state.revision)
            }
        }
        guard let digest else { throw ZoneTransaction.notAZone }
        return digest
    }

    /// Answers a question about the zone in one read transaction, beside the writer.
    public func read<Answer>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        try check(access.zone)
        return try await places.run(for: .init(access)) {
            try await file.readingZone { db, served in
                try ReadingDeadline.run(db) {
                    try question.ask(FileReader(db, schema: served.schema, hash: served.hash, for: access))
                }
            }
        }
    }

    /// Writes the zone's contacts into its file, in one statement.
    public func keepContacts() async throws {
        let unwritten = contacts.take(zone: zone)
        guard !unwritten.isEmpty else { return }
        do { try await file.committing { transaction, _ in try transaction.keepContacts(unwritten) } } catch {
            contacts.putBack(unwritten)
            throw error
        }
    }

    /// Forgets a device, if the zone is among the zones.
    public func forget(device: String, of user: String?, in zones: [String]) async throws {
        guard zones.contains(zone) else { return }
        contacts.forget(device: device, of: user, in: [zone])
        try await file.committing { transaction, _ in try transaction.forget(device: device, of: user) }
    }

    /// The latest revision and epoch, for people and logs.
    public func state() async throws -> ZoneState {
        try await file.committing { transaction, _ in try transaction.head().state }
    }

    /// Checks that the store can answer requests: opens a transaction and reads the zone.
    public func probe() async throws { _ = try await state() }

    /// Moves all commits from the `-wal` into the file, and closes it; no request may be in flight.
    ///
    /// - Returns: False if another program keeps reading the file, so that the latest commits remain in the `-wal`.
    /// - Throws: ``TidemarkCore/TidemarkError`` `storageFailed` if the file was deleted or moved.
    @discardableResult public func close() async throws -> Bool {
        await snapshots.clear()
        try watch.close()
        return try file.close()
    }

    /// Throws `unknownZone` for every zone but the store's own.
    func check(_ zone: String) throws { guard zone == self.zone else { throw TidemarkError.unknownZone } }
}
