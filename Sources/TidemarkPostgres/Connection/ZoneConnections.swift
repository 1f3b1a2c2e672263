import Foundation
import Logging
import Synchronization
import TidemarkCore
import TidemarkEngine

/// Runs transactions on zones, on pooled connections, and announces their commits to all nodes.
final class ZoneConnections: Sendable {
    let additions: [String]
    let policyChanges: [PolicyChange]
    private let schema: Mutex<PostgresSchema>
    private let pool: PostgresPool
    private let announcements: Announcements
    private let bus: NotifyBus
    private let now: @Sendable () -> Int64
    private let rowPatience: Int
    private let logger: Logger

    /// The maximum number of attempts at a transaction that meets other programs' writes.
    static let attemptsMax = 10

    /// Opens the database, and prepares it if no store has served it yet.
    init(_ options: PostgresStoreOptions, _ announcements: Announcements) async throws {
        pool = PostgresPool(address: options.address, sizeMax: options.connectionsMax)
        do {
            let database = try await pool.run { pg in try OpenDatabase(pg: pg, options: options).run() }
            schema = Mutex(database.served)
            additions = database.additions
            policyChanges = database.policyChanges
        } catch let failure as PostgresFailure { throw Self.cannotOpen(failure) }
        logger = options.logger
        rowPatience = options.rowPatience
        now = options.now ?? SystemClock.milliseconds
        self.announcements = announcements
        bus = NotifyBus(address: options.address)
        bus.start { [weak self] news in self?.receive(news) }
    }

    deinit { close() }

    /// The served tables as this node last read them.
    var served: PostgresSchema { schema.withLock { $0 } }

    func close() { bus.stop() }

    /// Runs `body` in a transaction, again after interference; with `beginsLater`, its first question begins it.
    func inTransaction<Result: Sendable>(
        _ zone: String, beginsLater: Bool = false, _ body: @escaping @Sendable (PostgresTransaction) throws -> Result
    ) async throws -> Result {
        let (result, newRevision): (Result, ZoneRevision?) = try await throwingClientErrors { [self] in
            try await onLivingConnection { [self] pg in
                try withCurrentSchema(pg) { served, allowStaleSchema in
                    try pg.endingTransaction {
                        let transaction = try PostgresTransaction(
                            pg, zone: zone, served: served, allowStaleSchema: allowStaleSchema,
                            rowPatience: rowPatience, now: now())
                        if !beginsLater { try transaction.begin() }
                        let result = try body(transaction)
                        log(transaction.holders, zone)
                        guard !transaction.isVoid else { return (result, nil) }
                        try pg.commit()
                        let state = try transaction.head().state
                        return (result, ZoneRevision(zone: zone, epoch: state.epoch, revision: state.revision))
                    }
                }
            }
        }
        if let newRevision {
            announcements.publish(newRevision)
            bus.tell(newRevision)
        }
        return result
    }

    /// Runs `body` on a connection, outside a transaction.
    func reading<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection, PostgresSchema) throws -> Result)
        async throws -> Result
    {
        try await throwingClientErrors {
            try await onLivingConnection { [self] pg in
                // Reading has no effect, so another connection may repeat it.
                try PostgresFailure.beforeBegin { try body(pg, served) }
            }
        }
    }

    func isAltered() async throws -> Bool {
        try await reading { pg, served in
            try CataloguePosition.now(of: served.namespace, zone: "", pg) != served.position
        }
    }

    /// Reads a zone's revision, and whether other programs' changes wait to be absorbed.
    func position(of zone: String) async throws -> (revision: ZoneRevision, hasOutside: Bool) {
        guard !zone.utf8.contains(0) else { throw TidemarkError.unknownZone }
        return try await reading { pg, _ in
            let rows = try pg.query(
                """
                SELECT epoch, revision, EXISTS (SELECT 1 FROM tidemark.outside AS outside WHERE outside.zone = $1)
                FROM tidemark.zone
                WHERE zone = $1
                """,
                [zone])
            guard !rows.isEmpty else { throw TidemarkError.unknownZone }
            let revision = ZoneRevision(zone: zone, epoch: rows[0].text(0), revision: rows[0].integer(1) ?? 0)
            return (revision, rows[0].isTrue(2))
        }
    }

    func revisions(of zones: [String]) async throws -> [ZoneRevision] {
        let names = zones.filter { !$0.utf8.contains(0) }
        return try await reading { pg, _ in
            try pg.query(
                "SELECT zone, epoch, revision FROM tidemark.zone WHERE zone = ANY ($1::text[])",
                [PostgresArray.quoted(names)]
            ).map { ZoneRevision(zone: $0.text(0), epoch: $0.text(1), revision: $0.integer(2) ?? 0) }
        }
    }

    func probe() async throws { try await reading { pg, _ in _ = try pg.query("SELECT 1 FROM tidemark.zone LIMIT 1") } }

    static let busy = TidemarkError(
        .unavailable, "Other programs write to the zone's tables without a pause.", fix: "Try again in a moment.")

    /// Runs `body` on a connection, and on another one if the first was lost while idle.
    func onLivingConnection<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> Result)
        async throws -> Result
    { try await pool.runOnLivingConnection(body) }

    /// Handles a notification of a node or another program.
    private func receive(_ news: NodeNews) {
        switch news {
        case .committed(let revision): announcements.publish(revision)
        case .outside(let zone):
            guard announcements.hasListeners(in: zone) else { return }
            Task { [weak self] in
                do { try await self?.inTransaction(zone) { try $0.absorbOutsideChanges() } } catch {
                    // A zone with listeners is checked again in a moment.
                    return
                }
            }
        }
    }

    private static func cannotOpen(_ failure: PostgresFailure) -> TidemarkError {
        TidemarkError(
            .unusableFile,
            "The database cannot be served: \(failure.message.trimmingCharacters(in: .whitespacesAndNewlines))",
            fix: "Check the address, that the server runs, and that the role may create schemas and tables.")
    }

    /// Runs `body`, logs a failure of the database, and throws the error for clients instead.
    func throwingClientErrors<Result>(_ body: () async throws -> Result) async throws -> Result {
        do { return try await body() } catch let failure as PostgresFailure {
            logger.error(
                "the database failed", metadata: ["sqlstate": "\(failure.state)", "error": "\(failure.message)"])
            throw failure.clientError()
        } catch is Overtaken { throw Self.busy } catch let problem as UnsyncableSchema {
            throw FollowTables.unavailable(problem)
        }
    }

    private func log(_ holders: [RowHolder], _ zone: String) {
        for holder in Set(holders) {
            logger.warning(
                "another program holds rows that devices edit", metadata: ["zone": "\(zone)", "holder": "\(holder)"])
        }
    }

    /// Runs `body` with the current schema, and follows altered tables first.
    ///
    /// While a program from before the alteration holds locks, the node soon serves the old schema, as far as it can.
    private func withCurrentSchema<Result>(
        _ pg: PostgresConnection, _ body: (PostgresSchema, _ allowStaleSchema: Bool) throws -> Result
    ) throws -> Result {
        for _ in 1..<Self.attemptsMax {
            do {
                return try Self.retryingOnContention { try body(served, false) }
            } catch is TablesAltered {
                do { try follow(pg) } catch let failure as PostgresFailure where failure.isTransient {
                    do {
                        return try Self.retryingOnContention { try body(served, true) }
                    } catch is TablesAltered {
                        // Another node has followed the tables meanwhile.
                        continue
                    }
                }
            }
        }
        throw Self.busy
    }

    /// Follows altered tables, or reads the schema that another node has followed them to.
    private func follow(_ pg: PostgresConnection) throws {
        let tables = FollowTables(pg: pg, logger: logger)
        let current = try pg.transaction("BEGIN; SET LOCAL lock_timeout = \(Self.followLockTimeout)") {
            try pg.query("SELECT pg_advisory_xact_lock(\(OpenDatabase.lock))")
            return try pg.scanning { try tables.run() }
        }
        schema.withLock { $0 = current }
    }

    /// The maximum wait for programs that hold locks on altered tables, in milliseconds.
    private static let followLockTimeout = 200

    /// Runs `body`, and retries if another program interferes.
    private static func retryingOnContention<Result>(_ body: () throws -> Result) throws -> Result {
        for _ in 1..<attemptsMax {
            do { return try body() } catch is Overtaken { continue } catch let failure
                as PostgresFailure where failure.isTransient
            { continue }
        }
        return try body()
    }
}
