import Foundation
package import GRDB
import GRDBSQLite
import Synchronization
package import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// A zone's open file: runs transactions on the current version of its tables, on GRDB's own threads.
final class ZoneFile: Sendable {
    /// Adopts the file as a zone in a transaction, or follows a schema change in it.
    typealias Adopt = @Sendable (Database, Opening) throws -> Adopted

    /// Options that apply once, when the server starts.
    struct Opening: Sendable {
        var renames: [ColumnRename] = []
        /// Keys of tables without a primary key, by table.
        var keys: [String: [String]] = [:]
        var policies: [String: ConflictPolicy] = [:]
        var objects = ObjectDeclarations()
        var isRestored = false
        /// Whether the server is starting: then the tables that the operator names must exist.
        var isFirst = false
        /// Whether the adoption makes tables of the program again, so that foreign keys must be off.
        var altersTables = false
    }

    /// What the adoption found when the file was opened.
    let adoption: ZoneAdoption
    /// What the file gained from the operator's schema, and what it did not get.
    let growth: (additions: [String], ignored: [String])
    /// The name in error messages to clients, which never see the path.
    private static let name = "the zone's file"
    /// The most connections that read at a time, besides the writer's; each is opened when it is needed first.
    static let readersMax = 8

    private let pool: DatabasePool
    private let place: FilePlace
    private let now: @Sendable () -> Int64
    private let onCommit: @Sendable (ZoneState) -> Void
    private let adopt: Adopt
    private let servedSchema: Mutex<ServedSchema>
    /// SQLite's `data_version` on the writer with the published schema; commits of other connections change it.
    private let checkedVersion = Mutex<Int64?>(nil)

    /// Opens a file, and adopts it if it is not a zone yet.
    init(
        path: String, schemaSQL: String?, opening: Opening, now: @escaping @Sendable () -> Int64,
        onCommit: @escaping @Sendable (ZoneState) -> Void, adopt: @escaping Adopt
    ) throws {
        self.now = now
        self.adopt = adopt
        self.onCommit = onCommit
        var configuration = Configuration.waiting(label: "tidemark.zone")
        configuration.maximumReaderCount = Self.readersMax
        configuration.prepareDatabase { db in
            ProgramFunctions.addStandIns(declaredIn: db)
            try EngineConnection.addFunctions(to: db)
        }
        let journal = FormerJournal(path: path)
        let pool = try TidemarkError.translatingStorageErrors(of: path) {
            try DatabasePool(path: path, configuration: configuration)
        }
        self.pool = pool
        let (adoptionResult, growth) = try journal.restoringIfRefused(pool) {
            try pool.writeWithoutTransaction { db in
                try EngineConnection.flushCommits(of: db)
                try EngineConnection.widenCaches(of: db)
                if opening.altersTables { try db.execute(sql: "PRAGMA foreign_keys = OFF") }
                var adoptionResult: (adopted: Adopted, place: FilePlace)?
                var growth: (additions: [String], ignored: [String]) = ([], [])
                try db.inTransaction(.immediate) {
                    if let schemaSQL {
                        if try SchemaIntrospection(db).tables.isEmpty {
                            try db.execute(sql: schemaSQL)
                        } else {
                            let grown = try GrowFile(db, by: schemaSQL, renames: opening.renames)
                            growth = (grown.additions, grown.ignored)
                        }
                    }
                    adoptionResult = (try adopt(db, opening), FilePlace(of: db))
                    return .commit
                }
                if opening.altersTables { try db.execute(sql: "PRAGMA foreign_keys = ON") }
                return (adoptionResult, growth)
            }
        }
        guard let adoptionResult else {
            throw TidemarkError(.unusableFile, "The file cannot be adopted.", fix: "Check that it can be written.")
        }
        place = adoptionResult.place
        self.growth = growth
        adoption = adoptionResult.adopted.adoption
        servedSchema = Mutex(adoptionResult.adopted.served)
    }

    var schema: SyncSchema { servedSchema.withLock(\.schema) }
    var schemaHash: String { servedSchema.withLock(\.hash) }

    enum Completion {
        /// With the zone in a state; nil if the caller does not know it.
        case commit(ZoneState?)
        case rollback
    }

    /// Runs `body` in a transaction on the current tables; `body` may roll it back.
    func inTransaction<Result: Sendable>(
        _ body: @escaping @Sendable (ZoneTransaction, ServedSchema) throws -> (Result, Completion)
    ) async throws -> Result {
        try await pool.writeWithoutTransaction { [self] db in
            var result: Result?
            var schemaToPublish: ServedSchema?
            var committedState: ZoneState?
            do {
                try db.inTransaction(.immediate) {
                    try self.place.requireUnmoved()
                    let current = try self.current(db)
                    ProgramFunctions.addStandIns(current.schema.objects, to: db)
                    let transaction = try ZoneTransaction(
                        db, schema: current.schema, hash: current.hash, now: self.now())
                    let (value, completion) = try body(transaction, current)
                    result = value
                    guard case .commit(let state) = completion else { return .rollback }
                    schemaToPublish = current
                    committedState = try state ?? transaction.head().state
                    return .commit
                }
                // Do not acknowledge a commit into a file that a program moved or deleted meanwhile.
                try self.place.requireUnmoved()
                // Publish the new schema only after its transaction is on disk.
                if let schemaToPublish { self.servedSchema.withLock { $0 = schemaToPublish } }
                // Runs on the writer's queue, hence in commit order.
                if let committedState { self.onCommit(committedState) }
            } catch { throw TidemarkError.translateStorageError(error, of: Self.name) }
            guard let result else {
                throw TidemarkError(
                    .internalFailure, "A transaction ended without a result.", fix: "Please report this.")
            }
            return result
        }
    }

    /// Runs `body` in a transaction on the current tables, and commits it.
    func committing<Result: Sendable>(_ body: @escaping @Sendable (ZoneTransaction, ServedSchema) throws -> Result)
        async throws -> Result
    { try await inTransaction { (try body($0, $1), .commit(nil)) } }

    /// Reads concurrently with the writer.
    func reading<Result: Sendable>(_ body: @escaping @Sendable (Database) throws -> Result) async throws -> Result {
        do {
            try place.requireUnmoved()
            return try await pool.read(body)
        } catch { throw TidemarkError.translateStorageError(error, of: Self.name) }
    }

    /// Reads the zone's tables and log at one revision, after it has absorbed what other programs have written.
    func readingZone<Result: Sendable>(_ body: @escaping @Sendable (Database, ServedSchema) throws -> Result)
        async throws -> Result
    {
        for _ in 0..<Self.readingAttemptsMax {
            let served = servedSchema.withLock { $0 }
            let result = try await reading { db -> Result? in
                guard try served.version.hasTables(of: db) else { return nil }
                let hasCaptured = try Bool.fetchOne(
                    db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_capture)"))
                return hasCaptured == true ? nil : try body(db, served)
            }
            if let result { return result }
            try await committing { transaction, _ in try transaction.absorbOutsideChanges() }
        }
        throw TidemarkError(
            .unavailable, "Other programs write to the zone's tables without a pause.", fix: "Try again in a moment.")
    }

    /// How often a read begins anew because another program has written meanwhile.
    private static let readingAttemptsMax = 10

    /// Reads the zone's epoch and last revision on the writer's connection, for which no further one is opened.
    func lastRevision(of zone: String) async throws -> ZoneRevision {
        do { return try await pool.writeWithoutTransaction { try Self.lastRevision(of: zone, in: $0) } } catch {
            throw TidemarkError.translateStorageError(error, of: Self.name)
        }
    }

    static func lastRevision(of zone: String, in db: Database) throws -> ZoneRevision {
        let row = try Row.fetchOne(db, sql: "SELECT epoch, revision FROM tidemark_zone")
        guard let row else { throw ZoneTransaction.notAZone }
        return try ZoneRevision(zone: zone, epoch: row.value("epoch"), revision: row.value("revision"))
    }

    /// Whether another program has written changes that are not yet logged.
    func hasNews(_ watch: OutsideWatch) async throws -> Bool {
        do {
            try place.requireUnmoved()
            if !watch.isOpen { try await runOnOwnThread { try watch.open() } }
            return try await watch.hasNews()
        } catch { throw TidemarkError.translateStorageError(error, of: Self.name) }
    }

    /// Returns the zone's head for a device; nil if only a write transaction can determine it.
    func head(_ watch: OutsideWatch, for device: String?) async throws -> ZoneHead? {
        do {
            try place.requireUnmoved()
            if !watch.isOpen { try await runOnOwnThread { try watch.open() } }
            return try await watch.head(of: servedSchema.withLock { $0 }, for: device)
        } catch { throw TidemarkError.translateStorageError(error, of: Self.name) }
    }

    /// Returns consecutive change sets that end with the last of a range.
    func recent(_ range: ClosedRange<Int64>, bytesMax: Int) async throws -> [RecentChangeSet] {
        let current = servedSchema.withLock { $0 }
        return try await reading { db in
            try FileConnection(db).recent(range, layout: current.schema.fingerprintLayout, bytesMax: bytesMax)
        }
    }

    /// Moves all commits from the `-wal` into the file, and closes it, even if it throws.
    ///
    /// It leaves a moved file alone, because other programs may write to it. It returns false if another program keeps
    /// reading the file, so that the latest commits remain in the `-wal`.
    func close() throws -> Bool {
        let outcome = Result { try moveLogIntoFile() }
        // The writer's connection closes last, so that SQLite removes the side files.
        pool.invalidateReadOnlyConnections()
        try pool.close()
        return try outcome.get()
    }

    private func moveLogIntoFile() throws -> Bool {
        try place.requireUnmoved()
        return try TidemarkError.translatingStorageErrors(of: Self.name) {
            try pool.writeWithoutTransaction { db in
                try Bool.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)") == false
            }
        }
    }

    /// Returns the current schema in the transaction, and follows another program's schema change.
    private func current(_ db: Database) throws -> ServedSchema {
        let published = servedSchema.withLock { $0 }
        let dataVersion = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.data_version"))
        guard checkedVersion.withLock({ $0 }) != dataVersion else { return published }
        guard try !published.version.isCurrent(in: db) else {
            checkedVersion.withLock { $0 = dataVersion }
            return published
        }
        db.clearSchemaCache()
        do { return try adopt(db, Opening()).served } catch let problem as UnsyncableSchema {
            throw TidemarkError(
                .unavailable, "The tables of the zone's file were altered so that they cannot be synced.",
                fix: "Repair them in the file. \(problem.description)")
        }
    }
}

/// Group commit: answers several requests in as few transactions as possible, usually one.
///
/// If SQLite reports a damaged page, the rest of the transaction cannot be trusted: the store then runs each request in
/// a transaction of its own, and only requests that touch the damaged page get the error.
extension ZoneFile {
    /// Answers the requests of a group in order; an error fails a whole transaction, and then no request has an answer.
    func answer(_ group: [ZoneRequest], by handler: CommitGroup) async throws -> [ZoneResult] {
        do {
            return try await answerInTurn(group, by: handler)
        } catch let error as TidemarkError where error.code == .fileDamaged && group.count > 1 {
            return try await answerAlone(group, by: handler)
        }
    }

    private func answerInTurn(_ group: [ZoneRequest], by handler: CommitGroup) async throws -> [ZoneResult] {
        try await inTransaction { transaction, _ in
            let answers = try handler.handle(group, at: transaction.now, in: transaction)
            if group.count > 1, let damage = answers.results.compactMap(Self.damage).first { throw damage }
            return (answers.results, answers.haveEffect ? .commit(answers.state) : .rollback)
        }
    }

    private func answerAlone(_ group: [ZoneRequest], by handler: CommitGroup) async throws -> [ZoneResult] {
        var answers: [ZoneResult] = []
        for request in group {
            do { answers += try await answerInTurn([request], by: handler) } catch let error as TidemarkError
                where error.code == .fileDamaged
            { answers.append(.failure(error)) }
        }
        return answers
    }

    /// Returns the `fileDamaged` error of an answer; nil for every other answer.
    private static func damage(_ answer: ZoneResult) -> TidemarkError? {
        guard case .failure(let error as TidemarkError) = answer, error.code == .fileDamaged else { return nil }
        return error
    }
}

/// The device and inode numbers of a database's file, `-wal` and `-shm` when it was opened.
///
/// A connection keeps using the files that it opened, even after another process deletes, moves or
/// replaces them. Its later commits are then lost when it closes. SQLite's own
/// `SQLITE_FCNTL_HAS_MOVED` checks the main file only, but a deleted `-wal` loses commits as well.
package struct FilePlace: Hashable, Sendable {
    private struct Entry: Hashable {
        let path: String
        let device: UInt64
        let inode: UInt64

        /// Looks up a path; nil if no file is there.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            self.path = path
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
        }
    }

    private let entries: [Entry]
    private let role: String

    /// Records the files of a connection's main database; an in-memory database has none.
    ///
    /// Call this after the connection has read, because SQLite creates the side files then. `role` is the subject of
    /// a message.
    package init(of db: Database, role: String = "The zone's file") {
        self.role = role
        let path = sqlite3_db_filename(db.sqliteConnection, "main").map { String(cString: $0) }
        entries = ["", "-wal", "-shm"].compactMap { Entry((path ?? "") + $0) }
    }

    /// Checks, by a system call a file, that the same files are at their paths; clients read the error, without paths.
    package func requireUnmoved() throws(TidemarkError) {
        guard let entry = entries.first(where: { Entry($0.path) != $0 }) else { return }
        let side = ["-wal", "-shm"].first { entry.path.hasSuffix($0) }
        throw TidemarkError(
            .storageFailed,
            """
            \(role)\(side.map { " lacks its \($0), which" } ?? "") was deleted, moved or \
            replaced while the server had it open; the server commits nothing any more.
            """,
            fix: """
                At the server: stop it, put the file back together with its -wal, or a backup, and \
                start it again (BACKUP.md). Nothing was changed, and unsent changes are kept.
                """)
    }
}
