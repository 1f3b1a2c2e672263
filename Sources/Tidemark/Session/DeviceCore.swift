import Foundation
import GRDB
package import TidemarkCore
import TidemarkSQL

/// The device's synchronous core: builds requests from the outbox and applies responses to the tables.
///
/// Each function runs one transaction, or runs in the caller's. Time, randomness and the server's
/// responses are arguments.
///
/// The round:
///
/// 1. ``prepareRequest`` drains captured changes into change sets, freezes them and builds the request.
/// 2. The shell sends the request and waits for the response. The app can edit meanwhile.
/// 3. ``apply`` writes the response to the tables, the outbox and the revision in one transaction.
package struct DeviceCore: Sendable {
    let limits: Limits

    /// A request of a round, with the state needed to apply its response.
    package struct Outgoing: Sendable {
        package let zone: String
        /// The request as JSON; empty after the shell has sent it.
        package private(set) var body: [UInt8]
        /// The conditional GET that replaces the request; nil if the device must send the whole request.
        package var conditionalGet: ConditionalGet?
        /// The response, if the server pushed it before the request.
        package var pushedAnswer: [UInt8]?
        /// The file's revision when the request was built; a response for another revision is not applied.
        package let revision: Int64
        package let changeSets: [String]
        /// The change sets that no earlier request had.
        var freshChangeSets: Set<String> = []
        /// Whether the server may answer these change sets with the new ids alone.
        let takesIds: Bool
        let exchange: Exchange
        /// Whether the server has confirmed the sent fingerprint for the rows of this revision.
        let isConfirmed: Bool
        var sendsConditionalGet: Bool { conditionalGet != nil && pushedAnswer == nil }
        /// Whether the request is a conditional GET or already has its response.
        var isSettled: Bool { conditionalGet != nil || pushedAnswer != nil }

        /// A copy without the body, which may be large and is not needed after sending.
        var carried: Outgoing {
            var carried = self
            carried.body = []
            return carried
        }
    }

    /// The conditional GET that a settled device sends instead of a whole request.
    package struct ConditionalGet: Hashable, Sendable {
        package let device: String
        package let tag: ZoneTag
        /// The JSON response that "not modified" stands for.
        package let nothingNew: [UInt8]

        package init(device: String, tag: ZoneTag, nothingNew: [UInt8]) {
            self.device = device
            self.tag = tag
            self.nothingNew = nothingNew
        }
    }

    /// The kind of exchange, which decides how long its response stays valid.
    enum Exchange: Hashable, Sendable {
        /// A numbered exchange: valid until the device applies another exchange's response.
        case lap(String)
        /// A settled device's request for news: valid until the device sends something.
        case settled(Laps)
        /// A question about another history.
        case question

        func isOpen(_ laps: Laps) -> Bool {
            switch self {
            case .lap(let lap): laps.isOpen(lap)
            case .settled(let then): laps == then
            case .question: true
            }
        }
    }

    /// Drains captured changes and builds the request.
    ///
    /// `changeSetsMax` is 0 while a response had `more`, because the device fetches the rest first.
    /// `revisionsMax` bounds the revisions of the response; nil leaves it to the server.
    /// Without `checksRows` the request carries no fingerprint: the rows are known to differ.
    func prepareRequest(
        _ db: Database, at moment: Moment, changeSetsMax: Int, revisionsMax: Int64? = nil, checksRows: Bool,
        takesDelta: Bool = false, takesIds: Bool = false
    ) throws -> Outgoing {
        let round = try RoundContext(prepared: db, at: moment)
        let file = round.file
        if let problem = file.tables.problems.first { throw problem }
        try round.drain()
        let unlentTables = try DrawnIDs(db: db, schema: file.schema).settle(newID: moment.newID)
        let tablesWithoutIDs = limits.lendsIDs ? unlentTables : []
        let epoch = try joinedEpoch(of: file)
        let rows = ConfirmedRows(db: db, file: file)
        let isConfirmed = checksRows && rows.expectedFingerprint != nil
        let fingerprint = checksRows ? try rows.verifyFingerprint(limits, now: moment.now) : nil
        var laps = file.laps
        var outgoing = try FreezeChangeSets(db: db, schema: file.schema, epoch: epoch, limits: limits).outgoing(
            // Change sets may refer to rows that only the comparison of a rebuilt table finds.
            countMax: file.rebuilt == nil ? changeSetsMax : 0, freezesMore: laps.hasRoom)
        let sets = outgoing.ids
        // Without a fingerprint, only the lap reveals that the server lost changes.
        let isSettled =
            try sets.isEmpty && tablesWithoutIDs.isEmpty && laps.isSettled && fingerprint != nil && !hasFrozen(db)
        let exchange: Exchange
        let member: String
        if isSettled {
            exchange = .settled(laps)
            member = #""settled":true,"#
        } else {
            let lap = try laps.begin(isRetry: outgoing.freshIDs.isEmpty, newID: moment.newID, in: db)
            exchange = .lap(lap.next)
            member = #""lap":\#(lap.json),"#
        }
        // The device can confirm rows that it has not received only by their fingerprint.
        let takesIds = takesIds && isConfirmed && !sets.isEmpty
        let head =
            #"{"maxRevision":\#(file.revision),"device":"\#(file.device)","epoch":"\#(epoch)","#
            + #""schema":"\#(file.tables.servedHash ?? "")",\#(member)"#
            + (fingerprint.map { #""fingerprint":"\#($0)","# } ?? "") + (revisionsMax.map { #""limit":\#($0),"# } ?? "")
            + (takesDelta && isConfirmed ? #""delta":true,"# : "") + (takesIds ? #""echo":"ids","# : "")
            + (tablesWithoutIDs.isEmpty
                ? "" : #""lend":[\#(tablesWithoutIDs.map(JSONText.quote).joined(separator: ","))],"#)
            + (file.overruled > 0 ? #""overruled":\#(file.overruled),"# : "")
        // Insert the head instead of copying the change sets, which can be many megabytes.
        outgoing.text.insert(contentsOf: (head + #""changeSets":["#).utf8, at: 0)
        outgoing.text += "]}".utf8
        return Outgoing(
            zone: file.zone, body: outgoing.text,
            conditionalGet: isSettled ? conditionalGet(file, epoch: epoch, fingerprint: fingerprint) : nil,
            revision: file.revision, changeSets: sets, freshChangeSets: outgoing.freshIDs, takesIds: takesIds,
            exchange: exchange, isConfirmed: isConfirmed)
    }

    private func joinedEpoch(of file: DeviceFile) throws -> String {
        guard let epoch = file.epoch else {
            throw TidemarkError(
                .snapshotRequired, "This file has no snapshot yet.",
                fix: "Sync when the server can be reached; edits are kept.")
        }
        return epoch
    }

    /// Returns the base of a delta snapshot; nil if the device needs a full snapshot.
    func deltaBase(_ db: Database) throws -> DeltaBase? {
        let file = try DeviceFile(db)
        if file.epoch == nil { return .nothing }
        guard !file.isStale, let epoch = file.epoch, let schema = file.tables.servedHash,
            ConfirmedRows(db: db, file: file).expectedFingerprint != nil
        else { return nil }
        return DeltaBase(epoch: epoch, revision: file.revision, schema: schema)
    }

    /// It omits the overruled-value cursor; a server that still has such notes asks for the whole request.
    private func conditionalGet(_ file: DeviceFile, epoch: String, fingerprint: Fingerprint?) -> ConditionalGet? {
        guard let schema = file.tables.servedHash, let fingerprint else { return nil }
        let nothingNew =
            #"{"maxRevision":\#(file.revision),"epoch":"\#(epoch)","schema":"\#(schema)","#
            + #""more":false,"fingerprint":"\#(fingerprint)","changeSets":[]}"#
        let tag = ZoneTag(epoch: epoch, schema: schema, revision: file.revision, fingerprint: fingerprint)
        return ConditionalGet(device: file.device, tag: tag, nothingNew: Array(nothingNew.utf8))
    }

    /// Returns whether the outbox holds a frozen change set that the server has not acknowledged.
    func hasFrozen(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset WHERE wire IS NOT NULL)") ?? false
    }

    /// Builds the request that precedes a snapshot: it asks which of this device's change sets the server knows.
    func prepareQuestion(_ db: Database) throws -> Outgoing {
        let file = try DeviceFile(db)
        let waiting = try String.fetchAll(
            db, sql: "SELECT id FROM tidemark_changeset ORDER BY seq LIMIT ?", arguments: [limits.recalledIDsMax])
        let list = { (ids: [String]) in ids.map { "\"\($0)\"" }.joined(separator: ",") }
        let acknowledged = try KeptChangeSets.idsToRecall(in: db)
        let members = [
            ("epoch", file.epoch), ("schema", file.tables.servedHash),
            ("fingerprint", ConfirmedRows(db: db, file: file).expectedFingerprint?.hex),
        ].compactMap { name, value in value.map { #""\#(name)":"\#($0)","# } }
        let body =
            #"{"maxRevision":\#(file.revision),"device":"\#(file.device)",\#(members.joined())"#
            + #""recall":[\#(list(waiting))],"known":[\#(list(acknowledged))]}"#
        return Outgoing(
            zone: file.zone, body: Array(body.utf8), conditionalGet: nil, revision: file.revision, changeSets: [],
            takesIds: false, exchange: .question, isConfirmed: false)
    }

    /// Applies a response in a transaction of its own, not in the caller's, and calls `finally` last in it.
    func apply(
        _ answer: [UInt8], to outgoing: Outgoing, in db: Database, at moment: Moment, comparesFingerprint: Bool,
        consent: MassDeletion.Consent, finally: (ApplyResult) throws -> Void = { _ in }
    ) throws -> ApplyResult {
        if planted(PlantedBug.storesRevisionFirst) {
            try db.execute(
                sql: "UPDATE tidemark_state SET revision = max(revision, ? ->> '$.maxRevision')",
                arguments: [String(decoding: answer, as: UTF8.self)])
        }
        do {
            return try Transaction.withoutForeignKeys(db) {
                let taking = TakeAnswer(
                    round: try RoundContext(db, at: moment), comparesFingerprint: comparesFingerprint, consent: consent)
                let applied = try taking.take(answer, to: outgoing)
                try finally(applied)
                return applied
            }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_TRIGGER {
            throw TidemarkError(
                .invalidResponse, "A trigger of this file refuses the server's rows: \(error.message ?? "no reason").",
                fix: "Nothing was changed, and the outbox is kept. Drop or change the trigger.")
        } catch let error as DatabaseError where Answer.isDataError(error) {
            throw Answer.inapplicable("\(error.message ?? "it does not fit the tables").")
        }
    }
}
