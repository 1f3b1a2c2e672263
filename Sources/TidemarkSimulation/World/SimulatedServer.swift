import GRDB
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkEmbedded

/// The server: the real core on a real database, with a shell of a few lines.
final class SimulatedServer {
    /// The points at which its process may end while it serves a request.
    enum Crash: Int { case never, beforeCommit, afterCommit }

    static let fileName = "zone"
    /// The zone's name.
    static let zone = "main"
    /// The beginning of every run, in milliseconds since 1970.
    static let now: Int64 = 1_767_312_000_000

    let storage: any SimulatedStorage
    private(set) var schema: SyncSchema { didSet { schemaHash = nil } }
    /// The hash of the schema, since to compute it takes longer than to answer a short question.
    private var schemaHash: String?
    /// The version of its tables.
    private(set) var version: Int
    private let handler: CommitGroup
    private let limits: Limits
    /// The change sets in memory to answer from.
    private var recent = RecentChangeSets()
    private(set) var database: DatabaseQueue
    /// Whether its process runs.
    var isUp = true
    /// Its clock, in milliseconds since 1970; it stands still if no policy needs it.
    var wall = SimulatedServer.now
    /// The journal of its requests.
    var journal: Journal?

    /// Serves an existing file.
    init(_ storage: any SimulatedStorage, schema: SyncSchema, limits: Limits, version: Int) throws {
        self.storage = storage
        self.schema = schema
        self.version = version
        handler = CommitGroup(limits: limits)
        self.limits = limits
        database = try storage.open(Self.fileName)
    }

    private func hash() throws -> String {
        if let schemaHash { return schemaHash }
        let hash = try SchemaText.hash(schema)
        schemaHash = hash
        return hash
    }

    private func transaction(_ db: Database) throws -> ZoneTransaction {
        try ZoneTransaction(db, schema: schema, hash: hash(), now: wall)
    }

    /// Answers a request in one transaction.
    func handle(_ body: [UInt8], crash: Crash) throws -> [UInt8] {
        try handle([ZoneRequest(.sync(body), access: .local("main"))], crash: crash)[0].get().text
    }

    /// Compares ranges of a device's rows with the zone's.
    func compare(_ body: [UInt8]) throws -> [UInt8] {
        try handle([ZoneRequest(.fingerprints(body), access: .local("main"))], crash: .never)[0].get().text
    }

    /// Answers a question about the history of a record.
    func history(of question: HistoryQuestion) throws -> [UInt8] {
        try absorb()
        return try ask { reader in
            let table = try reader.schema.table(question.table)
            var query = try PageQuery([])
            query.limit = 500
            return Array(try RecordHistory(of: table, reader).json(question.key, query).utf8)
        }
    }

    /// Answers requests of several devices in one transaction; `group` has the full form of short
    /// questions.
    ///
    /// `look` reads the file after each of them, unless it is never committed.
    func handle(
        _ group: [ZoneRequest], shorts: [DeviceCore.ConditionalGet?] = [], crash: Crash,
        look: (Database, Int, ZoneResult) throws -> Void = { _, _, _ in }
    ) throws -> [ZoneResult] {
        var results: [ZoneResult] = []
        try inTransaction { db in
            let areFull = shorts.allSatisfy { $0 == nil }
            let together = areFull && group.count > 1 ? try answerTogether(group, db) : nil
            let transaction = try self.transaction(db)
            var haveEffect = false
            for (index, request) in group.enumerated() {
                if let short = shorts.isEmpty ? nil : shorts[index] {
                    results.append(try news(short, request: request, db: db))
                } else if let pulled = try pull(request, db) {
                    results += pulled
                } else {
                    let answers = try answerAlone(request, in: transaction)
                    results += answers.results
                    haveEffect = haveEffect || answers.haveEffect
                }
                if crash != .beforeCommit { try look(db, index, results[index]) }
            }
            try compare(together, results)
            let isDone = crash != .beforeCommit && haveEffect
            if !isDone { recent = RecentChangeSets() }
            return isDone ? .commit : .rollback
        }
        if crash != .beforeCommit { try journal?.add(group, results) }
        return results
    }

    /// Answers a request; a refused one leaves no effect.
    private func answerAlone(_ request: ZoneRequest, in transaction: ZoneTransaction) throws -> CommitGroup.Answers {
        var answers: CommitGroup.Answers?
        try transaction.db.inSavepoint {
            let made = try handler.handle([request], at: transaction.now, in: transaction)
            answers = made
            return made.haveEffect ? .commit : .rollback
        }
        guard let answers else { throw Finding("answers", actor: "server", detail: "a request has no answer") }
        return answers
    }

    /// Answers a group together, without an effect.
    ///
    /// With a planted bug each is answered in its turn only, and so is a group that chooses ids where the server draws
    /// them: a group passes over these, and one by one, the next id follows the highest.
    private func answerTogether(_ group: [ZoneRequest], _ db: Database) throws -> [ZoneResult]? {
        guard !PlantedBug.isAnyPlanted, !group.contains(where: Self.choosesIDs) else { return nil }
        var answers: [ZoneResult]?
        try db.inSavepoint {
            let transaction = try self.transaction(db)
            answers = try handler.handle(group, at: transaction.now, in: transaction).results
            return .rollback
        }
        return answers
    }

    /// Whether a request creates a record with an id that no device has been lent.
    private static func choosesIDs(_ request: ZoneRequest) -> Bool {
        guard case .sync(let text) = request.kind else { return false }
        let creations = String(decoding: text, as: UTF8.self).matches(of: /"create":\[([-0-9,]+)\]/)
        return creations.flatMap { $0.1.split(separator: ",") }.contains { id in
            Int64(id).map { $0 > 0 && IDLayout.isOwn($0) } ?? false
        }
    }

    /// Checks that a group's answers equal those of the requests one by one.
    private func compare(_ together: [ZoneResult]?, _ results: [ZoneResult])
        throws
    {
        for (together, result) in zip(together ?? [], results) {
            let isSame =
                switch (together, result) {
                case (.success(let together), .success(let result)): together.content == result.content
                case (.failure(let together), .failure(let result)): "\(together)" == "\(result)"
                default: false
                }
            guard isSame else {
                throw Finding(
                    "live", actor: "server",
                    detail: "a group was answered \(Self.text(together)), and one by one \(Self.text(result))")
            }
        }
    }

    private static func text(_ result: ZoneResult) -> String {
        switch result {
        case .failure(let error): "\(error)"
        case .success(let answer):
            switch answer.content {
            case .text(let text): String(decoding: text, as: UTF8.self)
            case .writes(let answers): "\(answers)"
            case .news(let news): "\(String(describing: news))"
            }
        }
    }

    /// Answers a request without change sets from memory, if possible.
    private func pull(_ request: ZoneRequest, _ db: Database) throws -> [ZoneResult]? {
        guard case .sync(let text) = request.kind else { return nil }
        let reading = Result { try PullRequests.read(text, limits: limits) }
        if case .failure(let error) = reading { return [.failure(error)] }
        guard let pull = try reading.get() else { return nil }
        let file = FileConnection(db)
        guard let head = try head(for: pull.device, in: file) else { return nil }
        let outcome = try remembering(file, head: head) { $0.answer(pull, at: head, limits: limits) }
        guard case .answer(let answer) = outcome else { return nil }
        let body = Array(answer.text.utf8)
        try compare(body, request: request, db: db)
        return [.success(ZoneAnswer(.text(body)))]
    }

    /// Answers a short question from memory, as its device understands the answer.
    private func news(_ short: DeviceCore.ConditionalGet, request: ZoneRequest, db: Database) throws -> ZoneResult {
        let refusal = TidemarkError(.fullRequestRequired, "Too few words.", fix: "Ask in full.")
        let file = FileConnection(db)
        guard let head = try head(for: short.device, in: file) else { return .failure(refusal) }
        let outcome = try remembering(file, head: head) {
            $0.news(for: short.device, since: short.tag, at: head, limits: limits)
        }
        guard case .answer(let answer) = outcome else { return .failure(refusal) }
        let isNews = answer.maxRevision > short.tag.revision
        let body = isNews ? Array(answer.text.utf8) : short.nothingNew
        try compare(body, request: request, db: db)
        return .success(ZoneAnswer(.text(body)))
    }

    /// The change sets from a revision to the latest one, for listeners; nil if they are unknown,
    /// or not small.
    func change(after base: ZoneRevision) throws -> ZoneChange? {
        var change: ZoneChange?
        try inTransaction { db in
            let file = FileConnection(db)
            guard let head = try head(for: nil, in: file) else { return .rollback }
            let outcome = try remembering(file, head: head) { $0.change(after: base, at: head, limits: limits) }
            if case .answer(let recentChange) = outcome { change = recentChange }
            return .rollback
        }
        return change
    }

    private func head(for device: String?, in file: FileConnection) throws -> ZoneHead? {
        try file.zoneHead(for: device, schema: hash(), layout: schema.fingerprintLayout)
    }

    /// Judges a request by the change sets in memory, and loads missing ones.
    private func remembering<Answer>(
        _ file: FileConnection, head: ZoneHead, judge: (RecentChangeSets) -> FromMemory<Answer>
    ) throws -> FromMemory<Answer> {
        let outcome = judge(recent)
        guard case .load(let range) = outcome else { return outcome }
        let run = try file.recent(range, layout: schema.fingerprintLayout, bytesMax: limits.catchUpBytesMax)
        recent.take(run, at: head)
        return judge(recent)
    }

    /// Checks that the tables would have given the same answer, byte for byte.
    private func compare(_ body: [UInt8], request: ZoneRequest, db: Database) throws {
        var slow: [UInt8]?
        try db.inSavepoint {
            let transaction = try self.transaction(db)
            let results = try handler.handle([request], at: transaction.now, in: transaction).results
            if case .success(let answer) = results.first { slow = answer.text }
            return .rollback
        }
        guard slow == body else {
            throw Finding("live", actor: "server", detail: "memory answered otherwise than the tables would")
        }
    }

    /// Copies the records that changed since into a snapshot file.
    ///
    /// - Returns: Whether they are fewer than all rows.
    func delta(since base: DeltaBase, to path: String) throws -> Bool {
        let zoneSchema = try database.read { try transaction($0).head().state.schema }
        guard zoneSchema == base.schema else { return false }
        let zone = storage.path(of: Self.fileName)
        return try SnapshotBuilder(zonePath: zone, schema: schema, since: base).copy(to: path) != nil
    }

    /// Copies the zone into a snapshot file.
    func snapshot(to path: String) throws {
        try absorb()
        journal?.add(.snapshot)
        let builder = SnapshotBuilder(zonePath: storage.path(of: Self.fileName), schema: schema)
        guard try builder.copy(to: path) != nil else {
            throw Finding("live", actor: "server", detail: "a snapshot found captured changes that nobody made")
        }
    }

    /// Makes a revision of other programs' writes.
    func absorb() throws {
        try inTransaction { db in
            let transaction = try self.transaction(db)
            try transaction.absorbOutsideChanges()
            // A snapshot carries it.
            _ = try transaction.fingerprint(at: transaction.head().state.revision)
            return .commit
        }
    }

    /// Alters the tables as an administrator does, and follows as the server does at once.
    func migrate(_ policies: [String: ConflictPolicy]) throws {
        var adoption: ZoneAdoption?
        try database.writeWithoutTransaction { db in
            let step = Migrations.steps[version]
            try db.execute(sql: step.sql + step.backfill.server)
            try db.inTransaction(.immediate) {
                adoption = try ZoneAdoption(
                    db, name: "main", epoch: "00000000-0000-4000-8000-000000000001", excluding: [], policies: policies,
                    renames: step.renames)
                return .commit
            }
        }
        if let adoption { schema = adoption.schema }
        version += 1
        let step = Migrations.steps[version - 1]
        guard let journal else { return }
        try absorb()
        journal.add(
            .migration(
                renames: step.renames, schemaSQL: ZoneSchema.sql + Migrations.sql(version),
                backfill: step.backfill.server))
        journal.add(.snapshot)
    }

    /// Restores its file from a copy, and tells the server so.
    func putBack(_ copy: DatabaseQueue, policies: [String: ConflictPolicy], epoch: String) throws {
        recent = RecentChangeSets()
        try copy.backup(to: database)
        try database.writeWithoutTransaction { db in
            try db.inTransaction(.immediate) {
                schema = try ZoneAdoption(
                    db, name: "main", epoch: epoch, isRestored: true, excluding: [], policies: policies
                ).schema
                return .commit
            }
        }
    }

    /// The history that its file goes on with.
    func epoch() throws -> String { try read { try String.fetchOne($0, sql: "SELECT epoch FROM tidemark_zone") ?? "" } }

    /// The revision at which the log begins.
    func horizon() throws -> Int64 {
        try read { try Int64.fetchOne($0, sql: "SELECT horizon FROM tidemark_zone") ?? 0 }
    }

    /// The latest revision.
    func revision() throws -> Int64 {
        try read { try Int64.fetchOne($0, sql: "SELECT revision FROM tidemark_zone") ?? 0 }
    }

    /// The zone's present state.
    func reached() throws -> ZoneRevision {
        let row = try read { try Row.fetchOne($0, sql: "SELECT epoch, revision FROM tidemark_zone") }
        return ZoneRevision(zone: Self.zone, epoch: row?[0] ?? "", revision: row?[1] ?? 0)
    }

    /// Runs SQL as another program would.
    func writeOutside(_ body: (Database) throws -> Void) throws {
        try database.writeWithoutTransaction { db in
            try db.inTransaction(.immediate) {
                try body(db)
                return .commit
            }
        }
        guard let journal else { return }
        let before = try revision()
        try absorb()
        journal.add(
            .outside(
                try read {
                    try String.fetchOne(
                        $0, sql: "SELECT \(Recorder.body) FROM tidemark_revision AS log_entry WHERE revision > ?",
                        arguments: [before])
                }
            ))
        journal.add(.snapshot)
    }

    /// Reads with plain SQL.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try database.writeWithoutTransaction(body)
    }

    /// Answers a question in a read transaction, after ``absorb()``.
    func ask<Answer>(_ question: (any ZoneReader) throws -> Answer) throws -> Answer {
        var answer: Result<Answer, any Error>?
        try inTransaction { db in
            answer = Result { try question(FileReader(db, schema: schema, hash: hash(), for: .local("main"))) }
            return .rollback
        }
        guard let answer else { throw Finding("live", actor: "server", detail: "a question was not asked") }
        return try answer.get()
    }

    /// Handles the end of its process: connections and memory are gone.
    func restart(opensAnew: Bool, decide: (Int) -> Int) throws {
        recent = RecentChangeSets()
        guard opensAnew || storage.forgets else { return }
        try database.close()
        try storage.crash(Self.fileName, decide: decide)
        database = try storage.open(Self.fileName)
    }

    private func inTransaction(_ body: (Database) throws -> Database.TransactionCompletion) throws {
        try database.writeWithoutTransaction { db in
            try db.inTransaction(.immediate) { try body(db) }
        }
    }
}
