import GRDB
import TidemarkCore
import TidemarkSQLite

/// Replaces confirmed rows that turned out not to be the server's.
///
/// As in ``ApplyResponse``, waiting edits go back first and come again afterwards. Those whose
/// record was another one than their author thought are parked as a conflict instead.
struct RepairRows {
    let db: Database
    let file: DeviceFile
    let limits: Limits
    let now: String
    /// Whether an id may stand for another record than before.
    let hasOtherHistory: Bool

    /// Puts the server's rows, a change set, into the ranges, which lose all rows that it does not
    /// have.
    ///
    /// Runs in the caller's transaction, without foreign keys, when everything captured is
    /// drained. A trial tells what it would do.
    func replace(_ ranges: [KeyRange], by changeSet: String?, isTrial: Bool) throws -> (
        records: [Verification.Record], events: [SyncEvent]
    ) {
        var records: [Verification.Record] = []
        var events: [SyncEvent] = []
        let body = Array("[\(changeSet ?? "")]".utf8)
        try stage(ChangeSetStaging(body: body, limits: limits, in: db))
        try refuseUnasked(ranges)
        try db.inSavepoint {
            try DeviceFile.whileApplying(db) {
                let pending = PendingChanges(db: db, schema: file.schema)
                let parents = hasOtherHistory ? try OldParents(noting: file.schema, in: db) : nil
                try pending.rewind()
                try stageSurplus(ranges)
                records = try differences()
                try write()
                events = try JudgeAfterReset(
                    db: db,
                    schema: file.schema,
                    firstWaiting: 0,
                    parents: parents,
                    now: now,
                    cause: "This record was not the server's when it was edited; it is now."
                ).park()
                try pending.refreshBase()
                try pending.replay()
            }
            return isTrial ? .rollback : .commit
        }
        guard !isTrial, !records.isEmpty else { return (records, []) }
        return (records, events + [.repaired(records: records.count)])
    }

    /// Stages the server's rows as creations: they replace what is there, or are new.
    private func stage(_ staging: ChangeSetStaging) throws {
        do { try staging.stage(changeSets: staging.outline) } catch let error as TidemarkError {
            throw TidemarkError(
                .invalidResponse,
                "The server's rows cannot be taken over: \(error.message)",
                fix: "Nothing was changed. Compare the versions and tables of both sides.",
                place: error.place
            )
        }
        try db.execute(sql: "UPDATE temp.tidemark_staged SET operation = 'create' WHERE ord = 0")
    }

    /// Refuses rows that nobody has asked for.
    private func refuseUnasked(_ ranges: [KeyRange]) throws {
        try RangeFingerprints(db, schema: file.schema).load(ranges)
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT s.tbl, s.key FROM (
                    SELECT s.tbl, s.key, CASE t.kind WHEN 'integer' THEN CAST(s.key AS INTEGER)
                        ELSE s.key END AS place
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t USING (tbl)
                    WHERE s.ord = 0
                ) AS s WHERE NOT EXISTS (
                    SELECT 1 FROM temp.tidemark_range AS r WHERE r.tbl = s.tbl
                        AND (r.low IS NULL OR s.place >= r.low)
                        AND (r.high IS NULL OR s.place < r.high)) LIMIT 1
                """
        )
        guard let row else { return }
        throw TidemarkError(
            .invalidResponse,
            "The server sent a row that was not asked for.",
            fix: "Nothing was changed. Check the URL, and that nobody is in between.",
            place: try .init(table: row.value("tbl"), key: row.value("key"))
        )
    }

    /// Stages the deletion of rows in the ranges that the server does not have.
    private func stageSurplus(_ ranges: [KeyRange]) throws {
        let names = Set(ranges.map(\.table))
        for table in file.schema.tables where names.contains(table.name) {
            let name = SQLText.literal(table.name)
            try StagedImages.stage(
                """
                SELECT \(name) AS tbl, key, 'delete' AS operation, NULL AS attributes
                FROM (\(RangeFingerprints.rows(of: table))) AS here WHERE NOT EXISTS (
                    SELECT 1 FROM temp.tidemark_staged AS s
                    WHERE s.ord = 0 AND s.tbl = \(name) AND s.key = here.key)
                """,
                ord: 0,
                in: db
            )
        }
    }

    /// What the staged rows change.
    private func differences() throws -> [Verification.Record] {
        let names = try String.fetchSet(db, sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE ord = 0")
        return try file.schema.tables.filter { names.contains($0.name) }.flatMap { table in
            let isHere = "t.\(SQLText.name(table.key[0])) IS NOT NULL"
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT s.key, s.operation = 'delete' AS surplus, \(isHere) AS here,
                        json_remove(s.attributes, '$.revision') AS theirs,
                        \(RowJSON.image(table, prefix: "t.")) AS mine
                    FROM temp.tidemark_staged AS s LEFT JOIN main.\(SQLText.name(table.name)) AS t
                        ON \(KeySQL.match(table, key: "s.key", alias: "t."))
                    WHERE s.ord = 0 AND s.tbl = ? ORDER BY length(s.key), s.key
                    """,
                arguments: [table.name]
            ).compactMap { row -> Verification.Record? in
                let columns = try columns(row.value("mine"), row.value("theirs"))
                let difference: Verification.Record.Difference =
                    try row.value("surplus") ? .surplus : row.value("here") ? .changed : .missing
                // A range has rows that are equal, too.
                guard difference != .changed || !columns.isEmpty else { return nil }
                return Verification.Record(
                    table: table.name,
                    key: try row.value("key"),
                    difference: difference,
                    columns: difference == .changed ? columns : []
                )
            }
        }
    }

    /// The members in which two JSON objects differ.
    private func columns(_ mine: String?, _ theirs: String?) throws -> [String] {
        guard let mine, let theirs else { return [] }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT m.key FROM json_each(?) AS m JOIN json_each(?) AS t ON t.key = m.key
                    WHERE m.type <> t.type OR m.value IS NOT t.value ORDER BY m.key
                    """
            ),
            arguments: [mine, theirs]
        )
    }

    private func write() throws {
        do { try RecordWriter(db, schema: file.schema, existing: .overwrite).write(ord: 0) } catch let error
            as DatabaseError where error.isCollision
        {
            // A record that differs as well, in a range still open, stands in the way.
            throw TidemarkError(
                .snapshotRequired,
                "The rows cannot be repaired one by one: \(error.message ?? "a constraint fails").",
                fix: "The rows are taken anew from a snapshot; the outbox is kept."
            )
        }
    }
}

extension DatabaseError {
    /// Whether a row stands in the way of another, which the server has found to fit.
    ///
    /// A trigger of the app's that refuses a row is not meant.
    var isCollision: Bool {
        [.SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID].contains(
            extendedResultCode
        )
    }
}
