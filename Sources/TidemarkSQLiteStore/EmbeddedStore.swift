public import Foundation
import GRDB
import Synchronization
public import TidemarkCore
import TidemarkGzip
public import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// A zone in one SQLite file: the embedded store.
///
/// The shell around ``ZoneTransaction`` and the handler.
///
/// Opened on an existing file it adopts what is there. Commits are durable (`synchronous = FULL`)
/// before the answer leaves; SQLite runs on GRDB's own threads, never on the cooperative pool.
/// Safe to use from any task.
public final class EmbeddedStore: SyncService {
    /// What the zone's tables are now.
    public var schema: SyncSchema { served.withLock(\.schema) }
    /// Tables in the file that are not synced.
    public let skippedTables: [String]
    /// The zone's name.
    public static let zoneName = "main"

    /// Who is told what is committed.
    public let fanOut: FanOut

    /// What clients are told instead of the path.
    private static let fileName = "the zone's file"

    private let path: String
    private let pool: DatabasePool
    private let handler: SyncHandler
    private let comparison: ComparisonHandler
    private let snapshots: SnapshotCache
    private let watch: OutsideWatch
    private let now: @Sendable () -> Int64
    private let adopt: @Sendable (Database, [ColumnRename], Bool) throws -> ZoneAdoption
    private let served: Mutex<ServedSchema>

    /// Opens a zone's file, and adopts it when it is not a zone yet.
    ///
    /// - Parameters:
    ///   - path: The SQLite file.
    ///   - schemaSQL: Statements that make the tables when the file has none yet.
    ///   - newEpoch: A random id for a new history.
    ///   - isRestored: The file came back from a backup, so what devices know of its later
    ///     revisions is void: it goes on as another history.
    ///   - excluding: Tables to leave alone.
    ///   - policies: The conflict policy of each table, and of each `table.column`, that has one of
    ///     its own; the default is `reject`.
    ///   - renames: Columns that were renamed in the file since it was served last.
    ///   - limits: The bounds on requests and answers.
    ///   - now: The wall clock, in milliseconds since 1970; nil for the system's.
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once,
    ///   ``TidemarkCore/TidemarkError``, or `DatabaseError` when the file is no database or cannot
    ///   be written.
    public init(
        path: String,
        schemaSQL: String? = nil,
        newEpoch: UUID,
        isRestored: Bool = false,
        excluding: Set<String> = [],
        policies: [String: ConflictPolicy] = [:],
        renames: [ColumnRename] = [],
        limits: Limits = .standard,
        now: (@Sendable () -> Int64)? = nil
    ) throws {
        self.path = path
        self.now = now ?? SystemClock.milliseconds
        let adopt = { @Sendable (db: Database, renames: [ColumnRename], isRestored: Bool) in
            try ZoneAdoption(
                db,
                name: Self.zoneName,
                epoch: newEpoch.uuidString.lowercased(),
                isRestored: isRestored,
                excluding: excluding,
                policies: policies,
                renames: renames
            )
        }
        self.adopt = adopt
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.label = "tidemark.zone"
        let pool = try TidemarkError.typingStorage(of: path) {
            try DatabasePool(path: path, configuration: configuration)
        }
        self.pool = pool
        let opened = try TidemarkError.typingStorage(of: path) {
            try pool.writeWithoutTransaction { db in
                try EngineConnection.flushCommits(of: db)
                var opened: (adoption: ZoneAdoption, served: ServedSchema)?
                try db.inTransaction(.immediate) {
                    if let schemaSQL, try SchemaIntrospection(db).tables.isEmpty {
                        try db.execute(sql: schemaSQL)
                    }
                    let adoption = try adopt(db, renames, isRestored)
                    opened = (adoption, try ServedSchema(adoption.schema, in: db))
                    return .commit
                }
                return opened
            }
        }
        guard let opened else {
            throw TidemarkError(
                .unusableFile,
                "The file cannot be adopted.",
                fix: "Check that it can be written."
            )
        }
        served = Mutex(opened.served)
        skippedTables = opened.adoption.skipped
        handler = SyncHandler(limits: limits)
        comparison = ComparisonHandler(limits: limits)
        snapshots = SnapshotCache(besides: path)
        watch = OutsideWatch(path: path)
        fanOut = FanOut(limits: limits)
    }

    /// Answers one round of synchronisation; what the answer acknowledges is on disk.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try check(zone)
        let handler = handler
        return try await inTransaction { transaction, _ in
            Array(try handler.handle(body, in: transaction).utf8)
        }
    }

    /// Whether a request is to be held for news.
    public func hold(zone: String, body: [UInt8]) async throws -> Hold? {
        try check(zone)
        let handler = handler
        return try await inTransaction { transaction, _ in
            try handler.hold(body, in: transaction)
        }
    }

    /// What the zone is at.
    public func latest(zone: String) async throws -> ZoneRevision {
        try check(zone)
        return try await reading { db in
            let row = try Row.fetchOne(db, sql: "SELECT epoch, revision FROM tidemark_zone")
            guard let row else { throw ZoneTransaction.notAZone }
            return ZoneRevision(zone: zone, epoch: row["epoch"], revision: row["revision"])
        }
    }

    /// Takes in what other programs have written into the file since the last look.
    public func look(zone: String) async throws {
        try check(zone)
        do {
            if !watch.isOpen { try await pool.read { [watch] _ in try watch.open() } }
            guard try await watch.hasNews() else { return }
        } catch {
            throw TidemarkError.typed(error, of: Self.fileName)
        }
        try await inTransaction { transaction, _ in try transaction.absorbOutsideChanges() }
    }

    /// Compares ranges of a device's rows with the zone's.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try check(zone)
        let comparison = comparison
        return try await inTransaction { transaction, _ in
            Array(try comparison.handle(body, in: transaction).utf8)
        }
    }

    /// A snapshot of the zone at its latest revision, built when there is none yet.
    public func snapshot(zone: String) async throws -> SnapshotFile {
        try check(zone)
        // Changes from outside between the absorption and the copy ask for another round.
        for _ in 0..<20 {
            let (state, schema) = try await inTransaction { transaction, served in
                try transaction.absorbOutsideChanges()
                let state = try transaction.zone()
                // The snapshot carries it; kept, so that it is computed at most once.
                _ = try transaction.fingerprint(at: state.revision)
                return (state, served.schema)
            }
            do {
                let builder = SnapshotBuilder(zonePath: path, schema: schema)
                let file = try await snapshots.snapshot(at: state) { path in
                    try await builder.buildApart(at: path)
                }
                if let file { return file }
            } catch let GzipError.fileFailed(operation, _, reason) {
                throw TidemarkError(
                    .storageFailed,
                    "The server cannot \(operation) a snapshot's file: \(reason).",
                    fix: "Make room on the server's disk, beside the zone's file; then try again."
                )
            } catch {
                throw TidemarkError.typed(error, of: "the zone's file or its snapshot")
            }
        }
        throw TidemarkError(
            .unavailable,
            "Other programs write to the zone's file without a pause.",
            fix: "Try again in a moment."
        )
    }

    /// Tells that nobody reads the snapshot any more.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async {
        await snapshots.release(snapshot)
    }

    /// The statements that make the zone's tables, as JSON.
    public func schema(zone: String) async throws -> [UInt8] {
        try check(zone)
        return try await inTransaction { transaction, served in
            let zone = try transaction.zone()
            let shape = served.schema.shape.split(separator: "\n").map {
                ChangeSetJSON.quote(String($0))
            }
            let text =
                #"{"zone":"\#(Self.zoneName)","epoch":"\#(zone.epoch)","revision":\#(zone.revision),"#
                + #""schema":"\#(served.hash)","shape":[\#(shape.joined(separator: ","))],"tables":\#(served.text)}"#
            return Array(text.utf8)
        }
    }

    /// The content hash of every table, at one revision.
    public func digest(zone: String) async throws -> ZoneDigest {
        try check(zone)
        let schema = try await inTransaction { _, served in served.schema }
        return try await reading { db in
            let revision = try Int64.fetchOne(db, sql: "SELECT revision FROM tidemark_zone") ?? 0
            return try Digest.compute(db, schema: schema, zone: zone, revision: revision)
        }
    }

    /// The latest revision and epoch, for people and logs.
    public func state() async throws -> ZoneState {
        try await inTransaction { transaction, _ in try transaction.zone() }
    }

    /// Closes the file.
    ///
    /// Nothing may be in flight.
    public func close() async throws {
        await snapshots.clear()
        try watch.close()
        try pool.close()
    }

    // MARK: Private

    /// The zone's tables as they are in the transaction: another program may have altered them.
    private func current(_ db: Database) throws -> ServedSchema {
        let known = served.withLock { $0 }
        guard try ServedSchema.version(of: db) != known.version else { return known }
        db.clearSchemaCache()
        do {
            return try ServedSchema(adopt(db, [], false).schema, in: db)
        } catch let problem as UnsyncableSchema {
            throw TidemarkError(
                .unavailable,
                "The tables of the zone's file were altered so that they cannot be synced.",
                fix: "Mend them in the file. \(problem.description)"
            )
        }
    }

    private func check(_ zone: String) throws {
        guard zone == Self.zoneName else {
            throw TidemarkError(
                .unknownZone,
                "There is no zone of that name that you may read.",
                fix: "This server has the zone \(Self.zoneName)."
            )
        }
    }

    private func reading<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        do {
            return try await pool.read(body)
        } catch {
            throw TidemarkError.typed(error, of: Self.fileName)
        }
    }

    /// Runs `body` in a transaction on the tables as they are now.
    private func inTransaction<Result: Sendable>(
        _ body: @escaping @Sendable (ZoneTransaction, ServedSchema) throws -> Result
    ) async throws -> Result {
        try await pool.writeWithoutTransaction { [self] db in
            var result: Result?
            var followed: ServedSchema?
            var reached: ZoneState?
            do {
                try db.inTransaction(.immediate) {
                    let current = try self.current(db)
                    followed = current
                    try EngineConnection.prepare(db, schema: current.schema)
                    let transaction = try ZoneTransaction(
                        db,
                        schema: current.schema,
                        hash: current.hash,
                        now: self.now()
                    )
                    result = try body(transaction, current)
                    reached = try transaction.zone()
                    return .commit
                }
                // What was altered counts as known only when following it is on disk.
                if let followed { self.served.withLock { $0 = followed } }
                // On the writer's own queue, hence in the order of the commits.
                if let reached {
                    self.fanOut.committed(
                        zone: Self.zoneName,
                        epoch: reached.epoch,
                        revision: reached.revision
                    )
                }
            } catch {
                throw TidemarkError.typed(error, of: Self.fileName)
            }
            guard let result else {
                throw TidemarkError(
                    .internalFailure,
                    "A transaction ended without a result.",
                    fix: "Please report this."
                )
            }
            return result
        }
    }
}

/// The schema that a zone serves, as it is sent, and by what SQLite tells that it is still the
/// same.
struct ServedSchema: Hashable, Sendable {
    let schema: SyncSchema
    /// The schema as JSON.
    let text: String
    /// Its hash.
    let hash: String
    /// SQLite's number of the file's schema.
    let version: Int

    init(_ schema: SyncSchema, in db: Database) throws {
        self.schema = schema
        text = try SchemaText.encode(schema)
        hash = ContentHash.of(text)
        version = try Self.version(of: db)
    }

    static func version(of db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "PRAGMA main.schema_version") ?? 0
    }
}
