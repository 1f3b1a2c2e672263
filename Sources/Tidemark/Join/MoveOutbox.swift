import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Moves the outbox from one history into another, when a snapshot's rows are in the tables and the
/// bases are still the old ones.
///
/// 1. Change sets whose verdict never arrived get it now: accepted ones leave, refused ones are
///    parked.
/// 2. What was acknowledged and the server has forgotten is offered again, before all that waits:
///    ``OfferAgain``.
/// 3. No server knows what still waits, and its bases are revisions of a history that is gone: it
///    is judged by comparing rows.
/// 4. What is left is based on the snapshot, and is no longer frozen: it is sent as it is now.
/// 5. Values that others have overruled are kept: the server has them for the old identity.
/// 6. The file takes a new identity. The server may know the old one from a later or another life
///    of this file, in which the same temporary ids stood for other records.
struct MoveOutbox {
    /// The verdicts that never arrived.
    let verdicts: LateVerdicts
    /// The records that waiting changes refer to, as they were in the old history.
    let parents: OldParents
    let newID: () -> UUID

    private var db: Database { verdicts.db }
    private var header: SnapshotFormat.Header { verdicts.header }
    private var recall: Recall { verdicts.recall }

    /// Moves the outbox, inside the transaction that takes the snapshot in.
    func move() throws -> [SyncEvent] {
        let schema = verdicts.schema
        let now = verdicts.now
        let offer = OfferAgain(db: db, schema: schema, header: header, now: now)
        let forgotten = try offer.forgotten(recall)
        var events = try verdicts.settleAll()
        let offered = try offer.offer(forgotten)
        events += offered.events
        try noteSeen(from: offered.firstWaiting)
        events += try JudgeAfterReset(
            db: db,
            schema: schema,
            firstWaiting: offered.firstWaiting,
            parents: try isOther ? parents : nil,
            now: now
        ).park()
        try offer.takeBack()
        try db.execute(sql: "UPDATE tidemark_changeset SET wire = NULL, epoch = ?", arguments: [header.epoch])
        try WireText.forgetRest(in: db)
        try db.execute(sql: "UPDATE tidemark_outbox SET base = ?", arguments: [header.revision])
        // What has its verdict is in the rows that the others are based on now.
        try db.execute(sql: "DELETE FROM tidemark_after WHERE id NOT IN (SELECT id FROM tidemark_changeset)")
        events += try OverruledValues(db: db, now: now).keep(notes: recall.overruled, after: notesTaken, newID: newID)
        try Laps.renew(device: newID(), in: db)
        return [.historyChanged(epoch: header.epoch, offeredAgain: offered.count)] + events
    }

    /// Whether ids of the old history may stand for other records now: whether the server has
    /// forgotten anything that this device has seen.
    private var isOther: Bool {
        get throws {
            let file = try DeviceFile(db)
            return file.epoch != header.epoch || (recall.seen ?? -1) < file.revision
        }
    }

    /// The number of the last note that this file has; a server that has forgotten anything gives
    /// numbers again, and rather tells a value twice than not at all.
    private var notesTaken: Int64 {
        get throws {
            let file = try DeviceFile(db)
            return (recall.seen ?? -1) < file.revision ? 0 : file.overruled
        }
    }

    /// Takes as the base of what waits the record that its author saw.
    ///
    /// The old server may have confirmed another one since, which nobody here has looked at: there,
    /// the revision of the base told of that, and here it does not count any more.
    private func noteSeen(from firstWaiting: Int64) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_base SET image = (
                    SELECT o.before FROM tidemark_outbox AS o
                    WHERE o.tbl = tidemark_base.tbl AND o.key = tidemark_base.key AND o.seq >= ?
                    ORDER BY o.seq LIMIT 1)
                """,
            arguments: [firstWaiting]
        )
    }
}
