import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Finds the records in which this file's confirmed rows differ from the server's, and replaces
/// them: a machine without input or output, as ``SyncRound`` is, which drives it.
///
/// Each level is one exchange. The first asks for whole tables. What differs is divided into
/// ``Limits/repairWays`` ranges of about as many rows each and asked for again, until a range has
/// at most one row here; of these the server sends its rows. So `k` differing records among `n`
/// cost about `k` times the logarithm of `n`.
///
/// Rows can be compared at one revision only. When the zone moves meanwhile, ``isBehind`` asks for
/// the news, and the comparison goes on with the ranges that it had.
package struct RowComparison: Sendable {
    /// A request to carry, and what it asks.
    package struct Question: Sendable {
        let zone: String
        /// The request, JSON.
        package let body: [UInt8]
        let revision: Int64
        let ranges: [KeyRange]
        let isFirst: Bool

        /// Asks for the fingerprint of the server's rows, computed from all of them.
        static func confirmation(_ file: DeviceFile) throws -> Question {
            let request = ComparisonRequest(
                epoch: file.epoch,
                schema: file.tables.servedHash,
                revision: file.revision,
                recompute: true,
                ranges: []
            )
            return Question(
                zone: file.zone,
                body: Array(try JSONEncoder().encode(request)),
                revision: file.revision,
                ranges: [],
                isFirst: true
            )
        }
    }

    private let limits: Limits
    /// Whether what differs is replaced, and not only told.
    private let replaces: Bool
    /// Whether somebody has said that many records may be deleted here.
    private let acceptsDeletion: Bool
    /// Whether an id may stand for another record than before.
    private let hasOtherHistory: Bool
    /// Whether the file has to take in what is new first.
    var isBehind = true
    /// Ranges that differ and have to be divided; nil before the first level.
    private var open: [KeyRange]?
    private(set) var report = Verification()

    init(limits: Limits, replaces: Bool, acceptsDeletion: Bool = false, hasOtherHistory: Bool = false) {
        self.limits = limits
        self.replaces = replaces
        self.acceptsDeletion = acceptsDeletion
        self.hasOtherHistory = hasOtherHistory
    }

    /// The rounds after which rows are taken from a snapshot; 2^53 rows need 14 at 16 ways.
    private static let roundsMax = 64

    /// Whether every range has been asked for.
    var isDone: Bool { open?.isEmpty == true }

    // MARK: Asking

    /// The next question, about the rows that the server has confirmed.
    ///
    /// The caller is outside a transaction.
    func next(_ db: Database, boundaries: KnownTransactions, environment: SyncEngine.Environment) throws -> Question {
        var question: Question?
        try EngineConnection.prepare(db, schema: DeviceFile(db).schema)
        try Transaction.withoutForeignKeys(db) {
            let file = try DeviceFile(db)
            try DrainCapture(db: db, schema: file.schema).drain(
                boundaries: boundaries,
                now: environment.now(),
                newID: environment.newID
            )
            if open == nil, replaces {
                // Nobody else has them, so they are no rows to be replaced.
                try UnsentRows(db: db, schema: file.schema).captureAgain()
                try DrainCapture(db: db, schema: file.schema).drain(
                    boundaries: [],
                    now: environment.now(),
                    newID: environment.newID
                )
            }
            let ranges = try ConfirmedRows(db: db, file: file).whileAlone { try measure(db, file) }
            question = try ranges.map { try self.question($0, file) }
        }
        guard let question else {
            throw TidemarkError(.internalFailure, "A transaction ended without a question.", fix: "Please report this.")
        }
        return question
    }

    private func measure(_ db: Database, _ file: DeviceFile) throws -> [KeyRange] {
        let here = RangeFingerprints(db, schema: file.schema)
        guard let open else { return try here.measured(file.schema.tables.map { KeyRange(table: $0.name) }) }
        return try here.split(Array(open.prefix(limits.repairRangesMax)), ways: limits.repairWays)
    }

    private func question(_ ranges: [KeyRange], _ file: DeviceFile) throws -> Question {
        var ranges = ranges
        for index in ranges.indices where ranges[index].rows <= 1 { ranges[index].send = true }
        let request = ComparisonRequest(
            epoch: file.epoch,
            schema: file.tables.servedHash,
            revision: file.revision,
            recompute: open == nil,
            ranges: ranges
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Question(
            zone: file.zone,
            body: Array(try encoder.encode(request)),
            revision: file.revision,
            ranges: ranges,
            isFirst: open == nil
        )
    }

    // MARK: Hearing

    /// Takes an answer in.
    ///
    /// The caller is outside a transaction.
    mutating func answered(
        _ body: [UInt8],
        to question: Question,
        in db: Database,
        environment: SyncEngine.Environment,
        boundaries: KnownTransactions
    ) throws -> [SyncEvent] {
        report.roundTrips += 1
        report.bytesSent += question.body.count
        report.bytesReceived += body.count
        var events: [SyncEvent] = []
        try EngineConnection.prepare(db, schema: DeviceFile(db).schema)
        let start = self
        var next = start
        try Transaction.withoutForeignKeys(db) {
            next = start
            let file = try DeviceFile(db)
            try DrainCapture(db: db, schema: file.schema).drain(
                boundaries: boundaries,
                now: environment.now(),
                newID: environment.newID
            )
            let answer = try ComparisonAnswer(body, to: question, file: file, in: db)
            guard answer.revision == question.revision, file.revision == question.revision else {
                next.isBehind = true
                return
            }
            events = try next.take(
                answer,
                question,
                RepairRows(
                    db: db,
                    file: file,
                    limits: limits,
                    now: Timestamp.text(environment.now()),
                    hasOtherHistory: hasOtherHistory
                )
            )
            if next.isDone, replaces { try next.finish(answer, file: DeviceFile(db), in: db, now: environment.now()) }
        }
        self = next
        return events
    }

    private mutating func take(_ answer: ComparisonAnswer, _ question: Question, _ rows: RepairRows) throws
        -> [SyncEvent]
    {
        let differing = answer.differing.map { question.ranges[$0] }
        let divided = differing.filter { $0.send != true }
        open = divided + (open ?? []).dropFirst(question.isFirst ? 0 : limits.repairRangesMax)
        if question.isFirst {
            report.fingerprint = answer.fingerprint
            report.expected = rows.file.fingerprint
        }
        // Each round divides all open ranges, unless a damaged table has a key twice.
        guard (open ?? []).count <= limits.repairRangesMax, report.roundTrips <= Self.roundsMax else {
            throw TidemarkError(
                .snapshotRequired,
                "More than \(limits.repairRangesMax) ranges of rows differ from the server's.",
                fix: "The rows are taken anew from a snapshot; the outbox is kept."
            )
        }
        let asked = differing.filter { $0.send == true }
        guard !asked.isEmpty else { return [] }
        let (records, events) = try rows.replace(asked, by: answer.changeSet, isTrial: !replaces)
        report.records += records
        try refuseMassDeletion(rows, unless: answer.fingerprint)
        return events
    }

    /// A server that lacks most of the records here deletes none of them unasked, unless this
    /// file's own books say that it is right: then the records came here behind the triggers' back.
    ///
    /// - Throws: `massDeletion`; the caller's transaction is rolled back.
    private func refuseMassDeletion(_ rows: RepairRows, unless confirmed: Fingerprint?) throws {
        guard replaces, !acceptsDeletion else { return }
        let expected = ConfirmedRows(db: rows.db, file: rows.file).expected
        guard expected == nil || expected != confirmed else { return }
        let surplus = Dictionary(grouping: report.records.filter { $0.difference == .surplus }) { $0.table }.map {
            (name: $0.key, records: $0.value.count)
        }.sorted { $0.name < $1.name }
        let count = surplus.reduce(0) { $0 + $1.records }
        let total = try MassDeletion.total(rows.db, rows.file.schema) + count
        guard let deletion = MassDeletion(surplus, of: total, limits: limits) else { return }
        throw deletion.error(because: "the server's rows lack them.")
    }

    /// Looks whether all rows are the server's now.
    private func finish(_ answer: ComparisonAnswer, file: DeviceFile, in db: Database, now: Date) throws {
        let confirmed = ConfirmedRows(db: db, file: file)
        let mine = try confirmed.computed()
        guard let mine, mine == answer.fingerprint else {
            throw TidemarkError(
                .fingerprintMismatch,
                "The rows still differ from the server's after they were repaired.",
                fix:
                    "A trigger of the app's may be changing rows while they are written: give it WHEN (SELECT applying FROM tidemark_state) = 0."
            )
        }
        try confirmed.keep(mine)
        try confirmed.noteCheck(now)
    }
}

/// An answer about ranges, checked.
struct ComparisonAnswer {
    let revision: Int64
    let fingerprint: Fingerprint?
    let differing: [Int]
    /// The server's rows of the ranges that were asked for, as a change set.
    let changeSet: String?

    init(_ body: [UInt8], to question: RowComparison.Question, file: DeviceFile, in db: Database) throws {
        let text = String(decoding: body, as: UTF8.self)
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT ?1 ->> '$.revision' AS revision, ?1 ->> '$.epoch' AS epoch,
                    ?1 ->> '$.fingerprint' AS fingerprint, ?1 -> '$.changeSet' AS changeSet
                WHERE json_valid(?1) AND json_type(?1, '$.revision') = 'integer'
                    AND typeof(?1 ->> '$.revision') = 'integer' AND json_type(?1, '$.epoch') = 'text'
                    AND coalesce(json_type(?1, '$.fingerprint'), 'null') IN ('text', 'null')
                    AND json_type(?1, '$.differing') = 'array'
                """,
            arguments: [text]
        )
        guard let row, try row.value("epoch") as String? == file.epoch else {
            throw TidemarkError(
                .invalidResponse,
                "The answer about differing rows is not Tidemark's, or of another history.",
                fix: "Nothing was changed; sync again."
            )
        }
        revision = try row.value("revision")
        fingerprint = try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:))
        changeSet = try row.value("changeSet")
        differing = try Int.fetchAll(
            db,
            sql: """
                SELECT DISTINCT value FROM json_each(?, '$.differing')
                WHERE type = 'integer' AND value BETWEEN 0 AND ? ORDER BY value
                """,
            arguments: [text, question.ranges.count - 1]
        )
    }
}
