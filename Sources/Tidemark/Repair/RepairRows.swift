import GRDB
import TidemarkCore
import TidemarkSQL

/// Replaces confirmed rows that differ from the server's.
///
/// As in ``ApplyResponse``, the device rewinds pending edits first and replays them afterwards. It
/// parks edits of a replaced record as a conflict.
struct RepairRows {
    let db: Database
    let file: DeviceFile
    let limits: Limits
    let now: String
    /// Whether an id may stand for another record than before.
    let hasOtherHistory: Bool
    let uncaptured: UncapturedEdits
    /// The possible reasons why a row differs from the server's.
    let suspicion: UncapturedEdits.Suspicion

    /// What a replacement did.
    struct Outcome {
        var records: [Verification.Record] = []
        var events: [DeviceEvent] = []
        /// The conflict with the edits that no trigger captured.
        var conflict: String?
    }

    /// Replaces all rows in the ranges with the server's rows, which are a change set.
    ///
    /// The caller has drained all captured changes, and runs this in a transaction without foreign keys. With `isTrial`
    /// it only reports the differences. `conflict` already has edits that no trigger captured.
    func replace(_ ranges: [KeyRange], by changeSet: String?, isTrial: Bool, extending conflict: String?) throws
        -> Outcome
    {
        var outcome = Outcome(conflict: conflict)
        let body = Array("[\(changeSet ?? "")]".utf8)
        try stage(body)
        try refuseRowsOutside(ranges)
        try db.inSavepoint {
            try DeviceFile.whileApplying(db) {
                let pending = PendingChanges(db: db, schema: file.schema)
                let parents = hasOtherHistory ? try OldParents(of: file.schema, in: db) : nil
                outcome.events += try uncaptured.parkOverPending()
                try pending.rewind()
                try stageSurplus(ranges)
                outcome.records = try differences()
                let parked = try uncaptured.park(extending: conflict)
                outcome.conflict = parked.id
                outcome.events += parked.events
                try write()
                outcome.events += try JudgeAfterReset(
                    db: db, schema: file.schema, firstWaiting: 0, parents: parents, now: now, knowsVerdicts: false,
                    cause: "When it was edited, this record differed from the server's. A repair has replaced it."
                ).park()
                try pending.refreshBase()
                try pending.replay()
            }
            return isTrial ? .rollback : .commit
        }
        guard !isTrial, !outcome.records.isEmpty else { return Outcome(records: outcome.records, conflict: conflict) }
        outcome.events.append(.repaired(outcome.records.map { RecordName($0.table, RecordKey(json: $0.key)) }))
        return outcome
    }

    /// Stages the server's rows as creations, which insert or replace rows.
    private func stage(_ body: [UInt8]) throws {
        do { try ChangeSetStaging.stage(body, file.schema, in: db) } catch let error as TidemarkError {
            throw TidemarkError(
                .invalidResponse, "The server's rows cannot be taken over: \(error.message)",
                fix: "Nothing was changed. Compare the versions and tables of both sides.", place: error.place)
        }
        try db.execute(sql: "UPDATE temp.tidemark_staged SET operation = 'create' WHERE ord = 0")
    }

    private func refuseRowsOutside(_ ranges: [KeyRange]) throws {
        try RangeFingerprints(db, schema: file.schema).load(ranges)
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT staged_row.tbl, staged_row.key
                FROM (
                    SELECT staged.tbl, staged.key,
                        CASE table_info.kind WHEN 'integer' THEN CAST(staged.key AS INTEGER)
                            ELSE staged.key END AS place
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_table AS table_info USING (tbl)
                    WHERE staged.ord = 0
                ) AS staged_row
                WHERE NOT EXISTS (
                    SELECT 1 FROM temp.tidemark_range AS key_range
                    WHERE key_range.tbl = staged_row.tbl
                        AND (key_range.low IS NULL OR staged_row.place >= key_range.low)
                        AND (key_range.high IS NULL OR staged_row.place < key_range.high))
                LIMIT 1
                """)
        guard let row else { return }
        throw TidemarkError(
            .invalidResponse, "The server sent a row that the device did not request.",
            fix: "Nothing was changed. Check the URL, and that no proxy changes answers.",
            place: try .init(table: row.value("tbl"), key: row.value("key")))
    }

    /// Stages the deletion of rows in the ranges that the server does not have.
    private func stageSurplus(_ ranges: [KeyRange]) throws {
        let names = Set(ranges.map(\.table))
        for table in file.schema.tables where names.contains(table.name) {
            let name = SQLText.literal(table.name)
            try StagedImages.stage(
                """
                SELECT \(name) AS tbl, key, 'delete' AS operation, NULL AS attributes
                FROM (\(RangeFingerprints.rows(of: table))) AS own_row
                WHERE NOT EXISTS (
                    SELECT 1 FROM temp.tidemark_staged AS staged
                    WHERE staged.ord = 0 AND staged.tbl = \(name) AND staged.key = own_row.key)
                """, ord: 0, in: db)
        }
    }

    /// Compares the staged rows with the file's, and finds the edits that no trigger captured.
    private func differences() throws -> [Verification.Record] {
        let names = try String.fetchSet(db, sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE ord = 0")
        return try file.schema.tables.filter { names.contains($0.name) }.flatMap { table in
            let exists = "own_row.\(SQLText.name(table.key[0])) IS NOT NULL"
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT staged.key, staged.operation = 'delete' AS surplus, \(exists) AS here,
                        json_remove(staged.attributes, '$.revision') AS theirs,
                        \(RowJSON.image(table, prefix: "own_row.")) AS mine
                    FROM temp.tidemark_staged AS staged
                    LEFT JOIN main.\(SQLText.name(table.name)) AS own_row
                        ON \(KeySQL.match(table, key: "staged.key", alias: "own_row."))
                    WHERE staged.ord = 0 AND staged.tbl = ?
                    ORDER BY length(staged.key), staged.key
                    """, arguments: [table.name]
            ).compactMap { row -> Verification.Record? in
                let mine: String? = try row.value("mine")
                let theirs: String? = try row.value("theirs")
                let columns = try columns(mine, theirs)
                let difference: Verification.Record.Difference =
                    try row.value("surplus") ? .surplus : row.value("here") ? .changed : .missing
                // A range also contains equal rows.
                guard difference != .changed || !columns.isEmpty else { return nil }
                let record = Verification.Record(
                    table: table.name, key: try row.value("key"), difference: difference,
                    columns: difference == .changed ? columns : [])
                if suspicion.isEdit(difference) { try uncaptured.add(record, mine: mine, theirs: theirs) }
                return record
            }
        }
    }

    /// Returns the members in which two JSON objects differ.
    private func columns(_ mine: String?, _ theirs: String?) throws -> [String] {
        guard let mine, let theirs else { return [] }
        return try String.fetchAll(
            db,
            cached: """
                SELECT mine.key
                FROM json_each(?) AS mine
                JOIN json_each(?) AS theirs ON theirs.key = mine.key
                WHERE mine.type <> theirs.type OR mine.value IS NOT theirs.value
                ORDER BY mine.key
                """, arguments: [mine, theirs])
    }

    private func write() throws {
        do { try RecordWriter(db, schema: file.schema).write(ord: 0) } catch let error
            as DatabaseError where error.isCollision
        {
            // Another differing record, in a range not yet compared, holds the same unique value.
            throw TidemarkError(
                .snapshotRequired, "The rows cannot be repaired one by one: \(error.message ?? "a constraint fails").",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
    }
}

extension DatabaseError {
    /// Whether a row collides with one of the same key or unique value; not one that a trigger of the app refuses.
    var isCollision: Bool {
        [.SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID].contains(
            extendedResultCode)
    }
}
