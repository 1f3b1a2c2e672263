import GRDB
import TidemarkCore
import TidemarkSQLite

/// The verdicts on change sets that wait, told beside a snapshot whose rows are in the tables.
///
/// What was sent may have been committed although no answer arrived, and then the snapshot has its
/// rows. Its new records would be there twice, under the temporary id and the permanent one, until
/// an answer came; and who deleted one of the two would delete the record.
struct LateVerdicts {
    let db: Database
    let schema: SyncSchema
    let header: SnapshotFormat.Header
    let recall: Recall
    let limits: Limits
    let now: String

    /// Settles the change sets that the snapshot has; those that were refused, or came later, get
    /// their verdict by the next answer.
    func settle() throws -> [SyncEvent] {
        try stage()
        try db.execute(
            sql: "DELETE FROM temp.tidemark_answered WHERE conflict OR revision > ?",
            arguments: [header.revision]
        )
        return try settleAccepted()
    }

    /// Settles all of them, where the snapshot is of another history.
    func settleAll() throws -> [SyncEvent] {
        try stage()
        let refused = try Row.fetchAll(
            db,
            sql: """
                SELECT a.ord, a.id FROM temp.tidemark_answered AS a
                JOIN tidemark_changeset AS c ON c.id = a.id WHERE a.conflict ORDER BY a.ord
                """
        ).map { try (ord: $0.value("ord") as Int, id: $0.value("id") as String) }
        let events = try settleAccepted()
        return try events + ParkConflict(db: db, now: now).park(refused)
    }

    private func stage() throws {
        do {
            let staging = try ChangeSetStaging(
                body: Array(recall.changeSets.utf8),
                limits: limits,
                strangers: .dropped,
                in: db
            )
            try staging.stage(changeSets: staging.outline)
        } catch let error as TidemarkError { throw AnswerCheck.inapplicable(error.message, place: error.place) }
        try AnswerCheck(db: db, schema: schema, requested: header.revision, sent: []).ownSets()
    }

    private func settleAccepted() throws -> [SyncEvent] {
        let accepted = try Row.fetchAll(
            db,
            sql: """
                SELECT a.ord, a.id FROM temp.tidemark_answered AS a
                JOIN tidemark_changeset AS c ON c.id = a.id WHERE NOT a.conflict ORDER BY a.ord
                """
        )
        let numbers = try accepted.map { try $0.value("ord") as Int }
        var events: [SyncEvent] = accepted.isEmpty ? [] : [.sent(changeSets: accepted.count)]
        events += try MapIdentities(db: db, schema: schema).map(numbers)
        try RespellKeys(db: db, schema: schema).take(numbers)
        try KeptChangeSets(db: db, limits: limits).keepAccepted(epoch: header.epoch)
        let overruled = OverruledValues(db: db, now: now)
        let parking = ParkConflict(db: db, now: now)
        for verdict in accepted {
            let ord = try verdict.value("ord") as Int
            let id = try verdict.value("id") as String
            events += try overruled.keep(fromSet: ord, id: id)
            if !recall.asSent.contains(id) { events += try parking.keepMissing(id: id, ord: ord, in: schema) }
            try Outbox.remove(id, in: db)
        }
        return events
    }
}
