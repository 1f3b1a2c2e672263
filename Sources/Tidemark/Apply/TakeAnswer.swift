import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Takes an answer into the file, in one immediate transaction: a crash leaves the file before or after all of it.
///
/// 1. **Drain** edits made since the request, so that the outbox holds all pending changes.
/// 2. **Rewind** the records with pending changes to their confirmed versions.
/// 3. Write the joined change sets of the answer. Now the tables hold exactly the server's rows.
/// 4. Settle the device's own change sets: map the ids of accepted ones, park refused ones.
/// 5. **Replay** the remaining pending changes on their new base.
/// 6. Store the revision.
struct TakeAnswer {
    let round: RoundContext
    /// Whether an answer is refused if the resulting fingerprint differs from the server's.
    var comparesFingerprint = true
    var consent = MassDeletion.Consent.none

    private var db: Database { round.db }
    private var file: DeviceFile { round.file }

    func take(_ body: [UInt8], to outgoing: DeviceCore.Outgoing) throws -> ApplyResult {
        try body.withUnsafeBufferPointer { try take($0, to: outgoing) }
    }

    private func take(_ body: UnsafeBufferPointer<UInt8>, to outgoing: DeviceCore.Outgoing) throws -> ApplyResult {
        let requested = outgoing.revision
        var laps = file.laps
        guard file.revision == requested, outgoing.exchange.isOpen(laps) else {
            return ApplyResult(revision: file.revision, outcome: .overtaken)
        }
        let answer = try Answer(body, file: file, limits: round.limits)
        if let schema = answer.schema, schema != file.tables.servedHash {
            // The device fetches the schema first and repeats the request.
            return ApplyResult(revision: file.revision, outcome: .needsSchema)
        }
        try round.drain()
        let answered = try Answered(
            answer.sets(file.schema), after: requested, through: answer.maxRevision, verdictsOn: outgoing.changeSets,
            file.schema, in: db)
        try DeviceClock.receive(answered.time, in: db)
        var applied = ApplyResult(revision: answer.maxRevision, hasMore: answer.hasMore)
        applied.hasRebuilt = file.rebuilt != nil
        if answer.echoesIds {
            guard let events = try confirm(answered, answer, to: outgoing) else {
                return ApplyResult(revision: file.revision, outcome: .needsRows)
            }
            applied.events = events
        } else if answered.isEmpty, answer.overruled == "[]" {
            try compare(file.fingerprint, with: answer)
        } else {
            applied.events = try rebase(answered, answer)
        }
        if answer.maxRevision != requested {
            try db.execute(cached: "UPDATE tidemark_state SET revision = ?", arguments: [answer.maxRevision])
        }
        let drawn = DrawnIDs(db: db, schema: file.schema)
        try drawn.store(answer.lent)
        try drawn.settle(newID: round.newID)
        try DeviceFile.storeContact(round.now, in: db)
        if case .lap(let lap) = outgoing.exchange { try laps.finish(lap, in: db) }
        applied.settledCount = answered.accepted.count + answered.refused.count
        if applied.settledCount > 0 { applied.events.insert(.sent(changeSets: applied.settledCount), at: 0) }
        applied.hasPending = try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false
        return applied
    }

    private func rebase(_ answered: Answered, _ answer: Answer) throws -> [DeviceEvent] {
        var events = try concurrentEditEvents(answered)
        events += try round.rebase {
            try CompareRebuilt(
                db: db, schema: file.schema, tables: CompareRebuilt.tables(file), now: round.time, newID: round.newID
            ).yieldIDs(to: answered.stream)
            try answered.checkNewIDs(after: file.revision)
            var events = try write(answered, answer)
            events += try SettleVerdicts(round: round).settle(answered, epoch: file.epoch ?? "")
            return try events
                + OverruledValues(db: db, now: round.time).park(
                    notes: answer.overruled, after: file.overruled, newID: round.newID)
        }
        return events
    }

    // MARK: The server's rows

    private func write(_ answered: Answered, _ answer: Answer) throws -> [DeviceEvent] {
        guard let last = answered.stream.last else {
            try compare(file.fingerprint, with: answer)
            return []
        }
        let stream = planted(PlantedBug.appliesLastRevisionOnly) ? [last] : answered.stream
        let changeSet = try PendingChangeSet.joining(
            stream.map(\.changeSet), last.reader, names: file.schema.wireNames)
        let rows = RowFingerprints(db, schema: file.schema)
        let deletion = try MassDeletion.find(changeSet, file.schema, limits: round.limits, in: db)
        if let deletion, case .none = consent { throw deletion }
        let before = try round.fingerprints.servedFingerprint.map { try $0 - rows.records(of: changeSet) }
        let isRebuilt = file.rebuilt != nil
        let replaced = ReplacedRows(db: db, schema: file.schema)
        if isRebuilt {
            // Without a sum, nothing says that rows of other tables differ from the server's.
            let tables = before == nil ? try CompareRebuilt.tables(file) : file.schema.tables
            try replaced.keep(changeSet, of: tables)
        } else if !comparesFingerprint {
            // A comparison is running, because rows of this file differ from the server's.
            try round.uncaptured.keepRows(changeSet)
        }
        try write(changeSet)
        try UnknownValues(db: db, schema: file.schema).store(changeSet)
        try deletion?.requireConsent(
            consent, at: answer.maxRevision, answer.fingerprint, file: file, rows: rows)
        let after = try before.map { try $0 + rows.records(of: changeSet) }
        try checkReferences(of: changeSet, expecting: after, rows)
        try compare(after, with: answer)
        var events: [DeviceEvent] = []
        // If a sum is right, the written records, or all, were as the server had confirmed them.
        if isRebuilt {
            if after != nil, after == answer.fingerprint { try replaced.forget(keptAt: file.revision) }
        } else if !comparesFingerprint, after != answer.fingerprint, try rows.all() != after {
            events += try round.uncaptured.parkReplaced(since: .earlier)
        }
        guard !answered.foreign.isEmpty else { return events }
        let records = answered.foreign.lazy.flatMap(\.changeSet.records)
        return events + [.changed(RemoteChanges(revision: answer.maxRevision, records, file.schema.wireNames))]
    }

    /// Writes the zone's changes; if they do not fit, the rows of this file differ from the server's.
    private func write(_ changeSet: PendingChangeSet) throws {
        do {
            let unmatched = try ChangeWriter(db, schema: file.schema, isDevice: true).write(changeSet)
            // A running comparison of rows finds the missing records, and that of rebuilt tables finds deletions.
            guard unmatched > 0, comparesFingerprint, file.rebuilt == nil else { return }
            throw misfit("the server updates \(unmatched) records that this file lacks")
        } catch let error as DatabaseError where error.isCollision {
            throw misfit(error.message ?? "a constraint fails")
        }
    }

    private func misfit(_ reason: String) -> TidemarkError {
        guard round.fingerprints.isComparable, comparesFingerprint else {
            return TidemarkError(
                .snapshotRequired, "The answer does not fit the rows of this file: \(reason).",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
        return TidemarkError(
            .fingerprintMismatch, "The answer does not fit the rows of this file: \(reason).",
            fix: "Nothing was changed. The device compares its rows with the server's and repairs them.")
    }

    /// A dangling reference is the answer's fault, unless this file's rows already differ from the server's.
    private func checkReferences(
        of changeSet: PendingChangeSet, expecting expected: Fingerprint?, _ rows: RowFingerprints
    ) throws {
        guard comparesFingerprint, file.rebuilt == nil,
            let broken = try ForeignKeyCheck(db, schema: file.schema).firstBroken(by: changeSet)
        else { return }
        guard let expected, try rows.all() != expected else { throw Answer.dangling(broken) }
        throw misfit("a record refers to one that this file lacks")
    }

    /// Compares the confirmed rows' fingerprint with the server's, and stores it; the caller rolls back a mismatch.
    private func compare(_ mine: Fingerprint?, with answer: Answer) throws {
        let confirmed = round.fingerprints
        guard file.rebuilt == nil else {
            // The file's rows differ, so only the server knows the fingerprint of its own.
            return try confirmed.store(confirmed.servedFingerprint == nil ? nil : answer.fingerprint)
        }
        let mine = confirmed.expectedFingerprint == nil ? nil : mine
        if comparesFingerprint, let mine, let theirs = answer.fingerprint, mine != theirs {
            throw TidemarkError(
                .fingerprintMismatch,
                "After this answer the rows would differ from the server's: \(mine) is not \(theirs).",
                fix: "Nothing was changed. The device compares its rows with the server's and repairs them.")
        }
        try confirmed.store(mine)
        if comparesFingerprint, file.checked == nil, mine != nil, mine == answer.fingerprint {
            try confirmed.recordCheck(round.now)
        }
    }

    /// Returns an event for each record that has pending changes and that another author changed.
    private func concurrentEditEvents(_ answered: Answered) throws -> [DeviceEvent] {
        guard try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_base)") == true else { return [] }
        var names: [RecordID] = []
        var deletions: [RecordID: Bool] = [:]
        for record in answered.foreign.lazy.flatMap(\.changeSet.records) {
            let id = RecordID(table: record.table, key: record.key)
            if deletions[id] == nil { names.append(id) }
            deletions[id] = deletions[id] == true || record.operation == .delete
        }
        let tableName = { (record: RecordID) in file.schema.wireNames.tables[record.table].name }
        var edited: Set<RecordID> = []
        for (place, records) in Dictionary(grouping: names, by: \.table) {
            let keys = try String.fetchAll(
                db,
                cached: """
                    SELECT listed.value
                    FROM json_each(?) AS listed
                    CROSS JOIN tidemark_base AS base ON base.tbl = ? AND base.key = listed.value
                    """, arguments: [JSONText.array(records.map { JSONText.quote($0.key) }), tableName(records[0])])
            edited.formUnion(keys.map { RecordID(table: place, key: $0) })
        }
        return names.filter(edited.contains).map { record in
            .changedWhileEdited(
                RecordName(tableName(record), RecordKey(json: record.key)), isDeleted: deletions[record] == true)
        }
    }

    // MARK: Only ids

    /// Confirms that the server committed all sent change sets unchanged; nil if the device needs the answer in full.
    ///
    /// The tables already hold the server's rows, under temporary ids. So the device rewinds, writes and
    /// replays nothing; it only updates the bases. The base of a record becomes its row, or, if a later
    /// edit of the record is pending, the row before that edit.
    ///
    /// It then compares fingerprints. If they differ, it rolls back and asks for the full answer. They differ, for
    /// instance, if a sent change set did not fit the rows here and was not replayed.
    private func confirm(_ answered: Answered, _ answer: Answer, to outgoing: DeviceCore.Outgoing) throws
        -> [DeviceEvent]?
    {
        guard outgoing.takesIds, let theirs = answer.fingerprint, comparesFingerprint, answered.foreign.isEmpty,
            answered.refused.isEmpty, answered.accepted.count == answered.stream.count, !answered.stream.isEmpty
        else { throw Answer.inapplicable("it has only ids, but the request needs rows.") }
        guard let expected = round.fingerprints.expectedFingerprint else { return nil }
        var events: [DeviceEvent]?
        try DeviceFile.whileApplying(db) {
            do {
                try db.inSavepoint {
                    let identities = MapIdentities(db: db, schema: file.schema)
                    let newIDs = answered.newIDs
                    try identities.assign(newIDs)
                    try RenameRows(db: db, schema: file.schema).run()
                    let idEvents = try identities.rewriteAll(newIDs)
                    let seqs = JSONText.array(answered.accepted.map { "\($0.pending.seq)" })
                    var mine = try sumAtDrain(seqs).map { expected + $0 }
                    // Other devices' changes of the records, or new ids, have changed the rows since.
                    if mine != theirs {
                        mine = try expected + RowFingerprints(db, schema: file.schema).difference(of: seqs)
                    }
                    guard mine == theirs else { return .rollback }
                    try round.fingerprints.store(mine)
                    try updateBases(seqs)
                    try KeptChangeSets(db: db, limits: round.limits).keep(answered.accepted, epoch: file.epoch ?? "")
                    for table in ["outbox", "after", "wire_rest", "changeset"] {
                        try db.execute(
                            cached: "DELETE FROM tidemark_\(table) WHERE seq IN (SELECT value FROM json_each(?))",
                            arguments: [seqs])
                    }
                    try runPlanted(PlantedBug.acknowledgesNewerEdits, in: db)
                    events = idEvents
                    return .commit
                }
            } catch let error as DatabaseError where error.isCollision {
                // A row has a new id already, so the rows are not those that the server has.
                events = nil
            }
        }
        return events
    }

    /// Returns by how much change sets changed the rows when they were drained, as far as they fit the rows since.
    ///
    /// Nil if a later change of a record waits: its row before that becomes the record's base, which a sum of then does
    /// not prove.
    private func sumAtDrain(_ seqs: String) throws -> Fingerprint? {
        let waits = try Bool.fetchOne(
            db,
            cached: """
                SELECT EXISTS (
                    SELECT 1 FROM tidemark_outbox AS sent
                    CROSS JOIN tidemark_outbox AS later ON later.tbl = sent.tbl AND later.key = sent.key
                    WHERE sent.seq IN (SELECT value FROM json_each(?1))
                        AND later.seq NOT IN (SELECT value FROM json_each(?1)))
                """, arguments: [seqs])
        guard waits == false else { return nil }
        return try String.fetchAll(
            db,
            cached: """
                SELECT coalesce(difference, '') FROM tidemark_changeset
                WHERE seq IN (SELECT value FROM json_each(?))
                """, arguments: [seqs]
        ).reduce(.none) { $0 + (Fingerprint(hex: $1) ?? .none) }
    }

    private func updateBases(_ seqs: String) throws {
        let sent = "SELECT tbl, key FROM tidemark_outbox WHERE seq IN (SELECT value FROM json_each(?1))"
        let later = """
            FROM tidemark_outbox AS later
            WHERE later.tbl = tidemark_base.tbl AND later.key = tidemark_base.key
                AND later.seq NOT IN (SELECT value FROM json_each(?1))
            """
        try db.execute(
            cached: "DELETE FROM tidemark_base WHERE (tbl, key) IN (\(sent)) AND NOT EXISTS (SELECT 1 \(later))",
            arguments: [seqs])
        try db.execute(
            cached: """
                UPDATE tidemark_base SET image = (SELECT later.before \(later) ORDER BY later.seq LIMIT 1)
                WHERE (tbl, key) IN (\(sent))
                """, arguments: [seqs])
    }
}

extension Answer {
    static func dangling(_ broken: (table: String, key: String?)) -> TidemarkError {
        inapplicable("A record would refer to a missing record.", place: .init(table: broken.table, key: broken.key))
    }
}

/// Applies the server's verdicts on the device's change sets, while the tables hold the server's rows.
struct SettleVerdicts {
    let round: RoundContext
    /// The accepted change sets whose effect equals their content; their answers have only the new ids.
    var unchangedIDs: Set<String> = []

    func settle(_ answered: Answered, epoch: String) throws -> [DeviceEvent] {
        let db = round.db
        var events = try MapIdentities(db: db, schema: round.schema).map(answered.newIDs)
        try RespellKeys(db: db, schema: round.schema).run(answered.accepted)
        try KeptChangeSets(db: db, limits: round.limits).keep(answered.accepted, epoch: epoch)
        let overruled = OverruledValues(db: db, now: round.time)
        for own in answered.accepted {
            events += try overruled.park(of: own)
            if !unchangedIDs.contains(own.id) {
                events += try round.parking.parkMissingRecords(of: own, in: round.schema)
            }
            try Outbox.remove(own.id, in: db)
        }
        if !answered.accepted.isEmpty { try runPlanted(PlantedBug.acknowledgesNewerEdits, in: db) }
        return try events + round.parking.park(answered.refused, in: round.schema)
    }
}
