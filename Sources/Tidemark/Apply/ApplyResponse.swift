import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Applies an answer to the file.
///
/// Runs in one immediate transaction with `foreign_keys` off. The server has judged the references,
/// and a cascade here would delete records that the answer does not name.
///
/// 1. **Drain** edits made since the request, so that the outbox holds all pending changes.
/// 2. **Rewind** the records with pending changes to their confirmed versions.
/// 3. Apply the coalesced change sets of the answer. Now the tables hold exactly the server's rows.
/// 4. Settle the device's own change sets: map the ids of accepted ones, park refused ones.
/// 5. **Replay** the remaining pending changes on their new base.
/// 6. Store the revision. A crash leaves the file before or after the whole answer.
struct ApplyResponse {
    let db: Database
    let file: DeviceFile
    let limits: Limits
    let now: Date
    /// Whether an answer is refused if the resulting fingerprint differs from the server's.
    var comparesFingerprint = true
    var consent = MassDeletion.Consent.none

    func apply(
        _ body: [UInt8], to outgoing: DeviceCore.Outgoing, boundaries: KnownTransactions, newID: @escaping () -> UUID
    ) throws -> ApplyResult {
        let requested = outgoing.revision
        var laps = try Laps(db)
        guard file.revision == requested, outgoing.exchange.isOpen(laps) else {
            return ApplyResult(revision: file.revision, isStale: true)
        }
        let envelope = try AnswerEnvelope(body, file: file, limits: limits)
        if let schema = envelope.schema, schema != file.tables.servedHash {
            // The device fetches the schema first and repeats the request.
            return ApplyResult(revision: file.revision, isStale: true, needsSchema: true)
        }
        try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
        try envelope.stage(file.schema, in: db)
        let check = AnswerCheck(db: db, schema: file.schema, requested: requested, requestIDs: outgoing.changeSets)
        try check.checkAnswer()
        try DeviceClock.receiveStaged(db)
        let answered = try AnsweredSets(after: requested, through: envelope.maxRevision, in: db)
        var applied = ApplyResult(revision: envelope.maxRevision, hasMore: envelope.hasMore)
        applied.hasRebuilt = file.rebuilt != nil
        if envelope.echoesIds {
            guard let events = try confirm(answered, envelope: envelope, outgoing: outgoing) else {
                return ApplyResult(revision: file.revision, isStale: true, needsEcho: true)
            }
            applied.events = events
        } else if answered.isEmpty, envelope.overruled == "[]" {
            try compare(file.fingerprint, with: envelope)
        } else {
            applied.events = try rewrite(answered, envelope: envelope, check: check, newID: newID)
        }
        if envelope.maxRevision != requested {
            try db.execute(cached: "UPDATE tidemark_state SET revision = ?", arguments: [envelope.maxRevision])
        }
        let drawn = DrawnIDs(db: db, schema: file.schema)
        try drawn.store(envelope.lent)
        try drawn.settle(newID: newID)
        try DeviceFile.storeContact(now, in: db)
        if case .lap(let lap) = outgoing.exchange { try laps.finish(lap, in: db) }
        applied.settledCount = answered.accepted.count + answered.refused.count
        if applied.settledCount > 0 { applied.events.insert(.sent(changeSets: applied.settledCount), at: 0) }
        applied.hasPending = try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false
        return applied
    }

    private func rewrite(
        _ answered: AnsweredSets, envelope: AnswerEnvelope, check: AnswerCheck, newID: @escaping () -> UUID
    ) throws -> [DeviceEvent] {
        var events: [DeviceEvent] = []
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: file.schema)
            events += try concurrentEditEvents(answered)
            let uncaptured = UncapturedEdits(db: db, schema: file.schema, now: Timestamp.text(now), newID: newID)
            events += try uncaptured.parkOverPending()
            try pending.rewind()
            try compareRebuilt(newID).yieldIDs(to: answered.stream)
            try check.checkNewIDs()
            events += try write(answered, envelope, parking: uncaptured)
            events += try settle(answered)
            events += try OverruledValues(db: db, now: Timestamp.text(now)).park(
                notes: envelope.overruled, after: file.overruled, newID: newID)
            try pending.refreshBase()
            try pending.replay()
            try OwnReferences(db: db, schema: file.schema).settle()
        }
        return events
    }

    private func compareRebuilt(_ newID: @escaping () -> UUID) throws -> CompareRebuilt {
        CompareRebuilt(
            db: db, schema: file.schema, tables: try CompareRebuilt.tables(file), now: Timestamp.text(now), newID: newID
        )
    }

    /// Confirms that all sent change sets were committed unchanged; nil if the device needs the answer in full.
    private func confirm(_ answered: AnsweredSets, envelope: AnswerEnvelope, outgoing: DeviceCore.Outgoing) throws
        -> [DeviceEvent]?
    {
        guard outgoing.takesIds, let fingerprint = envelope.fingerprint, comparesFingerprint, answered.foreign.isEmpty,
            answered.refused.isEmpty, answered.accepted.count == answered.stream.count, !answered.stream.isEmpty
        else { throw AnswerCheck.inapplicable("it has only ids, but the request needs rows.") }
        return try DeviceFile.whileApplying(db) {
            try ConfirmSent(db: db, file: file, limits: limits).apply(answered, expecting: fingerprint)
        }
    }

    private func write(_ answered: AnsweredSets, _ envelope: AnswerEnvelope, parking uncaptured: UncapturedEdits) throws
        -> [DeviceEvent]
    {
        guard let last = answered.stream.last else {
            try compare(file.fingerprint, with: envelope)
            return []
        }
        let isLastOnly = planted(PlantedBug.appliesLastRevisionOnly)
        let target = answered.stream.count == 1 || isLastOnly ? last : StagedPurpose.answer.ord
        if target == StagedPurpose.answer.ord { try Coalesce.merge(answered.stream, into: target, in: db) }
        let confirmed = ConfirmedRows(db: db, file: file)
        let rows = RowFingerprints(db, schema: file.schema)
        let deletion = try MassDeletion.find(stagedAs: target, file.schema, limits: limits, in: db)
        if let deletion, case .none = consent { throw deletion }
        let before = try confirmed.servedFingerprint.map { try $0 - rows.records(stagedAs: target) }
        let isRebuilt = file.rebuilt != nil
        let replaced = ReplacedRows(db: db, schema: file.schema)
        if isRebuilt {
            // Without a sum, nothing says that rows of other tables differ from the server's.
            let tables = before == nil ? try CompareRebuilt.tables(file) : file.schema.tables
            try replaced.keep(stagedAs: target, of: tables)
        } else if !comparesFingerprint {
            // A comparison is running, because rows of this file differ from the server's.
            try uncaptured.keepRows(stagedAs: target)
        }
        try write(target)
        try UnknownValues(db: db, schema: file.schema).store(ord: target)
        if let deletion { try deletion.requireConsent(consent, to: envelope, file: file, rows: rows) }
        let after = try before.map { try $0 + rows.records(stagedAs: target) }
        try checkReferences(of: target, expecting: after, rows)
        try compare(after, with: envelope)
        var events: [DeviceEvent] = []
        // If a sum is right, the written records, or all, were as the server had confirmed them.
        if isRebuilt {
            if after != nil, after == envelope.fingerprint { try replaced.forget(keptAt: file.revision) }
        } else if !comparesFingerprint, after != envelope.fingerprint, try rows.all() != after {
            events += try uncaptured.parkReplaced(since: .earlier)
        }
        guard !answered.foreign.isEmpty else { return events }
        let changes = try RemoteChanges(revision: envelope.maxRevision, stagedAs: answered.foreign, in: db)
        return events + [.changed(changes)]
    }

    /// Writes a staged change set; if it does not fit, the rows of this file differ from the server's.
    private func write(_ target: Int) throws {
        do {
            let unmatched = try RecordWriter(db, schema: file.schema).write(ord: target)
            // A running comparison of rows finds the missing records, and that of rebuilt tables finds deletions.
            guard unmatched > 0, comparesFingerprint, file.rebuilt == nil else { return }
            throw misfit("the server updates \(unmatched) records that this file lacks")
        } catch let error as DatabaseError where error.isCollision {
            throw misfit(error.message ?? "a constraint fails")
        }
    }

    private func misfit(_ reason: String) -> TidemarkError {
        guard ConfirmedRows(db: db, file: file).isComparable, comparesFingerprint else {
            return TidemarkError(
                .snapshotRequired, "The answer does not fit the rows of this file: \(reason).",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
        return TidemarkError(
            .fingerprintMismatch, "The answer does not fit the rows of this file: \(reason).",
            fix: "Nothing was changed. The device compares its rows with the server's and repairs them.")
    }

    /// A dangling reference is the answer's fault, unless this file's rows already differ from the server's.
    private func checkReferences(of target: Int, expecting expected: Fingerprint?, _ rows: RowFingerprints) throws {
        guard comparesFingerprint, file.rebuilt == nil else { return }
        do { try AnswerReferences(db: db, schema: file.schema).check(ord: target) } catch let error as TidemarkError {
            guard let expected, try rows.all() != expected else { throw error }
            throw misfit("a record refers to one that this file lacks")
        }
    }

    /// Compares the confirmed rows' fingerprint with the server's, and stores it; the caller rolls back a mismatch.
    private func compare(_ mine: Fingerprint?, with envelope: AnswerEnvelope) throws {
        let confirmed = ConfirmedRows(db: db, file: file)
        guard file.rebuilt == nil else {
            // The file's rows differ, so only the server knows the fingerprint of its own.
            return try confirmed.store(confirmed.servedFingerprint == nil ? nil : envelope.fingerprint)
        }
        let mine = confirmed.expectedFingerprint == nil ? nil : mine
        if comparesFingerprint, let mine, let theirs = envelope.fingerprint, mine != theirs {
            throw TidemarkError(
                .fingerprintMismatch,
                "After this answer the rows would differ from the server's: \(mine) is not \(theirs).",
                fix: "Nothing was changed. The device compares its rows with the server's and repairs them.")
        }
        try confirmed.store(mine)
        if comparesFingerprint, file.checked == nil, mine != nil, mine == envelope.fingerprint {
            try confirmed.recordCheck(now)
        }
    }

    /// Returns an event for each record that has pending changes and that another author changed.
    private func concurrentEditEvents(_ answered: AnsweredSets) throws -> [DeviceEvent] {
        let list = "[" + answered.foreign.map(String.init).joined(separator: ",") + "]"
        return try Row.fetchAll(
            db,
            cached: """
                SELECT base.tbl, base.key, max(staged.operation = 'delete') AS deleted
                FROM tidemark_base AS base
                JOIN temp.tidemark_staged AS staged ON staged.tbl = base.tbl AND staged.key = base.key
                WHERE staged.ord IN (SELECT value FROM json_each(?))
                GROUP BY base.tbl, base.key
                """, arguments: [list]
        ).map { row in
            let record = RecordName(try row.value("tbl"), RecordKey(json: try row.value("key")))
            return .changedWhileEdited(record, isDeleted: try row.value("deleted"))
        }
    }

    private func settle(_ answered: AnsweredSets) throws -> [DeviceEvent] {
        var events = try MapIdentities(db: db, schema: file.schema).map(answered.accepted.map(\.ord))
        try RespellKeys(db: db, schema: file.schema).run(answered.accepted.map(\.ord))
        let overruled = OverruledValues(db: db, now: Timestamp.text(now))
        let parking = ParkConflict(db: db, now: Timestamp.text(now))
        if !answered.accepted.isEmpty {
            try KeptChangeSets(db: db, limits: limits).keepAccepted(epoch: file.epoch ?? "")
        }
        for item in answered.accepted {
            events += try overruled.park(fromSet: item.ord, id: item.id)
            events += try parking.parkMissingRecords(id: item.id, ord: item.ord, in: file.schema)
            try Outbox.remove(item.id, in: db)
        }
        if !answered.accepted.isEmpty { try runPlanted(PlantedBug.acknowledgesNewerEdits, in: db) }
        events += try parking.park(answered.refused, in: file.schema)
        return events
    }
}
