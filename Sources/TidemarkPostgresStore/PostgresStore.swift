public import Foundation
import GRDB
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
    /// What a store is opened with.
    public struct Options: Sendable {
        /// The database: a URL or a `key=value` list, by libpq's rules.
        public var address: String
        /// Statements in SQLite's words that make the tables when the database is not served yet.
        public var schemaSQL: String?
        /// PostgreSQL's schema in which the tables are.
        public var namespace = "public"
        /// The zones that are to be there.
        public var zones = ["main"]
        /// A random id for new histories.
        public var newEpoch: UUID
        /// The conflict policy of each table, and of each `table.column`, that has one of its own.
        public var policies: [String: ConflictPolicy] = [:]
        /// The bounds on requests and answers.
        public var limits = Limits.standard
        /// The most connections.
        public var connectionsMax = 8
        /// Where snapshots are built: a folder of this process's machine.
        public var folder = NSTemporaryDirectory()
        /// The wall clock, in milliseconds since 1970; nil for the system's.
        public var now: (@Sendable () -> Int64)?

        /// Options with the standard values.
        public init(address: String, newEpoch: UUID) {
            (self.address, self.newEpoch) = (address, newEpoch)
        }
    }

    /// Whom the store tells what it commits, and what other nodes and programs have committed.
    public let fanOut: FanOut
    /// What the zones' tables are.
    public var schema: SyncSchema { served.schema }

    private let options: Options
    private let pool: PostgresPool
    private let served: PostgresSchema
    private let handler: SyncHandler
    private let comparison: ComparisonHandler
    private let snapshots: ZoneSnapshots
    private let bus: NotifyBus
    private let now: @Sendable () -> Int64

    /// How often a transaction is begun anew that another program was in the way of.
    private static let attemptsMax = 10

    /// Opens a database, and makes it ready when it is not served yet.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once, or
    ///   ``TidemarkCore/TidemarkError``.
    public init(_ options: Options) async throws {
        self.options = options
        pool = PostgresPool(
            address: options.address,
            settings: PostgresConnection.Settings(),
            sizeMax: options.connectionsMax
        )
        do {
            served = try await pool.run { pg, _ in try OpenDatabase(pg: pg, options: options).run()
            }
        } catch let failure as PostgresFailure {
            throw Self.cannotOpen(failure)
        }
        handler = SyncHandler(limits: options.limits)
        comparison = ComparisonHandler(limits: options.limits)
        snapshots = ZoneSnapshots(folder: options.folder)
        now = options.now ?? SystemClock.milliseconds
        fanOut = FanOut(limits: options.limits)
        bus = NotifyBus(address: options.address)
        bus.start { [weak self] news in self?.hear(news) }
    }

    deinit { bus.stop() }

    /// Answers one round of synchronisation; what the answer acknowledges is on disk.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let handler = handler
        return try await inTransaction(zone) { Array(try handler.handle(body, in: $0).utf8) }
    }

    /// Whether a request is to be held for news.
    public func hold(zone: String, body: [UInt8]) async throws -> Hold? {
        let handler = handler
        return try await inTransaction(zone) { try handler.hold(body, in: $0) }
    }

    /// What a zone is at.
    public func latest(zone: String) async throws -> ZoneRevision {
        try await position(of: zone).revision
    }

    /// Looks what other nodes have committed and other programs have written, should a notification
    /// have been lost.
    public func look(zone: String) async throws {
        let position = try await position(of: zone)
        if position.hasOutside {
            try await inTransaction(zone) { try $0.absorbOutsideChanges() }
        } else {
            fanOut.committed(position.revision)
        }
    }

    /// Compares ranges of a device's rows with the zone's.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let comparison = comparison
        return try await inTransaction(zone) { Array(try comparison.handle(body, in: $0).utf8) }
    }

    /// A snapshot of the zone at its latest revision, built when there is none yet.
    public func snapshot(zone: String) async throws -> SnapshotFile {
        for _ in 0..<Self.attemptsMax {
            let state = try await inTransaction(zone) { transaction in
                try transaction.absorbOutsideChanges()
                // The snapshot carries it; kept, so that it is computed at most once.
                _ = try transaction.fingerprint(at: transaction.state.revision)
                return transaction.state
            }
            let file = try await snapshots.cache(of: zone).snapshot(at: state) {
                [pool, served] path in
                try await pool.run { pg, _ in
                    try BuildSnapshot(pg: pg, served: served, zone: zone).build(at: path)
                }
            }
            if let file { return file }
        }
        throw Self.busy
    }

    /// Tells that nobody reads the snapshot any more.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async {
        await snapshots.release(snapshot)
    }

    /// The statements that make the zone's tables, as JSON.
    public func schema(zone: String) async throws -> [UInt8] {
        let served = served
        return try await inTransaction(zone) { transaction in
            let shape = served.schema.shape.split(separator: "\n").map {
                ChangeSetJSON.quote(String($0))
            }
            let state = transaction.state
            let text =
                #"{"zone":\#(ChangeSetJSON.quote(zone)),"epoch":"\#(state.epoch)","revision":\#(state.revision),"#
                + #""schema":"\#(served.hash)","shape":[\#(shape.joined(separator: ","))],"tables":\#(served.text)}"#
            return Array(text.utf8)
        }
    }

    /// The content hash of every table, at one revision.
    public func digest(zone: String) async throws -> ZoneDigest {
        let path =
            "\(options.folder)/.tidemark-digest-\(ProcessInfo.processInfo.globallyUniqueString)"
        defer { removeIfThere(path) }
        let (pool, served) = (pool, served)
        for _ in 0..<Self.attemptsMax {
            try await inTransaction(zone) { try $0.absorbOutsideChanges() }
            let digest = try await typed {
                try await pool.run { pg, _ in
                    try BuildSnapshot(pg: pg, served: served, zone: zone).digest(at: path)
                }
            }
            if let digest { return digest }
        }
        throw Self.busy
    }

    /// The latest revision and epoch of a zone, for people and logs.
    public func state(zone: String) async throws -> ZoneState {
        try await inTransaction(zone) { $0.state }
    }

    /// Removes the files that the store made; nothing may be in flight.
    public func close() async {
        bus.stop()
        await snapshots.clear()
    }

    // MARK: Private

    /// Takes in what a node or another program has told.
    private func hear(_ news: NotifyBus.News) {
        switch news {
        case .committed(let revision): fanOut.committed(revision)
        case .outside(let zone):
            guard fanOut.zones.contains(zone) else { return }
            Task { [weak self] in
                do {
                    try await self?.look(zone: zone)
                } catch {
                    // Whoever listens looks again in a moment, and tells what is wrong.
                    return
                }
            }
        }
    }

    private func position(of zone: String) async throws -> (
        revision: ZoneRevision, hasOutside: Bool
    ) {
        try await typed {
            try await pool.run { pg, _ in
                let rows = try pg.query(
                    """
                    SELECT epoch, revision, EXISTS (SELECT 1 FROM tidemark.outside AS o WHERE o.zone = $1)
                    FROM tidemark.zone WHERE zone = $1
                    """,
                    [zone]
                )
                guard !rows.isEmpty else { throw PostgresTransaction.unknownZone }
                let revision = ZoneRevision(
                    zone: zone,
                    epoch: rows[0].text(0),
                    revision: rows[0].integer(1) ?? 0
                )
                return (revision, rows[0].isTrue(2))
            }
        }
    }

    private static let busy = TidemarkError(
        .unavailable,
        "Other programs write to the zone's tables without a pause.",
        fix: "Try again in a moment."
    )

    private static func cannotOpen(_ failure: PostgresFailure) -> TidemarkError {
        TidemarkError(
            .unusableFile,
            "The database cannot be served: \(failure.message.trimmingCharacters(in: .whitespacesAndNewlines))",
            fix:
                "Check the address, that the server runs, and that the role may create schemas and tables."
        )
    }

    /// Runs `body` in a transaction on a zone, anew when another program was in the way.
    private func inTransaction<Result: Sendable>(
        _ zone: String,
        _ body: @escaping @Sendable (PostgresTransaction) throws -> Result
    ) async throws -> Result {
        let (served, now) = (served, now)
        let (result, reached) = try await typed { [pool] in
            try await pool.run { pg, db in
                for attempt in 1... {
                    do {
                        return try Self.transact(pg, db) {
                            let transaction = try PostgresTransaction(
                                pg,
                                db,
                                zone: zone,
                                served: served,
                                now: now()
                            )
                            let result = try body(transaction)
                            try transaction.finish()
                            return (result, transaction.state)
                        }
                    } catch is PostgresTransaction.Overtaken where attempt < Self.attemptsMax {
                        continue
                    } catch let failure as PostgresFailure
                        where failure.isTransient && attempt < Self.attemptsMax
                    {
                        continue
                    }
                }
                throw Self.busy
            }
        }
        let revision = ZoneRevision(zone: zone, epoch: reached.epoch, revision: reached.revision)
        fanOut.committed(revision)
        bus.tell(revision)
        return result
    }

    private func typed<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let failure as PostgresFailure {
            throw failure.typed()
        } catch is PostgresTransaction.Overtaken {
            throw Self.busy
        }
    }

    private static func transact<Result>(
        _ pg: PostgresConnection,
        _ db: Database,
        _ body: () throws -> Result
    ) throws -> Result {
        try pg.execute("BEGIN")
        do {
            var result: Result?
            try db.inTransaction(.deferred) {
                result = try body()
                return .commit
            }
            try pg.execute("COMMIT")
            guard let result else { throw PostgresTransaction.unknownZone }
            return result
        } catch {
            if pg.isUsable, pg.isInTransaction { try pg.execute("ROLLBACK") }
            throw error
        }
    }
}
