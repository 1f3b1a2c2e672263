public import Foundation
public import GRDB
public import TidemarkCore
import TidemarkSQLite

/// Keeps a SQLite file in sync with a server.
///
/// The only object that an app must create.
///
/// The app goes on using its GRDB database with ordinary SQL, records and observations; triggers
/// in the file capture what it, or any other program, writes. The engine carries change sets to
/// the server and the answers into the tables.
///
/// ```swift
/// let sync = try await SyncEngine(database, server: "https://sync.example.org")
/// await sync.start()                        // in the background from here on
/// for await event in sync.events { ... }    // conflicts, remote changes, new ids
/// ```
///
/// Observe with `ValueObservation.trackingConstantRegion` where you can: with `tracking`, GRDB has
/// SQLite compile the engine's statements anew after each commit that it observes.
///
/// An actor: safe to use from any task. At most one round is in flight; callers of ``sync()``
/// share it.
public actor SyncEngine {
    /// The clock, randomness and process checks that an engine uses.
    ///
    /// Tests pass a clock and randomness of their own.
    public struct Environment: Sendable {
        /// Returns the current time.
        public let now: @Sendable () -> Date
        /// Returns a UUID of 128 random bits.
        public let newID: @Sendable () -> UUID

        /// This process's id; other processes use it to check whether this one still runs.
        public let process: Int32
        /// Returns whether the process with this id still runs.
        public let isRunning: @Sendable (Int32) -> Bool

        /// Makes an environment.
        ///
        /// Without `isRunning`, every other process counts as ended.
        public init(
            now: @escaping @Sendable () -> Date,
            newID: @escaping @Sendable () -> UUID,
            process: Int32 = 0,
            isRunning: @escaping @Sendable (Int32) -> Bool = { _ in false }
        ) {
            self.now = now
            self.newID = newID
            self.process = process
            self.isRunning = isRunning
        }
    }

    /// A stream of the events sent after this call.
    ///
    /// Each access returns a new stream.
    public nonisolated var events: AsyncStream<SyncEvent> { eventHub.stream() }
    /// The status now and after every round and every local commit.
    public nonisolated var statuses: AsyncStream<DeviceStatus> { statusHub.stream() }

    nonisolated let eventHub = Broadcast<SyncEvent>()
    private nonisolated let statusHub = Broadcast<DeviceStatus>()
    let database: any DatabaseWriter
    private let transport: any Transport
    let environment: Environment
    private let limits: Limits
    let commits: CommitObserver
    private let merge: [String: MergeFunction]
    private let zone: String
    private let shortQuestions = Remembered(ShortQuestions())

    // MARK: State: touched on the actor only

    /// The round in flight.
    private var inFlight: Task<Void, any Error>?
    /// Whether the round in flight asks the server, so that later callers can join it.
    private var isAsking = false
    /// The background loop.
    private var loop: Task<Void, Never>?
    /// The connection on which the server announces new revisions.
    private var listening: Task<Void, Never>?
    /// The task that polls for commits of other programs, and the version that its last poll saw.
    var watching: Task<Void, Never>?
    var versionSeen: Int64?

    /// Prepares a database for syncing: bookkeeping tables, triggers, identity.
    ///
    /// It makes no network request.
    ///
    /// The tables that sync are the file's own at this moment, later those that the server has.
    /// They must be empty the first time: rows arrive with the first sync.
    ///
    /// - Parameters:
    ///   - database: The app's `DatabaseQueue` or `DatabasePool`, migrated.
    ///   - server: The server's URL.
    ///   - zone: The zone.
    ///   - credentials: The bearer token that identifies the user, or a provider of it.
    ///   - transport: A transport to use instead of HTTP with these credentials.
    ///   - renames: Columns that the app's migrations renamed, `["notes.body": "notes.text"]`; a
    ///     rename may stay here for ever.
    ///   - independent: The tables in which edits that other programs made between two looks are
    ///     independent of each other; nil: those that were declared last for the file, at first
    ///     none.
    ///   - environment: Time and randomness.
    ///   - limits: The bounds on requests and responses.
    ///   - merge: By table, a function that merges a record automatically when the server refuses a
    ///     change of it.
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once,
    ///   ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    public init(
        _ database: any DatabaseWriter,
        server: String,
        zone: String = "main",
        credentials: Credentials = .none,
        transport: (any Transport)? = nil,
        renames: [String: String] = [:],
        independent: IndependentTables? = nil,
        environment: Environment = .system,
        limits: Limits = .standard,
        merge: [String: MergeFunction] = [:]
    ) async throws {
        self.database = database
        self.merge = merge
        self.zone = zone
        self.transport = try transport ?? HTTPTransport(url: server, credentials: credentials)
        self.environment = environment
        self.limits = limits
        commits = CommitObserver()
        let newID = environment.newID
        let now = environment.now
        let renames = try renames.sorted { $0.key < $1.key }.map { try ColumnRename($0.key, to: $0.value) }
        try await database.typingStorage {
            try await database.writeWithoutTransaction { db in
                try EngineConnection.flushCommits(of: db)
                // Another program may hold the write lock: wait for it, unless the app set a busy mode.
                if case .immediateError = db.configuration.busyMode {
                    try db.execute(sql: "PRAGMA busy_timeout = 5000")
                }
                try Transaction.withoutForeignKeys(db) {
                    try PrepareDevice(db: db).prepare(
                        server: server,
                        zone: zone,
                        renames: renames,
                        independent: independent,
                        now: now(),
                        newID: newID
                    )
                }
            }
        }
        database.add(transactionObserver: commits, extent: .observerLifetime)
    }

    deinit {
        listening?.cancel()
        watching?.cancel()
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
        try await sync(acceptingMassDeletion: acceptingMassDeletion, told: nil)
    }

    /// Syncs once, optionally with a change that the server pushed.
    ///
    /// With `told`, the engine does not ask the server for newer changes.
    package func sync(acceptingMassDeletion: Bool = false, told: PushedChange?) async throws {
        var isFirst = true
        while let inFlight {
            let suffices = (isAsking || told != nil) && !acceptingMassDeletion
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
                let isTheirs = error is CancellationError && !Task.isCancelled
                guard isTheirs || !suffices else { throw error }
            }
            isFirst = false
        }
        let task = Task { _ = try await rounds(.sync(acceptingMassDeletion: acceptingMassDeletion), told) }
        inFlight = task
        isAsking = told == nil
        do {
            // Whoever asks from now on has edits that this round has not seen.
            defer { if inFlight == task { inFlight = nil } }
            try await withTaskCancellationHandler {
                try await database.typingStorage { try await task.value }
            } onCancel: {
                task.cancel()
            }
        } catch {
            if let error = error as? TidemarkError {
                eventHub.send(.failed(code: error.code.rawValue, message: error.message))
            }
            // Why the sync failed matters more than that a failing disk hides the status as well.
            try? await announceStatus()
            throw error
        }
        try await announceStatus()
    }

    /// Syncs in the background: after local commits, when the server tells of others' commits, and
    /// at least every `interval`.
    ///
    /// Commits of other programs are noticed one by one, a tenth of a second apart, and become
    /// change sets of their own; those that are closer go together.
    ///
    /// Failures are retried with growing, jittered pauses and told as events.
    ///
    /// - Parameters:
    ///   - interval: The longest pause while all is well.
    ///   - isLive: Whether to hold a connection on which the server tells of news. Without it, or
    ///     while it is broken, others' commits arrive with the next round.
    public func start(every interval: Duration = .seconds(30), isLive: Bool = true) {
        guard loop == nil else { return }
        if isLive { listen() }
        watchOutside()
        let pace = Pace(interval: interval)
        loop = Task { [weak self] in
            var pace = pace
            var told: PushedChange?
            while !Task.isCancelled {
                guard let self else { return }
                await self.round(&pace, told)
                told = await self.pause(atMost: pace.pause(jitter: Pace.systemJitter()), canEndEarly: pace.endsWithEdit)
            }
        }
    }

    /// Ends the background sync.
    ///
    /// A round in flight is cancelled; its effects are whole or none.
    public func stop() {
        loop?.cancel()
        listening?.cancel()
        watching?.cancel()
        loop = nil
        listening = nil
        watching = nil
    }

    /// Begins to listen to the server, until ``stop()``.
    package func listen() {
        guard listening == nil else { return }
        let ears = Listening(database, transport, zone: zone, waking: commits)
        listening = Task { await ears.run() }
    }

    /// Waits between two rounds; if it can end early, for an edit or for news that are not in this
    /// file.
    ///
    /// - Returns: The news, if the server has told them.
    package func pause(atMost pause: Duration, canEndEarly: Bool) async -> PushedChange? {
        let start = ContinuousClock.now
        let end = start + pause
        let rested = start + Pace.hintGap
        while !Task.isCancelled {
            await commits.wait(atMost: end - .now, orEdit: canEndEarly, orHint: canEndEarly)
            guard canEndEarly, let hint = commits.takeHint() else { return nil }
            guard await isNews(hint.end) else { continue }
            await commits.wait(atMost: rested - .now, orEdit: true)
            return (commits.takeHint() ?? hint).change
        }
        return nil
    }

    private func isNews(_ hint: ZoneRevision) async -> Bool {
        do { return hint.isNews(to: try await database.read { try ZoneRevision(knownIn: $0) }) } catch {
            // A round will say what is wrong with the file.
            return true
        }
    }

    /// Syncs; `sync()` tells the app of a failure, what is left to decide is when to try again.
    private func round(_ pace: inout Pace, _ told: PushedChange?) async {
        do {
            try await sync(told: told)
            pace.succeeded()
        } catch { pace.failed(retryAfterSeconds: (error as? TidemarkError)?.retryAfterSeconds) }
    }

    /// Compares all rows of this file with the server's, and tells which records differ.
    ///
    /// Takes in what is new first, since rows can be compared at one revision only; sends nothing.
    ///
    /// - Parameter repairing: Whether the records that differ are replaced by the server's. Waiting
    ///   edits stay, but those of a record that differed are parked as a conflict.
    /// - Returns: What differed, and what finding it cost.
    /// - Throws: ``TidemarkCore/TidemarkError``, for instance `unreachable`.
    public func verify(repairing: Bool = false) async throws -> Verification {
        _ = await inFlight?.result
        let verification = try await database.typingStorage { try await rounds(.verify(repairing: repairing)) }
        try await announceStatus()
        return verification ?? Verification()
    }

    /// Compares this file's rows with its own books, without a server.
    ///
    /// - Returns: The fingerprint of the confirmed rows by the books, and that computed from the
    ///   rows; nil where it is not known.
    public func checkRows() async throws -> (expected: Fingerprint?, computed: Fingerprint?) {
        let commits = commits
        let environment = environment
        return try await database.write { db in
            let file = try DeviceFile(db)
            try EngineConnection.prepare(db, schema: file.schema)
            try DrainCapture(db: db, schema: file.schema).drain(
                boundaries: commits.takeBoundaries(),
                now: environment.now(),
                newID: environment.newID
            )
            let rows = ConfirmedRows(db: db, file: file)
            return (rows.expected, try rows.computed())
        }
    }

    private func rounds(_ purpose: SyncRound.Purpose, _ told: PushedChange? = nil) async throws -> Verification? {
        let session = SyncSession(
            database: database,
            transport: transport,
            environment: environment,
            limits: limits,
            commits: commits,
            merge: merge,
            shortQuestions: shortQuestions,
            told: told
        )
        return try await session.run(purpose) { [eventHub] in eventHub.send($0) }
    }

    // MARK: Looking

    /// Where the device stands.
    public func status() async throws -> DeviceStatus {
        try await database.typingStorage { try await database.read { try DeviceStatus($0) } }
    }

    /// The refused change sets that wait for a decision, oldest first.
    public func conflicts() async throws -> [Conflict] {
        try await database.typingStorage { try await database.read { try SyncEngine.conflicts(in: $0) } }
    }

    /// The records of a conflict that somebody else has deleted, and that ``Resolution/retry``
    /// makes anew; where the server gives ids, under new ones.
    ///
    /// - Parameter conflict: The conflict's id, or its number.
    /// - Returns: The records, as the conflict has them.
    /// - Throws: ``TidemarkCore/TidemarkError`` when there is no such conflict.
    public func madeAnew(byRetrying conflict: String) async throws -> [Conflict.Record] {
        try await database.typingStorage {
            try await database.write { db in
                try ResolveConflict(db: db, schema: DeviceFile(db).schema).madeAnew(conflict)
            }
        }
    }

    /// Decides what becomes of a conflict, or of values that were overruled.
    ///
    /// The outcome is an ordinary change set.
    ///
    /// - Parameters:
    ///   - conflict: The conflict's id, or its number.
    ///   - resolution: Whose version stays.
    /// - Returns: The conflicts that were parked because they build on this one, in the order in
    ///   which they are resolved next.
    /// - Throws: ``TidemarkCore/TidemarkError`` when there is no such conflict, when it builds on
    ///   one that is parked itself, or when a retried change does not fit the rows any more.
    @discardableResult public func resolve(_ conflict: String, _ resolution: Resolution) async throws -> [Conflict] {
        let dependents = try await database.typingStorage {
            try await database.write { db in
                try ResolveConflict(db: db, schema: DeviceFile(db).schema).resolve(conflict, resolution)
            }
        }
        try await announceStatus()
        return dependents
    }

    /// Whether a record has changes that the server has not acknowledged.
    public func isPending(table: String, key: String) async throws -> Bool {
        try await database.typingStorage {
            try await database.write { [commits, environment] db in
                let file = try DeviceFile(db)
                try EngineConnection.prepare(db, schema: file.schema)
                try DrainCapture(db: db, schema: file.schema).drain(
                    boundaries: commits.takeBoundaries(),
                    now: environment.now(),
                    newID: environment.newID
                )
                return try Bool.fetchOne(
                    db,
                    sql: "SELECT EXISTS (SELECT 1 FROM tidemark_outbox WHERE tbl = ? AND key = ?)",
                    arguments: [table, key]
                ) ?? false
            }
        }
    }

    /// The permanent id that a temporary one became; nil while the server has not answered.
    public func permanentID(for id: Int64, in table: String) async throws -> Int64? {
        try await database.typingStorage {
            try await database.read { try TemporaryIDs.permanentID(for: id, in: table, $0) }
        }
    }

    func announceStatus() async throws { statusHub.send(try await status()) }
}
