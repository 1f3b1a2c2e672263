import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Takes an answer into the file.
///
/// Runs in one immediate transaction with `foreign_keys` off: the server has judged the references,
/// and a cascade here would delete what the answer does not name.
///
/// 1. Edits made since the request are drained, so that everything waiting is in the outbox.
/// 2. **Rewind**: records with waiting changes go back to what the server confirmed.
/// 3. The change sets of the answer are applied to that, as one. Now the tables are the server's,
///    exactly.
/// 4. Own change sets leave the outbox: accepted ones with their ids mapped, refused ones into the
///    conflicts.
/// 5. **Replay**: what still waits goes on top again, on its new base.
/// 6. The revision is stored. A crash anywhere leaves the file before or after all of it.
struct ApplyResponse {
    let db: Database
    let file: DeviceFile
    let limits: Limits
    let now: Date
    /// Whether an answer that leads to other rows than the server's is refused.
    var comparesFingerprint = true
    /// What may be done with an answer that deletes much.
    var consent = MassDeletion.Consent.none

    /// Applies the answer to a request.
    func apply(_ body: [UInt8], to outgoing: DeviceCore.Outgoing, boundaries: KnownTransactions, newID: () -> UUID)
        throws -> Applied
    {
        let requested = outgoing.revision
        var laps = try Laps(db)
        guard file.revision == requested, outgoing.exchange.isOpen(laps) else {
            return Applied(revision: file.revision, isStale: true)
        }
        let envelope = try AnswerEnvelope(body, file: file, limits: limits, in: db)
        if let schema = envelope.schema, schema != file.tables.servedHash {
            // What the answer names is known only when the schema is: it is asked for again then.
            return Applied(revision: file.revision, isStale: true, knowsOldSchema: true)
        }
        try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
        try stage(envelope)
        let check = AnswerCheck(db: db, schema: file.schema, requested: requested, sent: outgoing.changeSets)
        try check.form()
        try DeviceClock.receiveStaged(db)
        let answered = try AnsweredSets(after: requested, through: envelope.maxRevision, in: db)
        var applied = Applied(revision: envelope.maxRevision, hasMore: envelope.hasMore)
        if envelope.echoesIds {
            guard let events = try confirm(answered, envelope, outgoing) else {
                return Applied(revision: file.revision, isStale: true, needsEcho: true)
            }
            applied.events = events
        } else if answered.isEmpty, envelope.overruled == "[]" {
            try compare(file.fingerprint, with: envelope)
        } else {
            applied.events = try rewrite(answered, envelope, check, newID: newID)
        }
        if envelope.maxRevision != requested {
            try db.cachedStatement(sql: "UPDATE tidemark_state SET revision = ?").execute(arguments: [
                envelope.maxRevision
            ])
        }
        try DeviceFile.noteContact(now, in: db)
        if case .lap(let lap) = outgoing.exchange { try laps.finish(lap, in: db) }
        applied.settledCount = answered.accepted.count + answered.refused.count
        if applied.settledCount > 0 { applied.events.insert(.sent(changeSets: applied.settledCount), at: 0) }
        applied.hasPending =
            try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)")) ?? false
        return applied
    }

    /// Rewinds, writes, settles and replays.
    private func rewrite(_ answered: AnsweredSets, _ envelope: AnswerEnvelope, _ check: AnswerCheck, newID: () -> UUID)
        throws -> [SyncEvent]
    {
        var events: [SyncEvent] = []
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: file.schema)
            events += try editedMeanwhile(answered)
            try pending.rewind()
            try check.newIdsAreFree()
            events += try write(answered, envelope)
            events += try settle(answered)
            events += try keepOverruled(envelope, newID: newID)
            try pending.refreshBase()
            try pending.replay()
            try OwnReferences(db: db, schema: file.schema).settle()
        }
        return events
    }

    /// Takes in that everything was committed as it was sent; nil when that does not suffice.
    private func confirm(_ answered: AnsweredSets, _ envelope: AnswerEnvelope, _ outgoing: DeviceCore.Outgoing) throws
        -> [SyncEvent]?
    {
        guard outgoing.takesIds, let fingerprint = envelope.fingerprint, comparesFingerprint, answered.foreign.isEmpty,
            answered.refused.isEmpty, answered.accepted.count == answered.stream.count, !answered.stream.isEmpty
        else { throw AnswerCheck.inapplicable("it brings ids alone where rows are due.") }
        var events: [SyncEvent]?
        try DeviceFile.whileApplying(db) {
            events = try ConfirmSent(db: db, file: file, limits: limits).take(answered, leadingTo: fingerprint)
        }
        return events
    }

    private func stage(_ envelope: AnswerEnvelope) throws {
        do { try envelope.staging.stage(changeSets: envelope.changeSets) } catch let error as TidemarkError {
            throw AnswerCheck.inapplicable(error.message, place: error.place)
        }
    }

    /// Writes what others did, and what became of the device's own, as one change set.
    private func write(_ answered: AnsweredSets, _ envelope: AnswerEnvelope) throws -> [SyncEvent] {
        guard let last = answered.stream.last else {
            try compare(file.fingerprint, with: envelope)
            return []
        }
        let isLastOnly = planted(PlantedBug.appliesLastRevisionOnly)
        let target = answered.stream.count == 1 || isLastOnly ? last : -1
        if target == -1 { try Coalesce.merge(answered.stream, into: target, in: db) }
        let confirmed = ConfirmedRows(db: db, file: file)
        let rows = RowFingerprints(db, schema: file.schema)
        let deletion = try MassDeletion.staged(as: target, file.schema, limits: limits, in: db)
        if let deletion, case .none = consent { throw deletion }
        let before = try confirmed.expected.map { try $0 - rows.records(stagedAs: target) }
        try write(target)
        try UnknownValues(db: db, schema: file.schema).take(ord: target)
        if let deletion { try deletion.requireConsent(consent, to: envelope, file, rows) }
        let after = try before.map { try $0 + rows.records(stagedAs: target) }
        try checkReferences(of: target, expecting: after, rows)
        try compare(after, with: envelope)
        guard !answered.foreign.isEmpty else { return [] }
        let foreign = "[" + answered.foreign.map(String.init).joined(separator: ",") + "]"
        let records =
            try Int.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT count(*) FROM (SELECT DISTINCT tbl, key FROM temp.tidemark_staged
                        WHERE ord IN (SELECT value FROM json_each(?)))
                        """
                ),
                arguments: [foreign]
            ) ?? 0
        return [.remoteChanges(revision: envelope.maxRevision, records: records)]
    }

    /// Writes a staged change set.
    ///
    /// What does not fit the rows here shows that they are not the server's.
    private func write(_ target: Int) throws {
        do {
            let unmatched = try RecordWriter(db, schema: file.schema, existing: .overwrite).write(ord: target)
            // What is missing here is found by the comparison that is under way.
            guard unmatched > 0, comparesFingerprint else { return }
            throw misfit("the server updates \(unmatched) records that are not here")
        } catch let error as DatabaseError where error.isCollision {
            throw misfit(error.message ?? "a constraint fails")
        }
    }

    private func misfit(_ reason: String) -> TidemarkError {
        guard file.tables.isZones, comparesFingerprint else {
            return TidemarkError(
                .snapshotRequired,
                "The answer does not fit the rows of this file: \(reason).",
                fix: "The rows are taken anew from a snapshot; the outbox is kept."
            )
        }
        return TidemarkError(
            .fingerprintMismatch,
            "The answer does not fit the rows of this file: \(reason).",
            fix: "Nothing was changed; the rows are compared and those that differ replaced."
        )
    }

    /// A reference to nothing is the answer's fault, unless a row of this file is missing.
    private func checkReferences(of target: Int, expecting expected: Fingerprint?, _ rows: RowFingerprints) throws {
        guard comparesFingerprint else { return }
        do { try AnswerReferences(db: db, schema: file.schema).check(ord: target) } catch let error as TidemarkError {
            guard let expected, try rows.all() != expected else { throw error }
            throw misfit("a record refers to one that is not here")
        }
    }

    /// The tables are the server's now, so they have the server's fingerprint, or a cell was
    /// applied wrongly; then nothing of this answer stays.
    private func compare(_ mine: Fingerprint?, with envelope: AnswerEnvelope) throws {
        let confirmed = ConfirmedRows(db: db, file: file)
        let mine = confirmed.expected == nil ? nil : mine
        if comparesFingerprint, let mine, let theirs = envelope.fingerprint, mine != theirs {
            throw TidemarkError(
                .fingerprintMismatch,
                "The rows would not be the server's after this answer: \(mine) is not \(theirs).",
                fix: "Nothing was changed; the rows are compared and those that differ replaced."
            )
        }
        try confirmed.keep(mine)
    }

    /// The records with waiting changes that others changed.
    private func editedMeanwhile(_ answered: AnsweredSets) throws -> [SyncEvent] {
        let list = "[" + answered.foreign.map(String.init).joined(separator: ",") + "]"
        return try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT b.tbl, b.key, max(s.operation = 'delete') AS deleted
                    FROM tidemark_base AS b JOIN temp.tidemark_staged AS s ON s.tbl = b.tbl AND s.key = b.key
                    WHERE s.ord IN (SELECT value FROM json_each(?)) GROUP BY b.tbl, b.key
                    """
            ),
            arguments: [list]
        ).map { try .changedWhileEdited(table: $0.value("tbl"), key: $0.value("key"), isDeleted: $0.value("deleted")) }
    }

    /// Gives the device's own change sets what the server decided.
    private func settle(_ answered: AnsweredSets) throws -> [SyncEvent] {
        var events = try MapIdentities(db: db, schema: file.schema).map(answered.accepted.map(\.ord))
        try RespellKeys(db: db, schema: file.schema).take(answered.accepted.map(\.ord))
        let overruled = OverruledValues(db: db, now: Timestamp.text(now))
        let parking = ParkConflict(db: db, now: Timestamp.text(now))
        if !answered.accepted.isEmpty {
            try KeptChangeSets(db: db, limits: limits).keepAccepted(epoch: file.epoch ?? "")
        }
        for item in answered.accepted {
            events += try overruled.keep(fromSet: item.ord, id: item.id)
            events += try parking.keepMissing(id: item.id, ord: item.ord, in: file.schema)
            try Outbox.remove(item.id, in: db)
        }
        if !answered.accepted.isEmpty { try Outbox.forgetNewerEdits(in: db) }
        events += try parking.park(answered.refused)
        return events
    }

    /// Keeps what others overruled of the device's earlier changes.
    private func keepOverruled(_ envelope: AnswerEnvelope, newID: () -> UUID) throws -> [SyncEvent] {
        try OverruledValues(db: db, now: Timestamp.text(now)).keep(
            notes: envelope.overruled,
            after: file.overruled,
            newID: newID
        )
    }
}
