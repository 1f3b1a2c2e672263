public import Foundation
import GRDB
public import TidemarkCore
public import TidemarkServer
import TidemarkSQLite

/// A zone in one SQLite file: the embedded store.
///
/// The shell around ``ZoneTransaction`` and the handler.
///
/// Opened on an existing file it adopts what is there. Commits are durable (`synchronous = FULL`)
/// before the answer leaves; SQLite runs on GRDB's own threads, never on the cooperative pool. Safe
/// to use from any task.
public final class EmbeddedStore: SyncService {
    /// What the zone's tables are.
    public let schema: SyncSchema
    /// Tables in the file that are not synced.
    public let skippedTables: [String]
    /// The zone's name.
    public static let zoneName = "main"

    private let pool: DatabasePool
    private let handler: SyncHandler
    private let snapshots: SnapshotCache
    private let now: @Sendable () -> Int64

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
        limits: Limits = .standard,
        now: (@Sendable () -> Int64)? = nil
    ) throws {
        self.now = now ?? SystemClock.milliseconds
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.label = "tidemark.zone"
        pool = try DatabasePool(path: path, configuration: configuration)
        let adoption = try pool.writeWithoutTransaction { db in
            // GRDB chooses NORMAL with WAL; what was acknowledged must survive a power cut.
            let flush = planted(PlantedBug.answersBeforeFlush) ? "NORMAL" : "FULL"
            try db.execute(sql: "PRAGMA synchronous = \(flush)")
            var adoption: ZoneAdoption?
            try db.inTransaction(.immediate) {
                if let schemaSQL, try SchemaIntrospection(db).tables.isEmpty {
                    try db.execute(sql: schemaSQL)
                }
                adoption = try ZoneAdoption(
                    db,
                    name: Self.zoneName,
                    epoch: newEpoch.uuidString.lowercased(),
                    isRestored: isRestored,
                    excluding: excluding,
                    policies: policies
                )
                return .commit
            }
            return adoption
        }
        guard let adoption else {
            throw TidemarkError(
                .unusableFile,
                "The file cannot be adopted.",
                fix: "Check that it can be written."
            )
        }
        (schema, skippedTables) = (adoption.schema, adoption.skipped)
        handler = SyncHandler(limits: limits)
        snapshots = SnapshotCache(
            builder: SnapshotBuilder(zonePath: path, schema: adoption.schema),
            besides: path
        )
    }

    /// Answers one round of synchronisation; what the answer acknowledges is on disk.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try check(zone)
        let (handler, schema, now) = (handler, schema, now)
        return try await inTransaction { db in
            try EngineConnection.prepare(db, schema: schema)
            let transaction = try ZoneTransaction(db, schema: schema, now: now())
            return Array(try handler.handle(body, in: transaction).utf8)
        }
    }

    /// A snapshot of the zone at its latest revision, built when there is none yet.
    public func snapshot(zone: String) async throws -> SnapshotFile {
        try check(zone)
        let (schema, now) = (schema, now)
        // Changes from outside between the absorption and the copy ask for another round.
        for _ in 0..<20 {
            let state = try await inTransaction { db in
                try EngineConnection.prepare(db, schema: schema)
                let transaction = try ZoneTransaction(db, schema: schema, now: now())
                try transaction.absorbOutsideChanges()
                return try transaction.zone()
            }
            if let file = try await snapshots.snapshot(at: state) { return file }
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

    /// The content hash of every table, at one revision.
    public func digest(zone: String) async throws -> ZoneDigest {
        try check(zone)
        let schema = schema
        return try await pool.read { db in
            let revision = try Int64.fetchOne(db, sql: "SELECT revision FROM tidemark_zone") ?? 0
            return try Digest.compute(db, schema: schema, zone: zone, revision: revision)
        }
    }

    /// The latest revision and epoch, for people and logs.
    public func state() async throws -> ZoneState {
        let (schema, now) = (schema, now)
        return try await inTransaction {
            try ZoneTransaction($0, schema: schema, now: now()).zone()
        }
    }

    /// Closes the file.
    ///
    /// Nothing may be in flight.
    public func close() async throws {
        await snapshots.clear()
        try pool.close()
    }

    // MARK: Private

    private func check(_ zone: String) throws {
        guard zone == Self.zoneName else {
            throw TidemarkError(
                .unknownZone,
                "There is no zone of that name that you may read.",
                fix: "This server has the zone \(Self.zoneName)."
            )
        }
    }

    private func inTransaction<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        try await pool.writeWithoutTransaction { db in
            var result: Result?
            do {
                try db.inTransaction(.immediate) {
                    result = try body(db)
                    return .commit
                }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                throw TidemarkError(
                    .unavailable,
                    "Another program holds the zone's file locked.",
                    fix: "Try again in a moment."
                )
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
