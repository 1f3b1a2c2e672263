import Foundation
import GRDB
import Logging
import Synchronization
import TidemarkCore
import TidemarkServer
import TidemarkStore

/// Transactions on zones, on connections of a pool; what they commit is told to whoever listens,
/// here and at the other nodes.
final class ZoneConnections: Sendable {
    /// What was made of a schema that had more than the database, in words.
    let made: [String]
    /// What became of the conflict policies when the database was opened.
    let policyChanges: [PolicyChange]
    private let known: Mutex<PostgresSchema>
    private let pool: PostgresPool
    private let announcements: Announcements
    /// On which other programs are heard, and the other nodes as well if there is no other way.
    private let notifications: NotifyBus
    private let bus: any NodeBus
    private let now: @Sendable () -> Int64
    private let connectionsMax: Int
    private let rowPatience: Int
    private let logger: Logger

    /// How often a transaction is begun anew that another program was in the way of.
    static let attemptsMax = 10

    /// Opens the database, and makes it ready when it is not served yet.
    init(_ options: PostgresStoreOptions, _ announcements: Announcements) async throws {
        pool = PostgresPool(
            address: options.address,
            settings: PostgresConnection.Settings(),
            sizeMax: options.connectionsMax
        )
        do {
            let opened = try await pool.run { pg, _ in try OpenDatabase(pg: pg, options: options).run() }
            known = Mutex(opened.served)
            made = opened.made
            policyChanges = opened.policyChanges
        } catch let failure as PostgresFailure { throw Self.cannotOpen(failure) }
        connectionsMax = options.connectionsMax
        logger = options.logger
        rowPatience = options.rowPatience
        now = options.now ?? SystemClock.milliseconds
        self.announcements = announcements
        notifications = NotifyBus(address: options.address)
        bus = options.bus ?? notifications
        notifications.start { [weak self] news in self?.hear(news) }
        options.bus?.start { [weak self] news in self?.hear(news) }
    }

    deinit { close() }

    /// What is served: the tables as this node knows them.
    var served: PostgresSchema { known.withLock { $0 } }

    /// Stops telling and hearing.
    func close() {
        notifications.stop()
        bus.stop()
    }

    /// Runs `body` in a transaction on a zone, anew when another program was in the way.
    func inTransaction<Result: Sendable>(
        _ zone: String,
        asking question: GroupQuestion? = nil,
        _ body: @escaping @Sendable (PostgresTransaction) throws -> Result
    ) async throws -> Result {
        let (result, reached): (Result, ZoneRevision?) = try await typed { [self] in
            try await onLivingConnection { [self] pg, db in
                try onTablesAsTheyAre(pg) { served, isPatient in
                    try Self.transact(pg, db) {
                        let transaction = try PostgresTransaction(
                            pg,
                            db,
                            zone: zone,
                            served: served,
                            isPatient: isPatient,
                            question: question,
                            rowPatience: rowPatience,
                            now: now()
                        )
                        let result = try body(transaction)
                        note(transaction.holders, zone)
                        guard !transaction.isVoid else { return (result, nil) }
                        try transaction.commit()
                        let epoch = transaction.state.epoch
                        let revision = transaction.state.revision
                        let reached = ZoneRevision(zone: zone, epoch: epoch, revision: revision)
                        return (result, reached)
                    }
                }
            }
        }
        if let reached {
            announcements.committed(reached)
            bus.tell(reached)
        }
        return result
    }

    /// Runs `body` on a connection, outside a transaction.
    func reading<Result: Sendable>(_ body: @escaping @Sendable (PostgresConnection, PostgresSchema) throws -> Result)
        async throws -> Result
    {
        try await typed {
            try await onLivingConnection { [self] pg, _ in
                do { return try body(pg, served) } catch var failure as PostgresFailure {
                    // Whoever only reads may read again.
                    failure.isBeforeBegin = true
                    throw failure
                }
            }
        }
    }

    /// Whether somebody has altered the tables.
    func isAltered() async throws -> Bool {
        try await reading { pg, served in
            try CataloguePosition.now(of: served.namespace, zone: "", pg) != served.position
        }
    }

    /// What a zone is at, and whether other programs have written what no revision has.
    func position(of zone: String) async throws -> (revision: ZoneRevision, hasOutside: Bool) {
        guard !zone.utf8.contains(0) else { throw PostgresTransaction.unknownZone }
        return try await reading { pg, _ in
            let rows = try pg.query(
                """
                SELECT epoch, revision, EXISTS (SELECT 1 FROM tidemark.outside AS o WHERE o.zone = $1)
                FROM tidemark.zone WHERE zone = $1
                """,
                [zone]
            )
            guard !rows.isEmpty else { throw PostgresTransaction.unknownZone }
            let revision = ZoneRevision(zone: zone, epoch: rows[0].text(0), revision: rows[0].integer(1) ?? 0)
            return (revision, rows[0].isTrue(2))
        }
    }

    /// Returns when the database answers.
    func probe() async throws { try await reading { pg, _ in _ = try pg.query("SELECT 1 FROM tidemark.zone LIMIT 1") } }

    static let busy = TidemarkError(
        .unavailable,
        "Other programs write to the zone's tables without a pause.",
        fix: "Try again in a moment."
    )

    // MARK: Private

    /// Runs `body` on a connection; on another one when the first turns out to have been lost while
    /// it lay idle.
    private func onLivingConnection<Result: Sendable>(
        _ body: @escaping @Sendable (PostgresConnection, Database) throws -> Result
    ) async throws -> Result {
        for _ in 0..<connectionsMax {
            do { return try await pool.run(body) } catch let failure as PostgresFailure
                where failure.isBeforeBegin && failure.isDisconnected
            { continue }
        }
        return try await pool.run(body)
    }

    /// Takes in what a node or another program has told.
    private func hear(_ news: NodeNews) {
        switch news {
        case .committed(let revision): announcements.committed(revision)
        case .outside(let zone):
            guard announcements.isHeard(in: zone) else { return }
            Task { [weak self] in
                do { try await self?.inTransaction(zone) { try $0.absorbOutsideChanges() } } catch {
                    // Zones that are listened to are looked at again in a moment.
                    return
                }
            }
        }
    }

    private static func cannotOpen(_ failure: PostgresFailure) -> TidemarkError {
        TidemarkError(
            .unusableFile,
            "The database cannot be served: \(failure.message.trimmingCharacters(in: .whitespacesAndNewlines))",
            fix: "Check the address, that the server runs, and that the role may create schemas and tables."
        )
    }

    private func typed<Result>(_ body: () async throws -> Result) async throws -> Result {
        do { return try await body() } catch let failure as PostgresFailure {
            logger.error(
                "the database failed",
                metadata: ["sqlstate": "\(failure.state)", "error": "\(failure.message)"]
            )
            throw failure.typed()
        } catch is PostgresTransaction.Overtaken { throw Self.busy } catch let problem as UnsyncableSchema {
            throw FollowTables.unavailable(problem)
        }
    }

    private func note(_ holders: [RowHolder], _ zone: String) {
        for holder in Set(holders) {
            logger.warning(
                "another program holds rows that devices edit",
                metadata: ["zone": "\(zone)", "holder": "\(holder)"]
            )
        }
    }

    // MARK: Altered tables

    /// Runs `body` on the tables as they are: when somebody has altered them, that is followed
    /// first.
    ///
    /// Where somebody is still writing who has seen them as they were, perhaps stopped for long,
    /// nobody waits: they are served as they were, as far as that goes.
    private func onTablesAsTheyAre<Result>(
        _ pg: PostgresConnection,
        _ body: (PostgresSchema, _ isPatient: Bool) throws -> Result
    ) throws -> Result {
        for _ in 1..<Self.attemptsMax {
            do { return try Self.insisting { try body(served, false) } } catch is PostgresTransaction.TablesAltered {
                do { try follow(pg) } catch let failure as PostgresFailure where failure.isTransient {
                    do { return try Self.insisting { try body(served, true) } } catch is PostgresTransaction
                        .TablesAltered
                    {
                        // Another node has followed meanwhile.
                        continue
                    }
                }
            }
        }
        throw Self.busy
    }

    /// Follows what somebody has done to the tables, or reads what another node has followed.
    private func follow(_ pg: PostgresConnection) throws {
        let tables = FollowTables(pg: pg, logger: logger)
        try pg.execute("BEGIN; SET LOCAL lock_timeout = \(Self.patience)")
        do {
            try pg.query("SELECT pg_advisory_xact_lock(\(OpenDatabase.lock))")
            let followed = try pg.scanning { try tables.run() }
            try pg.commit()
            known.withLock { $0 = followed }
        } catch {
            if pg.isUsable, pg.isInTransaction { try pg.execute("ROLLBACK") }
            throw error
        }
    }

    /// The longest that requests wait for whoever writes to tables that were altered, in
    /// milliseconds.
    private static let patience = 200

    // MARK: Beginning anew

    /// Begins anew what another program was in the way of.
    private static func insisting<Result>(_ body: () throws -> Result) throws -> Result {
        for _ in 1..<attemptsMax {
            do { return try body() } catch is PostgresTransaction.Overtaken { continue } catch let failure
                as PostgresFailure where failure.isTransient
            { continue }
        }
        return try body()
    }

    private static func transact<Result>(_ pg: PostgresConnection, _ db: Database, _ body: () throws -> Result) throws
        -> Result
    {
        do {
            var result: Result?
            try db.inTransaction(.deferred) {
                result = try body()
                return .commit
            }
            if pg.isInTransaction { try pg.execute("ROLLBACK") }
            guard let result else { throw busy }
            return result
        } catch {
            if pg.isUsable, pg.isInTransaction { try pg.execute("ROLLBACK") }
            throw error
        }
    }
}
