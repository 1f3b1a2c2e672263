import Foundation
import GRDB
package import TidemarkCore
import TidemarkSQLite

/// The device's core: outbox to request, answer to tables.
///
/// Synchronous; each function is one transaction, or runs in the caller's. Time, randomness and the
/// network come as arguments.
///
/// The round:
///
/// 1. ``prepareRequest``: what was captured becomes change sets, frozen, and the request's text.
/// 2. The shell carries it to the server and brings the answer, however long that takes. Edits go
///    on meanwhile.
/// 3. ``apply``: the answer goes into the tables, the outbox and the revision, all in one
///    transaction.
package struct DeviceCore: Sendable {
    let limits: Limits

    /// What a round sends.
    package struct Outgoing: Sendable {
        /// The zone.
        package let zone: String
        /// The request, JSON; empty once it was carried.
        package private(set) var body: [UInt8]
        /// The same question in a few bytes, when it may be asked so.
        package var short: Short?
        /// The answer, if the server has told it before it was asked.
        package var told: [UInt8]?
        /// The revision that the file was at: an answer to another state is not applied.
        package let revision: Int64
        /// The ids of the change sets in it.
        package let changeSets: [String]
        /// Whether the new ids alone will do for an answer to these.
        let takesIds: Bool
        /// Which of the device's exchanges it is.
        let exchange: Exchange
        /// Whether the server itself has once said that the rows of this revision have the
        /// fingerprint that is sent.
        let isConfirmed: Bool

        /// Whether the question goes to the server, and in a few bytes.
        var asksShort: Bool { short != nil && told == nil }
        /// Whether nothing was written to ask.
        var isSettled: Bool { short != nil || told != nil }

        /// The same without its text, which may be large and is of no use once it was carried.
        var carried: Outgoing {
            var carried = self
            carried.body = []
            return carried
        }
    }

    /// What a settled device asks with instead of a whole request.
    package struct Short: Hashable, Sendable {
        /// Who asks.
        package let device: String
        /// What the device has.
        package let tag: ZoneTag
        /// The answer that "nothing is new" stands for, JSON.
        package let nothingNew: [UInt8]

        /// Makes a short question.
        package init(device: String, tag: ZoneTag, nothingNew: [UInt8]) {
            self.device = device
            self.tag = tag
            self.nothingNew = nothingNew
        }
    }

    /// Which exchange with the server a request is, and so when its answer is of use.
    enum Exchange: Hashable, Sendable {
        /// One of its own: until another's answer was taken in.
        case lap(String)
        /// One of a settled device, which asks what is new: until the device sends something.
        case settled(Laps)
        /// A question about another history.
        case question

        /// Whether the file is still in the exchange.
        func isOpen(_ laps: Laps) -> Bool {
            switch self {
            case .lap(let lap): laps.isOpen(lap)
            case .settled(let then): laps == then
            case .question: true
            }
        }
    }

    /// Drains what was captured and writes the request.
    ///
    /// `boundaries` are the numbers of captured changes at which transactions of the app are known
    /// to have ended. `changeSetsMax` is 0 while an answer had `more`, for the rest comes first.
    /// Without `checksRows` the request carries no fingerprint: the rows are known to differ.
    func prepareRequest(
        _ db: Database,
        boundaries: KnownTransactions,
        changeSetsMax: Int,
        checksRows: Bool,
        takesDelta: Bool = false,
        takesIds: Bool = false,
        now: Date,
        newID: () -> UUID
    ) throws -> Outgoing {
        let file = try DeviceFile(db)
        if let problem = file.tables.problems.first { throw problem }
        try EngineConnection.prepare(db, schema: file.schema)
        try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
        let epoch = try joinedEpoch(of: file)
        let rows = ConfirmedRows(db: db, file: file)
        let isConfirmed = checksRows && rows.expected != nil
        let fingerprint = checksRows ? try rows.checked(limits, now: now) : nil
        var laps = try Laps(db)
        var outgoing = try FreezeChangeSets(db: db, schema: file.schema, epoch: epoch, limits: limits).outgoing(
            countMax: changeSetsMax,
            freezesMore: laps.hasRoom
        )
        let sets = outgoing.ids
        // Without a comparison of the rows, only the lap tells that a server has forgotten.
        let isSettled = try sets.isEmpty && laps.isSettled && fingerprint != nil && !hasFrozen(db)
        let exchange: Exchange
        let member: String
        if isSettled {
            exchange = .settled(laps)
            member = #""settled":true,"#
        } else {
            let lap = try laps.begin(isRetry: !outgoing.hasFresh, newID: newID, in: db)
            exchange = .lap(lap.next)
            member = #""lap":\#(lap.json),"#
        }
        // Only rows that add up can be confirmed without being seen.
        let takesIds = takesIds && isConfirmed && !sets.isEmpty
        let head =
            #"{"maxRevision":\#(file.revision),"device":"\#(file.device)","epoch":"\#(epoch)","#
            + #""schema":"\#(file.tables.servedHash ?? "")",\#(member)"#
            + (fingerprint.map { #""fingerprint":"\#($0)","# } ?? "")
            + (takesDelta && isConfirmed ? #""delta":true,"# : "") + (takesIds ? #""echo":"ids","# : "")
            + (sets.isEmpty ? "" : #""related":\#(limits.relatedRecordsWanted),"#)
            + (file.overruled > 0 ? #""overruled":\#(file.overruled),"# : "")
        // There may be many megabytes of change sets, which stay where they are.
        outgoing.text.insert(contentsOf: (head + #""changeSets":["#).utf8, at: 0)
        outgoing.text += "]}".utf8
        return Outgoing(
            zone: file.zone,
            body: outgoing.text,
            short: isSettled ? short(file, epoch, fingerprint) : nil,
            revision: file.revision,
            changeSets: sets,
            takesIds: takesIds,
            exchange: exchange,
            isConfirmed: isConfirmed
        )
    }

    private func joinedEpoch(of file: DeviceFile) throws -> String {
        guard let epoch = file.epoch else {
            throw TidemarkError(
                .snapshotRequired,
                "This file has taken in no snapshot yet.",
                fix: "Sync when the server can be reached; edits are kept."
            )
        }
        return epoch
    }

    /// What a delta may begin from; nil when only all rows will do.
    func deltaBase(_ db: Database) throws -> DeltaBase? {
        let file = try DeviceFile(db)
        if file.epoch == nil { return .nothing }
        guard !file.isStale, let epoch = file.epoch, let schema = file.tables.servedHash,
            ConfirmedRows(db: db, file: file).expected != nil
        else { return nil }
        return DeltaBase(epoch: epoch, revision: file.revision, schema: schema)
    }

    /// What a settled device says in a few bytes: all that it would say in a whole request but
    /// which notes it has, for a server that still keeps one asks for that.
    private func short(_ file: DeviceFile, _ epoch: String, _ fingerprint: Fingerprint?) -> Short? {
        guard let schema = file.tables.servedHash, let fingerprint else { return nil }
        let nothingNew =
            #"{"maxRevision":\#(file.revision),"epoch":"\#(epoch)","schema":"\#(schema)","#
            + #""more":false,"fingerprint":"\#(fingerprint)","changeSets":[]}"#
        let tag = ZoneTag(epoch: epoch, schema: schema, revision: file.revision, fingerprint: fingerprint)
        return Short(device: file.device, tag: tag, nothingNew: Array(nothingNew.utf8))
    }

    /// Whether a change set was sent whose answer is still to come.
    func hasFrozen(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset WHERE wire IS NOT NULL)")
        ) ?? false
    }

    /// Writes the question that comes before a snapshot: which of this device's change sets the
    /// server knows.
    func prepareQuestion(_ db: Database) throws -> Outgoing {
        let file = try DeviceFile(db)
        let waiting = try String.fetchAll(
            db,
            sql: "SELECT id FROM tidemark_changeset ORDER BY seq LIMIT ?",
            arguments: [limits.changeSetsPerRequestMax]
        )
        let list = { (ids: [String]) in ids.map { "\"\($0)\"" }.joined(separator: ",") }
        let known = try KeptChangeSets.known(in: db)
        let members = [
            ("epoch", file.epoch), ("schema", file.tables.servedHash),
            ("fingerprint", ConfirmedRows(db: db, file: file).expected?.hex),
        ].compactMap { name, value in value.map { #""\#(name)":"\#($0)","# } }
        let body =
            #"{"maxRevision":\#(file.revision),"device":"\#(file.device)",\#(members.joined())"#
            + #""recall":[\#(list(waiting))],"known":[\#(list(known))]}"#
        return Outgoing(
            zone: file.zone,
            body: Array(body.utf8),
            short: nil,
            revision: file.revision,
            changeSets: [],
            takesIds: false,
            exchange: .question,
            isConfirmed: false
        )
    }
}

extension DeviceCore {
    /// Takes an answer in, in a transaction of its own, which `finally` ends.
    ///
    /// The caller is outside one.
    func apply(
        _ answer: [UInt8],
        to outgoing: Outgoing,
        in db: Database,
        boundaries: KnownTransactions,
        comparesFingerprint: Bool,
        consent: MassDeletion.Consent,
        now: Date,
        newID: @escaping () -> UUID,
        finally: (Applied) throws -> Void = { _ in }
    ) throws -> Applied {
        var applied = Applied()
        if planted(PlantedBug.storesRevisionFirst) {
            try db.execute(
                sql: "UPDATE tidemark_state SET revision = max(revision, ? ->> '$.maxRevision')",
                arguments: [String(decoding: answer, as: UTF8.self)]
            )
        }
        do {
            try Transaction.withoutForeignKeys(db) {
                try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).runIfNeeded()
                try EngineConnection.prepare(db, schema: DeviceFile(db).schema)
                applied = try ApplyResponse(
                    db: db,
                    file: DeviceFile(db),
                    limits: limits,
                    now: now,
                    comparesFingerprint: comparesFingerprint,
                    consent: consent
                ).apply(answer, to: outgoing, boundaries: boundaries, newID: newID)
                try finally(applied)
            }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_TRIGGER {
            throw TidemarkError(
                .invalidResponse,
                "A trigger of this file refuses the server's rows: \(error.message ?? "no reason").",
                fix: "Nothing was changed, and what waits is kept. Drop or change the trigger."
            )
        } catch let error as DatabaseError where AnswerCheck.blames(error) {
            throw AnswerCheck.inapplicable("\(error.message ?? "it does not fit the tables").")
        }
        return applied
    }

    /// Takes the zone's schema in, in a transaction of its own.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the answer is none, or when the file's tables
    ///   and the zone's cannot sync; what is waiting stays.
    static func take(
        schema answer: [UInt8],
        in db: Database,
        boundaries: KnownTransactions,
        now: Date,
        newID: @escaping () -> UUID
    ) throws {
        let tables = try String.fetchOne(
            db,
            sql: "SELECT CASE WHEN json_valid(?1) AND json_type(?1, '$.tables') = 'array' THEN ?1 -> '$.tables' END",
            arguments: [String(decoding: answer, as: UTF8.self)]
        )
        guard let tables else {
            throw TidemarkError(
                .invalidResponse,
                "The answer is no schema of a Tidemark server.",
                fix: "Nothing was changed. Check the URL; a network's sign-in page may be in the way."
            )
        }
        try Transaction.withoutForeignKeys(db) {
            try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).run(served: tables)
        }
    }

    /// Makes change sets of what was captured, and no request.
    static func drain(_ db: Database, boundaries: KnownTransactions, now: Date, newID: () -> UUID) throws {
        let file = try DeviceFile(db)
        try EngineConnection.prepare(db, schema: file.schema)
        try db.inTransaction(.immediate) {
            try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
            return .commit
        }
    }

    /// Parks the change set that an error is about, takes its effects out of the tables, and lets
    /// the others go on.
    static func park(
        _ error: TidemarkError,
        in db: Database,
        boundaries: KnownTransactions,
        now: Date,
        newID: () -> UUID
    ) throws -> [SyncEvent] {
        var events: [SyncEvent] = []
        try EngineConnection.prepare(db, schema: DeviceFile(db).schema)
        try Transaction.withoutForeignKeys(db) {
            let file = try DeviceFile(db)
            try StagingTables.clear(in: db)
            try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
            let reason = Conflict.Reason(
                table: error.place.table ?? "",
                key: error.place.key,
                columns: error.place.column.map { [$0] } ?? [],
                rule: error.code.rawValue,
                message: "\(error.message) \(error.fix)"
            )
            let pending = PendingChanges(db: db, schema: file.schema)
            try DeviceFile.whileApplying(db) {
                try pending.rewind()
                events = try ParkConflict(db: db, now: Timestamp.text(now)).parkUnsent([
                    error.place.id ?? "": "[\(reason.json)]"
                ])
                try pending.refreshBase()
                try pending.replay()
            }
        }
        return events
    }
}
