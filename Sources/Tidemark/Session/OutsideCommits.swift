import GRDB
import TidemarkCore

/// Polls a file for commits of other connections: one poll for all that wait for them.
///
/// SQLite's `data_version` tells a connection that others have committed since its last poll, but not how often. The
/// poll runs while a stream of state waits for its next value, and during the background sync, which also makes change
/// sets of what the triggers have captured. All changes captured between two polls become one change set, so
/// infrequent polls combine more transactions. Without polls, the changes are sent with the next sync.
actor OutsideCommits {
    private static let pause = Duration.milliseconds(100)
    private let database: any DatabaseWriter
    private let commits: CommitObserver
    private let environment: SyncEngine.Environment
    /// SQLite's `data_version` at the last poll, and at the last one that drained; nil before the first one.
    private var version: Int64?
    private var drainedVersion: Int64?
    private var hasFailed = false
    private var readers = 0
    private var isDraining = false
    private var polling: Task<Void, Never>?
    /// The poll that the first readers share.
    private var firstPoll: Task<Bool, any Error>?

    init(_ database: any DatabaseWriter, commits: CommitObserver, environment: SyncEngine.Environment) {
        self.database = database
        self.commits = commits
        self.environment = environment
    }

    deinit { polling?.cancel() }

    /// Begins to make change sets of the changes of other connections.
    func startDraining() {
        isDraining = true
        // What others committed before is captured, too.
        drainedVersion = nil
        run()
    }

    /// Ends it; afterwards the poll writes nothing.
    func stopDraining() async {
        isDraining = false
        let task = polling
        task?.cancel()
        polling = nil
        await task?.value
        run()
    }

    /// Makes sure that the poll finds each commit from now on.
    func prepare() async throws {
        guard version == nil else { return }
        let poll = firstPoll ?? Task { try await self.poll(draining: false) }
        firstPoll = poll
        defer { firstPoll = nil }
        _ = try await poll.value
    }

    /// Polls until the signal counts more changes than `count`, the time is over, or the engine or the task ends.
    func waitForChange(beyond count: UInt64, atMost pause: Duration? = nil) async {
        readers += 1
        run()
        await commits.signal.wait(beyond: count, atMost: pause)
        readers -= 1
        run()
    }

    /// Starts or ends the poll.
    private func run() {
        guard readers > 0 || isDraining else {
            polling?.cancel()
            polling = nil
            return
        }
        guard polling == nil else { return }
        polling = Task { [weak self] in
            while !Task.isCancelled {
                await self?.pollOnce()
                do { try await Task.sleep(for: Self.pause) } catch { return }
            }
        }
    }

    private func pollOnce() async {
        do {
            try await poll(draining: isDraining)
            hasFailed = false
        } catch {
            // A reader that wakes reads the file, and reports the error; so does the next sync.
            if !hasFailed, !Task.isCancelled { commits.signal.advance() }
            hasFailed = !Task.isCancelled
        }
    }

    /// Looks for commits of others, and drains what they captured; returns whether there was anything to drain.
    @discardableResult func poll(draining: Bool) async throws -> Bool {
        let (version, isDrained) = try await database.writeWithoutTransaction {
            [drainedVersion, commits, environment] db in
            let current = try Int64.fetchOne(db, cached: "PRAGMA data_version")
            guard draining, current != drainedVersion else { return (current, false) }
            return (current, try Self.drain(db, commits: commits, environment: environment))
        }
        if version != self.version { commits.signal.advance() }
        self.version = version
        if draining { drainedVersion = version }
        if isDrained { commits.wakeForEdit() }
        return isDrained
    }

    private static func drain(_ db: Database, commits: CommitObserver, environment: SyncEngine.Environment) throws
        -> Bool
    {
        let hasCaptured = try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_capture)")
        guard hasCaptured == true else { return false }
        var isDrained = false
        try db.inTransaction(.immediate) {
            let file = try DeviceFile(db)
            // The next sync adapts altered tables and drains before that, or reports their problem.
            guard !FitSchema.isNeeded(file), file.tables.problems.isEmpty else { return .rollback }
            try RoundContext(prepared: db, at: Moment(environment, boundaries: commits.takeBoundaries())).drain()
            isDrained = true
            return .commit
        }
        return isDrained
    }
}

/// Changes of other connections.
extension SyncEngine {
    /// Begins to make change sets of other connections' changes, until ``stop()``.
    package func watchOutside() async { await outside.startDraining() }

    /// Makes a change set of what other connections captured since the last poll; returns whether there was anything.
    @discardableResult package func takeOutsideCommits() async throws -> Bool {
        try await outside.poll(draining: true)
    }

    /// Divides a parked change set of other programs into independent parts.
    ///
    /// Each part becomes a change set of its own; uncontested parts are retried. The parts of a change set that was too
    /// large to send go together up to a size.
    ///
    /// - Returns: The remaining conflicts: contested parts, and parts that no longer fit the rows.
    /// - Throws: ``TidemarkCore/TidemarkError`` if a transaction of the app made it, if all its records
    ///   depend on each other, or if it depends on another parked change set.
    public func divide(_ conflict: String) async throws -> [Conflict] {
        let parked = try await withRound { [limits] round in
            try DivideConflict(round: round, limits: limits).divide(conflict)
        }
        commits.wakeForEdit()
        let ids = Set(parked)
        return try await conflicts().filter { ids.contains($0.id) }
    }
}
