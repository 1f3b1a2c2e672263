public import Foundation
public import GRDB
// Errors and limits come along, so that a program imports what its package names.
@_exported public import TidemarkCore
import TidemarkSQL

/// Keeps a SQLite file in sync with a server.
///
/// The only object that an app must create.
///
/// The app uses its GRDB database as before, with SQL, records and observations. Triggers in the file
/// capture all writes, also those of other programs. The engine sends change sets to the server and
/// applies its answers to the tables.
///
/// ```swift
/// let sync = try await SyncEngine(database, server: "https://sync.example.org")
/// await sync.start()                        // in the background from here on
/// for await event in sync.deviceEvents { ... }    // conflicts, changes of others, new ids
/// ```
///
/// Prefer `ValueObservation.trackingConstantRegion`: with `tracking`, GRDB makes SQLite compile the
/// engine's statements again after each observed commit.
///
/// An actor: safe to use from any task. At most one round is in flight; callers of ``sync()`` share it.
public actor SyncEngine {
    /// The clock, randomness and process checks that an engine uses; tests pass their own.
    public struct Environment: Sendable {
        /// Returns the current time.
        public let now: @Sendable () -> Date
        /// Returns a UUID of 128 random bits.
        public let newID: @Sendable () -> UUID
        /// This process's id; other processes use it to check whether this one still runs.
        public let process: Int32
        /// Called after each durable step of an account; a test ends the process there.
        package var checkpoint: @Sendable () throws -> Void = {}
        /// Returns whether the process with this id still runs.
        public let isRunning: @Sendable (Int32) -> Bool

        /// Makes an environment; without `isRunning`, every other process counts as ended.
        public init(
            now: @escaping @Sendable () -> Date, newID: @escaping @Sendable () -> UUID, process: Int32 = 0,
            isRunning: @escaping @Sendable (Int32) -> Bool = { _ in false }
        ) {
            self.now = now
            self.newID = newID
            self.process = process
            self.isRunning = isRunning
        }
    }

    /// A stream of the events sent after this call; each access returns a new stream.
    public nonisolated var deviceEvents: AsyncStream<DeviceEvent> { eventHub.stream() }
    nonisolated let eventHub = Broadcast<DeviceEvent>()
    nonisolated let meter: DownloadMeter
    let database: any DatabaseWriter
    let transport: any Transport
    let environment: Environment
    let limits: Limits
    let commits: CommitObserver
    let outside: OutsideCommits
    let merges: [String: any RecordMerging]
    /// The record of conditional GETs, kept across syncs.
    let conditionalGetPolicy = Remembered(ConditionalGetPolicy())

    // MARK: State: touched on the actor only

    private var inFlight: Task<Void, any Error>?
    /// Whether the round in flight asks the server, so that later callers can join it.
    private var isAsking = false
    /// The rounds that run now and may hold the file.
    private var running: Set<Task<Verification?, any Error>> = []
    /// How often ``stop()`` has ended the rounds.
    var stops = 0
    /// How many rounds have asked the server for everything new, and succeeded.
    private(set) var roundsDone = 0
    /// The error of the last round; nil if it succeeded.
    var lastFailure: TidemarkError?
    var loop: Task<Void, Never>?
    var listening: Task<Void, Never>?
    /// The reason why the engine sends nothing for a while.
    var obstacle = Obstacle()

    /// Prepares a database for syncing: bookkeeping tables, triggers, identity.
    ///
    /// It makes no network request.
    ///
    /// Before the first sync, all tables of the file sync; afterwards, those that the server has too.
    /// The tables must be empty the first time: rows arrive with the first sync.
    ///
    /// - Parameters:
    ///   - database: The app's `DatabaseQueue` or `DatabasePool`, migrated.
    ///   - server: The server's URL.
    ///   - zone: The zone; `~` for the user's private one, whose own name the file takes with the first rows.
    ///   - credentials: The bearer token that identifies the user, or a provider of it.
    ///   - user: The user whose file it is. The file stays that user's, and the server refuses a token of
    ///     another user with ``TidemarkCore/ErrorCode/accountMismatch``. With nil, the file's user stays.
    ///   - name: The name of the device for the server's operators, 1 to 100 characters. With nil, the name in the
    ///     file stays; at first there is none.
    ///   - transport: A transport to use instead of HTTP with these credentials.
    ///   - renames: Columns that the app's migrations renamed, `["notes.body": "notes.text"]`; a
    ///     rename may stay here for ever.
    ///   - independent: The tables in which other programs' edits between two polls are independent of
    ///     each other; nil keeps the file's last declaration, initially none.
    ///   - environment: Time and randomness.
    ///   - limits: The bounds on requests and responses.
    ///   - merges: The functions that merge a record when the server refuses a change of it, one a table.
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once,
    ///   ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    public init(
        _ database: any DatabaseWriter, server: String, zone: String = "main", credentials: Credentials = .none,
        user: String? = nil, name: String? = nil, transport: (any Transport)? = nil, renames: [String: String] = [:],
        independent: IndependentTables? = nil, environment: Environment = .system, limits: Limits = .standard,
        merges: [any RecordMerging] = []
    ) async throws {
        self.database = database
        self.merges = try Self.byTable(merges)
        let transport = try transport ?? HTTPTransport(url: server, credentials: credentials, user: user)
        if let name { try DeviceName.require(name) }
        self.environment = environment
        self.limits = limits
        commits = CommitObserver()
        outside = OutsideCommits(database, commits: commits, environment: environment)
        meter = DownloadMeter(commits.signal)
        let newID = environment.newID
        let now = environment.now
        let renames = try renames.sorted { $0.key < $1.key }.map { try ColumnRename($0.key, to: $0.value) }
        let (fileUser, storedName) = try await database.typingStorage {
            try await database.writeWithoutTransaction { db in
                try EngineConnection.flushCommits(of: db)
                // Another program may hold the write lock: wait for it, unless the app set a busy mode.
                if case .immediateError = db.configuration.busyMode {
                    try db.execute(sql: "PRAGMA busy_timeout = 5000")
                }
                try Transaction.withoutForeignKeys(db) {
                    try PrepareDevice(db: db).prepare(
                        server: server, zone: zone, user: user, name: name, renames: renames, independent: independent,
                        now: now(), newID: newID)
                }
                let file = try DeviceFile(db)
                return (file.user, file.name)
            }
        }
        // The edits that wait in the file are those of its user, also if the caller names none.
        self.transport = (transport as? HTTPTransport)?.named(storedName).stating(fileUser) ?? transport
        database.add(transactionObserver: commits, extent: .observerLifetime)
    }

    /// Orders merges by their tables; throws `invalidArgument` if two merge one table.
    private static func byTable(_ merges: [any RecordMerging]) throws(TidemarkError) -> [String: any RecordMerging] {
        var byTable: [String: any RecordMerging] = [:]
        for merge in merges where byTable.updateValue(merge, forKey: merge.table) != nil {
            throw TidemarkError(
                .invalidArgument, "Two merges are for the table \(merge.table).", fix: "Give one merge a table.",
                place: .init(table: merge.table))
        }
        return byTable
    }

    deinit {
        listening?.cancel()
        commits.signal.finish()
        let outside = outside
        Task { await outside.stopDraining() }
    }

    // MARK: Syncing

    /// Syncs once: sends the outbox and applies the server's changes until neither side has more.
    ///
    /// If the task is cancelled, it ends at once with `CancellationError`. Each transaction is applied
    /// completely or not at all.
    ///
    /// - Parameter acceptingMassDeletion: Whether the server may delete most of the records here
    ///   although it has another history now; ask the user first.
    /// - Throws: ``TidemarkCore/TidemarkError``; the outbox is kept, and the error's recovery says
    ///   whether to try again.
    public func sync(acceptingMassDeletion: Bool = false) async throws {
        try await sync(acceptingMassDeletion: acceptingMassDeletion, pushedChange: nil)
    }

    /// With `pushedChange`, the engine does not ask the server for newer changes.
    package func sync(acceptingMassDeletion: Bool = false, pushedChange: PushedChange?) async throws {
        try refusePause()
        let era = stops
        var isFirst = true
        while let inFlight {
            let suffices = (isAsking || pushedChange != nil) && !acceptingMassDeletion
            let result = await inFlight.result
            if self.inFlight == inFlight { self.inFlight = nil }
            switch result {
            case .success:
                guard suffices else { break }
                // A round that began earlier may have drained the outbox before the latest edit.
                guard isFirst else { return }
                if try await status().pendingChangeSets == 0 { return }
            case .failure(let error):
                // The caller that began the round cancelled it, or this caller permits more than that one.
                let isTheirs = error is CancellationError && !Task.isCancelled && era == stops
                guard isTheirs || !suffices else { throw error }
            }
            isFirst = false
        }
        let task = Task { _ = try await rounds(.sync(acceptingMassDeletion: acceptingMassDeletion), pushedChange) }
        inFlight = task
        isAsking = pushedChange == nil
        do {
            // A later caller has edits that this round has not seen.
            defer { if inFlight == task { inFlight = nil } }
            try await withTaskCancellationHandler {
                try await database.typingStorage { try await task.value }
            } onCancel: {
                task.cancel()
            }
        } catch {
            if let error = error as? TidemarkError {
                recordFailure(error)
                eventHub.send(.failed(error))
            }
            throw error
        }
        if pushedChange == nil { roundsDone += 1 }
        clearObstacle()
    }

    /// Compares all rows of this file with the server's.
    ///
    /// It applies newer revisions first, because rows can be compared at one revision only. It sends no change sets.
    ///
    /// - Parameter repairing: Whether to replace differing records by the server's. Pending edits stay,
    ///   but edits of a replaced record are parked as a conflict.
    /// - Returns: The differing records, and the cost of the comparison.
    /// - Throws: ``TidemarkCore/TidemarkError``, for instance `unreachable`.
    public func verify(repairing: Bool = false) async throws -> Verification {
        try refusePause()
        _ = await inFlight?.result
        let verification: Verification?
        do {
            verification = try await database.typingStorage { try await rounds(.verify(repairing: repairing)) }
        } catch let error as TidemarkError {
            recordFailure(error)
            throw error
        }
        return verification ?? Verification()
    }

    /// Compares this file's rows with their stored fingerprint, without a server.
    ///
    /// - Returns: The stored fingerprint of the confirmed rows, and the one computed from them; nil if unknown.
    public func checkRows() async throws -> (expected: Fingerprint?, computed: Fingerprint?) {
        try await withRound { round in
            try round.drain()
            let rows = round.fingerprints
            return (rows.expectedFingerprint, try rows.computeFingerprint())
        }
    }

    private func rounds(_ purpose: SyncPurpose, _ pushedChange: PushedChange? = nil) async throws -> Verification? {
        let round = Task { try await run(purpose, pushedChange) }
        running.insert(round)
        defer {
            running.remove(round)
            commits.signal.advance()
        }
        return try await withTaskCancellationHandler {
            try await round.value
        } onCancel: {
            round.cancel()
        }
    }

    var hasRound: Bool { !running.isEmpty }

    /// Cancels the rounds that run now, and waits until each has given the file's lock back.
    func endRounds() async {
        for round in running { round.cancel() }
        // The callers of the rounds get the errors.
        for round in running { _ = await round.result }
    }

    // MARK: State

    /// Returns the device's status.
    public func status() async throws -> DeviceStatus {
        var status = try await database.typingStorage { try await database.read { try DeviceStatus($0) } }
        _ = obstacle.pauseSeconds(now: environment.now())
        status.obstacle = obstacle.current
        return status
    }

    /// Returns the refused change sets that need a decision, oldest first, with the server's records as they are now.
    public func conflicts() async throws -> [Conflict] {
        try await database.typingStorage { try await database.read { try SyncEngine.conflicts(in: $0) } }
    }

    /// Returns the deleted records of a conflict, by its id or number, that ``Resolution/retry`` would create again.
    ///
    /// In tables with integer ids, they would get new ids.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if there is no such conflict.
    public func madeAnew(byRetrying conflict: Conflict.ID) async throws -> [Conflict.Record] {
        try await database.typingStorage {
            try await database.write { db in
                try ResolveConflict(db: db, schema: DeviceFile(db).schema).recordsToRecreate(conflict)
            }
        }
    }

    /// Resolves a conflict, or an entry with overruled values, as the app has shown it.
    ///
    /// The result is an ordinary change set. It overwrites only what the conflict shows: give the one that the person
    /// saw, as ``openConflicts`` or ``conflicts()`` returned it.
    ///
    /// - Parameters:
    ///   - conflict: The conflict.
    ///   - resolution: The version to keep.
    ///   - takenIDs: What becomes of new records whose number another record has.
    /// - Returns: The conflicts that depend on this one, in the order in which to resolve them.
    /// - Throws: ``TidemarkCore/ErrorCode/preconditionFailed`` if one of its records has changed since, or the retried
    ///   deletion would take along records that it does not show; another ``TidemarkCore/TidemarkError`` if there is no
    ///   such conflict, if it depends on another parked one, or if a retried change no longer fits the rows.
    @discardableResult public func resolve(
        _ conflict: Conflict, with resolution: Resolution, takenIDs: TakenIDs = .refuse
    ) async throws -> [Conflict] {
        try await resolve(
            conflict.id, with: resolution, seen: .shown(conflict), takenIDs: takenIDs, dependents: nil
        ).open
    }

    /// Resolves a conflict, by its id or number, as it was when the device parked it.
    ///
    /// As with the conflict that the app has shown, but it is refused if the server's records have changed since.
    @discardableResult public func resolve(
        _ conflict: Conflict.ID, with resolution: Resolution, takenIDs: TakenIDs = .refuse
    ) async throws -> [Conflict] {
        try await resolve(conflict, with: resolution, seen: .asParked, takenIDs: takenIDs, dependents: nil).open
    }

    /// Resolves a conflict and those that build on it, or none of them.
    ///
    /// `decide` gets a conflict that builds on it, with the records that a retry would create again, and returns the
    /// version to keep; without it, all stay parked. Throws as for one conflict, or what `decide` throws.
    package func resolve(
        _ id: Conflict.ID, with resolution: Resolution, seen: Seen, takenIDs: TakenIDs,
        dependents decide: (@Sendable (Conflict, [Conflict.Record]) throws -> Resolution)?
    ) async throws -> ResolvedChain {
        try await database.typingStorage {
            try await database.write { db in
                let file = try DeviceFile(db)
                try file.tables.requireSafeTriggers()
                return try ResolveConflict(db: db, schema: file.schema, seen: seen, takenIDs: takenIDs)
                    .resolve(id, resolution, dependents: decide)
            }
        }
    }

    /// Returns the permanent id of a temporary one; nil until the server has answered.
    public func permanentID(for id: Int64, in table: String) async throws -> Int64? {
        try await database.typingStorage {
            try await database.read { try TemporaryIDs.permanentID(for: id, in: table, $0) }
        }
    }
}

extension Moment {
    init(_ environment: SyncEngine.Environment, boundaries: KnownTransactions, limits: Limits = .standard) {
        self.init(boundaries: boundaries, limits: limits, now: environment.now(), newID: environment.newID)
    }
}
