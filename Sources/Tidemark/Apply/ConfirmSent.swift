import GRDB
import TidemarkCore
import TidemarkSQLite

/// Takes in an answer that says no more than that everything sent was committed as it was sent.
///
/// The tables hold what the server has now, under temporary ids; so nothing is rewound, written or
/// replayed. What is written down is what the server has confirmed: the rows as they are, or, of a
/// record that was edited again meanwhile, the row as it was before the first edit that still
/// waits.
///
/// Whether all that holds is not argued but added up: the confirmed rows have the server's
/// fingerprint, or nothing of this has happened and the answer is asked for in full. So it does,
/// for instance, when a sent change set is not shown because it did not fit the rows here.
struct ConfirmSent {
    let db: Database
    let file: DeviceFile
    let limits: Limits

    /// Takes in the staged answer.
    ///
    /// - Returns: What to tell the app; nil when the answer does not suffice, with everything as
    ///   it was.
    func take(_ answered: AnsweredSets, leadingTo theirs: Fingerprint) throws -> [SyncEvent]? {
        let confirmed = ConfirmedRows(db: db, file: file)
        guard let expected = confirmed.expected else { return nil }
        var events: [SyncEvent]?
        do {
            try db.inSavepoint {
                let identities = MapIdentities(db: db, schema: file.schema)
                let assigned = try identities.assign(answered.accepted.map(\.ord))
                try RenameRows(db: db, schema: file.schema).run()
                let mapped = try identities.rewriteAll(assigned)
                try listRecords()
                let mine = try expected + RowFingerprints(db, schema: file.schema).confirmed()
                guard mine == theirs else { return .rollback }
                try confirmed.keep(mine)
                try noteBases()
                try settle()
                events = mapped
                return .commit
            }
        } catch let error as DatabaseError where error.isCollision { return nil }
        return events
    }

    /// The numbers of the change sets that were sent and answered.
    private static let sent = """
        SELECT c.seq FROM temp.tidemark_answered AS a JOIN tidemark_changeset AS c ON c.id = a.id
        """

    /// Lists what the sent change sets are about: as it was confirmed before, and, where something
    /// waits, as it was before that.
    private func listRecords() throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_confirmed (tbl, key, was, waits, became)
                WITH sent (seq) AS MATERIALIZED (\(Self.sent)),
                    record (tbl, key, next) AS (
                        SELECT r.tbl, r.key, (
                            SELECT min(w.seq) FROM tidemark_outbox AS w
                            WHERE w.tbl = r.tbl AND w.key = r.key AND w.seq NOT IN (SELECT seq FROM sent))
                        FROM (
                            SELECT DISTINCT tbl, key FROM tidemark_outbox
                            WHERE seq IN (SELECT seq FROM sent)
                        ) AS r
                    )
                SELECT r.tbl, r.key, b.image, r.next IS NOT NULL, w.before
                FROM record AS r LEFT JOIN tidemark_base AS b ON b.tbl = r.tbl AND b.key = r.key
                    LEFT JOIN tidemark_outbox AS w ON w.seq = r.next AND w.tbl = r.tbl AND w.key = r.key
                """
        ).execute()
    }

    private func noteBases() throws {
        let records = "SELECT tbl, key FROM temp.tidemark_confirmed"
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_base SET image = (
                    SELECT c.became FROM temp.tidemark_confirmed AS c
                    WHERE c.tbl = tidemark_base.tbl AND c.key = tidemark_base.key)
                WHERE (tbl, key) IN (\(records) WHERE waits)
                """
        ).execute()
        try db.cachedStatement(sql: "DELETE FROM tidemark_base WHERE (tbl, key) IN (\(records) WHERE NOT waits)")
            .execute()
    }

    private func settle() throws {
        try KeptChangeSets(db: db, limits: limits).keepAccepted(epoch: file.epoch ?? "")
        for table in ["outbox", "after", "wire_rest", "changeset"] {
            try db.cachedStatement(sql: "DELETE FROM tidemark_\(table) WHERE seq IN (\(Self.sent))").execute()
        }
        try Outbox.forgetNewerEdits(in: db)
    }
}
