import GRDB
import TidemarkCore
import TidemarkSQL

/// Applies verdicts on pending change sets while the tables hold a snapshot's rows.
///
/// The server may have committed a change set whose answer got lost; then the snapshot contains its
/// rows. Without the verdict, each new record would exist twice until the next answer, under its
/// temporary and its permanent id. A user who deleted one copy would delete the record.
struct LateVerdicts {
    let db: Database
    let schema: SyncSchema
    let header: SnapshotFormat.Header
    let recall: Recall
    let limits: Limits
    let now: String

    /// Settles the change sets that the snapshot contains; others get their verdict with the next answer.
    func settle() throws -> [DeviceEvent] {
        try stage()
        try db.execute(
            sql: "DELETE FROM temp.tidemark_answered WHERE conflict OR revision > ?", arguments: [header.revision])
        return try settleAccepted()
    }

    /// Settles all change sets with a verdict; used if the snapshot is of another history.
    func settleAll() throws -> [DeviceEvent] {
        try stage()
        let refused = try Row.fetchAll(
            db,
            sql: """
                SELECT answered.ord, answered.id
                FROM temp.tidemark_answered AS answered
                JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                WHERE answered.conflict
                ORDER BY answered.ord
                """
        ).map { try (ord: $0.value("ord") as Int, id: $0.value("id") as String) }
        let events = try settleAccepted()
        return try events + ParkConflict(db: db, now: now).park(refused, in: schema)
    }

    private func stage() throws {
        do {
            try ChangeSetStaging.stage(Array(recall.changeSets.utf8), schema, unknownNames: .ignoreDropped, in: db)
        } catch let error as TidemarkError { throw AnswerCheck.inapplicable(error.message, place: error.place) }
        try AnswerCheck(db: db, schema: schema, requested: header.revision, requestIDs: []).checkChangeSets()
    }

    private func settleAccepted() throws -> [DeviceEvent] {
        let accepted = try Row.fetchAll(
            db,
            sql: """
                SELECT answered.ord, answered.id
                FROM temp.tidemark_answered AS answered
                JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                WHERE NOT answered.conflict
                ORDER BY answered.ord
                """)
        let numbers = try accepted.map { try $0.value("ord") as Int }
        var events: [DeviceEvent] = accepted.isEmpty ? [] : [.sent(changeSets: accepted.count)]
        events += try MapIdentities(db: db, schema: schema).map(numbers)
        try RespellKeys(db: db, schema: schema).run(numbers)
        try KeptChangeSets(db: db, limits: limits).keepAccepted(epoch: header.epoch)
        let overruled = OverruledValues(db: db, now: now)
        let parking = ParkConflict(db: db, now: now)
        for verdict in accepted {
            let ord = try verdict.value("ord") as Int
            let id = try verdict.value("id") as String
            events += try overruled.park(fromSet: ord, id: id)
            if !recall.unchangedIDs.contains(id) {
                events += try parking.parkMissingRecords(id: id, ord: ord, in: schema)
            }
            try Outbox.remove(id, in: db)
        }
        return events
    }
}
