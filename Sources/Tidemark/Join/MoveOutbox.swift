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
/// 5. The file takes a new identity. The server may know the old one from a later or another life
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
        let (schema, now) = (verdicts.schema, verdicts.now)
        let offer = OfferAgain(db: db, schema: schema, header: header, now: now)
        let forgotten = try offer.forgotten(recall)
        var events = try verdicts.settleAll(leaving: confirm)
        let offered = try offer.offer(forgotten)
        events += offered.events
        events += try JudgeAfterReset(
            db: db,
            schema: schema,
            firstWaiting: offered.firstWaiting,
            parents: try isOther ? parents : nil,
            now: now
        ).park()
        try offer.takeBack()
        try db.execute(
            sql: "UPDATE tidemark_changeset SET wire = NULL, epoch = ?",
            arguments: [header.epoch]
        )
        try WireText.forgetRest(in: db)
        try db.execute(sql: "UPDATE tidemark_outbox SET base = ?", arguments: [header.revision])
        // What has its verdict is in the rows that the others are based on now.
        try db.execute(
            sql: "DELETE FROM tidemark_after WHERE id NOT IN (SELECT id FROM tidemark_changeset)"
        )
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

    /// What the server confirmed now includes an accepted change set: later ones were made on it.
    private func confirm(_ id: String) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_base SET image = CASE o.operation
                    WHEN 'delete' THEN NULL WHEN 'create' THEN o.attributes
                    ELSE (SELECT json_group_object(j.key, json(coalesce(
                            o.attributes -> j.fullkey, tidemark_base.image -> j.fullkey)))
                        FROM json_each(tidemark_base.image) AS j) END
                FROM tidemark_changeset AS c JOIN tidemark_outbox AS o USING (seq)
                WHERE c.id = ? AND o.tbl = tidemark_base.tbl AND o.key = tidemark_base.key
                """,
            arguments: [id]
        )
    }
}
