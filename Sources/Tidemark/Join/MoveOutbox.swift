import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Moves the outbox from one history into another, when a snapshot's rows are in the tables and the
/// bases are still the old ones.
///
/// 1. Change sets whose verdict never arrived get it now: accepted ones leave, refused ones are
///    parked.
/// 2. No server knows the others, and their bases are revisions of a history that is gone: they are
///    judged by comparing rows.
/// 3. What is left is based on the snapshot, and is no longer frozen: it is sent as it is now.
/// 4. The file takes a new identity. The server may know the old one from a later or another life
///    of this file, in which the same temporary ids stood for other records.
struct MoveOutbox {
    let db: Database
    let schema: SyncSchema
    let header: SnapshotFormat.Header
    let recall: Recall
    let limits: Limits
    let now: String
    let newID: () -> UUID

    /// Moves the outbox, inside the transaction that takes the snapshot in.
    func move() throws -> [SyncEvent] {
        var events = try settle()
        events += try JudgeAfterReset(db: db, schema: schema, now: now).park()
        try db.execute(
            sql: "UPDATE tidemark_changeset SET wire = NULL, epoch = ?",
            arguments: [header.epoch]
        )
        try db.execute(sql: "UPDATE tidemark_outbox SET base = ?", arguments: [header.revision])
        // What has its verdict is in the rows that the others are based on now.
        try db.execute(
            sql: "DELETE FROM tidemark_after WHERE id NOT IN (SELECT id FROM tidemark_changeset)"
        )
        try Laps.renew(device: newID(), in: db)
        return events
    }

    /// Gives waiting change sets the verdicts that never arrived.
    private func settle() throws -> [SyncEvent] {
        do {
            try ChangeSetStaging(body: Array(recall.changeSets.utf8), limits: limits, in: db).stage(
                changeSets: recall.changeSets
            )
        } catch let error as TidemarkError {
            throw TidemarkError(
                .invalidResponse,
                "The server's answer cannot be applied: \(error.message)",
                fix: "Nothing was changed. Compare the versions and tables of both sides.",
                place: error.place
            )
        }
        let verdicts = try Row.fetchAll(
            db,
            sql: """
                SELECT s.ord, c.id, coalesce(s.json ->> '$.conflict', 0) AS conflict
                FROM temp.tidemark_staged_set AS s
                JOIN tidemark_changeset AS c ON c.id = s.json ->> '$.id' ORDER BY s.ord
                """
        )
        var events: [SyncEvent] = []
        let accepted = verdicts.filter { !($0["conflict"] as Bool) }
        for verdict in accepted {
            events += try MapIdentities(db: db, schema: schema).map(ord: verdict["ord"])
        }
        for verdict in accepted { try Outbox.remove(verdict["id"], in: db) }
        for verdict in verdicts where verdict["conflict"] {
            events += try ParkConflict(db: db, now: now).park(
                id: verdict["id"],
                ord: verdict["ord"]
            )
        }
        return events
    }
}
