import GRDB
import TidemarkCore
import TidemarkSQL

/// Applies an answer that confirms all sent change sets unchanged and has only their new ids.
///
/// The tables already hold the server's rows, under temporary ids. So the device rewinds, writes and
/// replays nothing; it only updates the bases. The base of a record becomes its row, or, if a later
/// edit of the record is pending, the row before that edit.
///
/// The device then compares fingerprints. If they differ, it rolls back and asks for the full answer.
/// They differ, for instance, if a sent change set did not fit the rows here and was not replayed.
struct ConfirmSent {
    let db: Database
    let file: DeviceFile
    let limits: Limits

    /// Returns the events for the app; nil if the fingerprint differs and the file is unchanged.
    func apply(_ answered: AnsweredSets, expecting theirs: Fingerprint) throws -> [DeviceEvent]? {
        let confirmed = ConfirmedRows(db: db, file: file)
        guard let expected = confirmed.expectedFingerprint else { return nil }
        var events: [DeviceEvent]?
        do {
            try db.inSavepoint {
                let identities = MapIdentities(db: db, schema: file.schema)
                let assigned = try identities.assign(answered.accepted.map(\.ord))
                try RenameRows(db: db, schema: file.schema).run()
                let idEvents = try identities.rewriteAll(assigned)
                try fillConfirmedTable()
                let mine = try expected + RowFingerprints(db, schema: file.schema).confirmedDifference()
                guard mine == theirs else { return .rollback }
                try confirmed.store(mine)
                try updateBases()
                try removeFromOutbox()
                events = idEvents
                return .commit
            }
        } catch let error as DatabaseError where error.isCollision { return nil }
        return events
    }

    private static let answeredSeqs = """
        SELECT changeset.seq
        FROM temp.tidemark_answered AS answered
        JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
        """

    /// Lists the records of the sent change sets; `waits` marks pending edits, `became` is the row before the first.
    private func fillConfirmedTable() throws {
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_confirmed (tbl, key, was, waits, became)
                WITH sent (seq) AS MATERIALIZED (\(Self.answeredSeqs)),
                    record (tbl, key, next) AS (
                        SELECT sent_record.tbl, sent_record.key, (
                            SELECT min(pending.seq) FROM tidemark_outbox AS pending
                            WHERE pending.tbl = sent_record.tbl AND pending.key = sent_record.key
                                AND pending.seq NOT IN (SELECT seq FROM sent))
                        FROM (
                            SELECT DISTINCT tbl, key FROM tidemark_outbox
                            WHERE seq IN (SELECT seq FROM sent)
                        ) AS sent_record
                    )
                SELECT record.tbl, record.key, base.image, record.next IS NOT NULL, pending.before
                FROM record
                LEFT JOIN tidemark_base AS base ON base.tbl = record.tbl AND base.key = record.key
                LEFT JOIN tidemark_outbox AS pending
                    ON pending.seq = record.next AND pending.tbl = record.tbl AND pending.key = record.key
                """)
    }

    private func updateBases() throws {
        let records = "SELECT tbl, key FROM temp.tidemark_confirmed"
        try db.execute(
            cached: """
                UPDATE tidemark_base SET image = (
                    SELECT confirmed.became FROM temp.tidemark_confirmed AS confirmed
                    WHERE confirmed.tbl = tidemark_base.tbl AND confirmed.key = tidemark_base.key)
                WHERE (tbl, key) IN (\(records) WHERE waits)
                """)
        try db.execute(cached: "DELETE FROM tidemark_base WHERE (tbl, key) IN (\(records) WHERE NOT waits)")
    }

    private func removeFromOutbox() throws {
        try KeptChangeSets(db: db, limits: limits).keepAccepted(epoch: file.epoch ?? "")
        for table in ["outbox", "after", "wire_rest", "changeset"] {
            try db.execute(cached: "DELETE FROM tidemark_\(table) WHERE seq IN (\(Self.answeredSeqs))")
        }
        try runPlanted(PlantedBug.acknowledgesNewerEdits, in: db)
    }
}
