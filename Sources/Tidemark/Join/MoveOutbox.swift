import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Moves the outbox from one history into another.
///
/// The caller has put the snapshot's rows into the tables; the bases are still the old ones.
///
/// 1. Change sets whose verdict never arrived get it now: accepted ones leave, refused ones are parked.
/// 2. The device offers acknowledged change sets again that the server has forgotten, ahead of the
///    pending ones: ``OfferAgain``.
/// 3. The server knows none of the pending change sets, and their bases are revisions of a lost
///    history. The device judges them by comparing rows.
/// 4. The remaining change sets get the snapshot's revision as their base. They are no longer frozen.
/// 5. The device keeps its overruled values: the server stores them for the old identity.
/// 6. The file takes a new identity. The server may know the old one from another copy of this
///    file, in which the same temporary ids stood for other records.
struct MoveOutbox {
    let verdicts: LateVerdicts
    /// The records that pending changes refer to, as they were in the old history.
    let parents: OldParents
    private var round: RoundContext { verdicts.round }
    private var db: Database { round.db }
    private var header: SnapshotFormat.Header { verdicts.header }
    private var recall: Recall { verdicts.recall }

    /// Moves the outbox, inside the transaction that applies the snapshot.
    func move() throws -> [DeviceEvent] {
        let schema = round.schema
        let now = round.time
        let offering = OfferAgain(db: db, schema: schema, header: header, now: now)
        let forgottenIDs = try offering.forgottenIDs(recall)
        var events = try verdicts.settleAll()
        let offer = try offering.offer(forgottenIDs)
        events += offer.events
        try resetBases(from: offer.firstWaiting)
        events += try JudgeAfterReset(
            db: db, schema: schema, firstWaiting: offer.firstWaiting, parents: try hasLostRevisions ? parents : nil,
            now: now, knowsVerdicts: recall.lastRevision != nil
        ).park()
        try offering.restoreRows()
        try db.execute(sql: "UPDATE tidemark_changeset SET wire = NULL, epoch = ?", arguments: [header.epoch])
        try WireText.deleteOverflow(in: db)
        try db.execute(sql: "UPDATE tidemark_outbox SET base = ?", arguments: [header.revision])
        // The rows of the new bases already contain every change set with a verdict.
        try db.execute(sql: "DELETE FROM tidemark_after WHERE id NOT IN (SELECT id FROM tidemark_changeset)")
        events += try OverruledValues(db: db, now: now).park(
            notes: recall.overruled, after: lastNote, newID: round.newID)
        try Laps.renew(newID: round.newID, in: db)
        return [.historyChanged(epoch: header.epoch, offeredAgain: offer.count)] + events
    }

    /// Whether the server has lost revisions that this device applied, so that old ids may stand for other records.
    private var hasLostRevisions: Bool {
        get throws {
            let file = try DeviceFile(db)
            return file.epoch != header.epoch || (recall.lastRevision ?? -1) < file.revision
        }
    }

    /// The last note of overruled values that this file has; 0 if the server lost revisions and so reuses numbers.
    private var lastNote: Int64 {
        get throws {
            let file = try DeviceFile(db)
            return (recall.lastRevision ?? -1) < file.revision ? 0 : file.overruled
        }
    }

    /// Sets each base to the record that the first pending change's author saw.
    ///
    /// The old server may have confirmed a later version since. In the old history the base's
    /// revision revealed that; in the new one it means nothing.
    private func resetBases(from firstWaiting: Int64) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_base SET image = (
                    SELECT pending.before
                    FROM tidemark_outbox AS pending
                    WHERE pending.tbl = tidemark_base.tbl AND pending.key = tidemark_base.key AND pending.seq >= ?
                    ORDER BY pending.seq
                    LIMIT 1)
                """, arguments: [firstWaiting])
    }
}
