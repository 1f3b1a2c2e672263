import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Finds the records in which this file's confirmed rows differ from the server's, and replaces them.
///
/// A state machine without input or output; ``SyncRound`` drives it.
///
/// Each level is one exchange. The first compares whole tables. The device divides each differing range into
/// ``Limits/repairWays`` ranges of similar size and compares again, until a range has at most one row here. For those
/// ranges the server sends its rows. So `k` differing records among `n` cost about `k` times the logarithm of `n`.
///
/// Rows can be compared at one revision only. If the zone commits meanwhile, the comparison is behind: the device
/// applies the new revisions and continues with the same ranges.
package struct RowComparison: Sendable {
    package struct Question: Sendable {
        let zone: String
        /// The request, JSON.
        package let body: [UInt8]
        let revision: Int64
        let ranges: [KeyRange]
        let isFirst: Bool

        /// Makes a request for the fingerprint that the server computes from all its rows.
        static func confirmation(_ file: DeviceFile) throws -> Question {
            let request = ComparisonRequest(
                epoch: file.epoch, schema: file.tables.servedHash, revision: file.revision, recompute: true, ranges: [])
            return Question(
                zone: file.zone, body: Array(try JSONEncoder().encode(request)), revision: file.revision, ranges: [],
                isFirst: true)
        }
    }

    /// Whether a comparison can go on.
    enum Footing: Hashable, Sendable {
        /// Not before the device has the zone's newer revisions.
        case behind
        case level
    }

    private let limits: Limits
    /// Whether differing rows are replaced, not only reported.
    private let replaces: Bool
    /// Whether the caller permits the deletion of many records here.
    private let acceptsDeletion: Bool
    /// Whether an id may stand for another record than before.
    private let hasOtherHistory: Bool
    /// The differing ranges to divide; nil before the first level.
    private var openRanges: [KeyRange]?
    private(set) var report = Verification()
    /// What the first level says about this file's own rows.
    private var suspicion = UncapturedEdits.Suspicion.none
    /// The conflict with the edits that no trigger captured.
    private var conflict: String?

    /// `open` are the ranges to divide next; nil begins with whole tables.
    init(
        limits: Limits, replaces: Bool, acceptsDeletion: Bool = false, hasOtherHistory: Bool = false,
        open: [KeyRange]? = nil
    ) {
        openRanges = open
        self.limits = limits
        self.replaces = replaces
        self.acceptsDeletion = acceptsDeletion
        self.hasOtherHistory = hasOtherHistory
    }

    /// The rounds after which the device takes a snapshot instead; 2^53 rows need 14 at 16 ways.
    private static let roundsMax = 64
    /// Whether every range has been compared.
    var isDone: Bool { openRanges?.isEmpty == true }

    // MARK: Requests

    /// Builds the next request, about the confirmed rows; the caller must not be in a transaction.
    mutating func next(_ db: Database, at moment: Moment) throws -> Question {
        try EngineConnection.prepare(db, schema: DeviceFile(db).schema)
        return try Transaction.withoutForeignKeys(db) {
            let round = RoundContext(db: db, file: try DeviceFile(db), moment: moment)
            let file = round.file
            // Only this device has unsent rows, so they must not be replaced.
            if openRanges == nil, replaces { try round.drainWithUnsentRows() } else { try round.drain() }
            let ranges = try ConfirmedRows(db: db, file: file).withConfirmedRows { try measure(db, file) }
            if openRanges == nil, replaces { suspicion = try suspect(ranges, file, in: db) }
            return try question(ranges, file)
        }
    }

    private func measure(_ db: Database, _ file: DeviceFile) throws -> [KeyRange] {
        let fingerprints = RangeFingerprints(db, schema: file.schema)
        guard let openRanges else {
            return try fingerprints.measure(file.schema.tables.map { KeyRange(table: $0.name) })
        }
        return try fingerprints.split(Array(openRanges.prefix(limits.repairRangesMax)), ways: limits.repairWays)
    }

    /// Decides whether the rows differ from those that the server confirmed.
    private func suspect(_ ranges: [KeyRange], _ file: DeviceFile, in db: Database) throws -> UncapturedEdits.Suspicion
    {
        let mine = ranges.map(\.fingerprint).reduce(.none, +)
        let isConfirmed = file.checked != nil && ConfirmedRows(db: db, file: file).expectedFingerprint == mine
        guard !isConfirmed else { return .none }
        return try String.fetchOne(db, sql: "PRAGMA main.quick_check(1)") == "ok" ? .edits : .damage
    }

    private func question(_ ranges: [KeyRange], _ file: DeviceFile) throws -> Question {
        var ranges = ranges
        for index in ranges.indices where ranges[index].rows <= 1 { ranges[index].send = true }
        let request = ComparisonRequest(
            epoch: file.epoch, schema: file.tables.servedHash, revision: file.revision, recompute: openRanges == nil,
            ranges: ranges)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Question(
            zone: file.zone, body: Array(try encoder.encode(request)), revision: file.revision, ranges: ranges,
            isFirst: openRanges == nil)
    }

    // MARK: Answers

    /// The caller must not be in a transaction.
    mutating func apply(
        _ body: [UInt8], to question: Question, in db: Database, at moment: Moment
    ) throws -> (events: [DeviceEvent], footing: Footing) {
        report.roundTrips += 1
        report.bytesSent += question.body.count
        report.bytesReceived += body.count
        var events: [DeviceEvent] = []
        var footing = Footing.level
        try EngineConnection.prepare(db, schema: DeviceFile(db).schema)
        let start = self
        var next = start
        try Transaction.withoutForeignKeys(db) {
            next = start
            let round = RoundContext(db: db, file: try DeviceFile(db), moment: moment)
            let file = round.file
            try round.drain()
            let answer = try ComparisonAnswer(body, to: question, file: file, in: db)
            guard answer.revision == question.revision, file.revision == question.revision else {
                footing = .behind
                return
            }
            events = try next.apply(
                answer, question: question,
                rows: RepairRows(
                    round: round, hasOtherHistory: hasOtherHistory, suspicion: suspicion))
            if next.isDone, replaces { try next.finish(answer, file: DeviceFile(db), in: db, now: moment.now) }
        }
        self = next
        return (events, footing)
    }

    private mutating func apply(_ answer: ComparisonAnswer, question: Question, rows: RepairRows) throws
        -> [DeviceEvent]
    {
        let differing = answer.differing.map { question.ranges[$0] }
        let rangesToDivide = differing.filter { $0.send != true }
        openRanges = rangesToDivide + (openRanges ?? []).dropFirst(question.isFirst ? 0 : limits.repairRangesMax)
        if question.isFirst {
            report.fingerprint = answer.fingerprint
            report.expected = rows.round.file.fingerprint
        }
        // Each round divides all open ranges, unless a damaged table has a key twice.
        guard (openRanges ?? []).count <= limits.repairRangesMax, report.roundTrips <= Self.roundsMax else {
            throw TidemarkError(
                .snapshotRequired, "More than \(limits.repairRangesMax) ranges of rows differ from the server's.",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
        let rangesWithRows = differing.filter { $0.send == true }
        guard !rangesWithRows.isEmpty else { return [] }
        let outcome = try rows.replace(rangesWithRows, by: answer.changeSet, isTrial: !replaces, extending: conflict)
        conflict = outcome.conflict
        report.records += outcome.records
        try refuseMassDeletion(rows, unless: answer.fingerprint)
        return outcome.events
    }

    /// Throws `massDeletion` if most records would go only because the server lacks them; the caller rolls back.
    ///
    /// It permits that if the stored fingerprint is the server's: then they were inserted without the triggers.
    private func refuseMassDeletion(_ rows: RepairRows, unless confirmed: Fingerprint?) throws {
        guard replaces, !acceptsDeletion else { return }
        let expected = rows.round.fingerprints.expectedFingerprint
        guard expected == nil || expected != confirmed else { return }
        let surplus = Dictionary(grouping: report.records.filter { $0.difference == .surplus }) { $0.table }.map {
            (name: $0.key, records: $0.value.count)
        }.sorted { $0.name < $1.name }
        let count = surplus.reduce(0) { $0 + $1.records }
        let total = try MassDeletion.countRows(rows.round.db, rows.round.schema) + count
        guard let deletion = MassDeletion(surplus, of: total, limits: limits) else { return }
        throw deletion.error(because: "the server's rows lack them.")
    }

    /// Checks that all rows are the server's now, and stores their fingerprint.
    private func finish(_ answer: ComparisonAnswer, file: DeviceFile, in db: Database, now: Date) throws {
        let confirmed = ConfirmedRows(db: db, file: file)
        let mine = try confirmed.computeFingerprint()
        guard let mine, mine == answer.fingerprint else {
            throw TidemarkError(
                .fingerprintMismatch, "The rows still differ from the server's after they were repaired.",
                fix: "A trigger of the app's may be changing rows while they are written: "
                    + "give it WHEN (SELECT applying FROM tidemark_state) = 0.")
        }
        try confirmed.store(mine)
        try confirmed.recordCheck(now)
    }
}

/// A validated answer to a comparison request.
struct ComparisonAnswer {
    let revision: Int64
    let fingerprint: Fingerprint?
    /// The indexes of differing ranges in the request.
    let differing: [Int]
    /// The server's rows of the ranges with `send`, as a change set.
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
                """, arguments: [text])
        guard let row, try row.value("epoch") as String? == file.epoch else {
            throw TidemarkError(
                .invalidResponse, "The answer about differing rows is not Tidemark's, or belongs to another history.",
                fix: "Nothing was changed; sync again.")
        }
        revision = try row.value("revision")
        fingerprint = try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:))
        changeSet = try row.value("changeSet")
        differing = try Int.fetchAll(
            db,
            sql: """
                SELECT DISTINCT value FROM json_each(?, '$.differing')
                WHERE type = 'integer' AND value BETWEEN 0 AND ? ORDER BY value
                """, arguments: [text, question.ranges.count - 1])
    }
}
