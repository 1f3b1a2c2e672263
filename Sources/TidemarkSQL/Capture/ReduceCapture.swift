package import GRDB
package import TidemarkCore

/// Coalesces captured changes of a range of sequence numbers into one change per record.
///
/// The statements compare a record's first old row with its last new row: updates merge, a record created and deleted
/// within the range vanishes, and so does an update that changed nothing. A changed key becomes a deletion and a
/// creation. The result goes to `temp.tidemark_reduced`; no row passes through Swift.
///
/// ``TidemarkCore/CapturedPath`` tells how the first and the last row are found.
package enum ReduceCapture {
    static let tableSQL = """
        CREATE TEMP TABLE IF NOT EXISTS tidemark_reduced (
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            operation TEXT NOT NULL,
            before TEXT,
            attributes TEXT,
            base INTEGER NOT NULL,
            seq INTEGER,
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        """

    /// Replaces the content of `temp.tidemark_reduced` with the coalesced changes numbered `range`.
    ///
    /// `before` is the record before its first change, `attributes` the changed columns (all columns
    /// for a creation), both as canonical JSON without the key. `base` is the file's revision when
    /// the record first changed, and `seq` the number of that change.
    ///
    /// - Returns: The number of changed records.
    @discardableResult package static func reduce(_ range: ClosedRange<Int64>, schema: SyncSchema, in db: Database)
        throws -> Int
    {
        var count = 0
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        let bounds: StatementArguments = [range.lowerBound, range.upperBound]
        let changeCounts = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, count(*)
                    FROM tidemark_capture
                    WHERE seq BETWEEN ? AND ?
                    GROUP BY tbl
                    """),
            arguments: bounds)
        for row in changeCounts {
            guard let table = try schema.byName[row.value(0)] else { continue }
            try db.cachedStatement(sql: singleChangeSQL(table)).execute(arguments: bounds)
            let singleChanges = db.changesCount
            count += singleChanges
            // A single captured change cannot repeat a record.
            guard try row.value(1) > 1 else { continue }
            let keyCount = try Int.fetchOne(db.cachedStatement(sql: keyCountSQL(table)), arguments: bounds)
            guard keyCount != singleChanges else { continue }
            try db.cachedStatement(sql: repeatedChangesSQL(table)).execute(arguments: bounds)
            count += db.changesCount
        }
        return count
    }

    package static func deleteCaptures(_ range: ClosedRange<Int64>, schema: SyncSchema, in db: Database) throws {
        let bounds: StatementArguments = [range.lowerBound, range.upperBound]
        for table in schema.tables {
            let shadow = SQLText.name(CaptureTables.shadow(table))
            try db.cachedStatement(sql: "DELETE FROM \(shadow) WHERE seq BETWEEN ? AND ?").execute(arguments: bounds)
        }
        try db.cachedStatement(sql: "DELETE FROM tidemark_capture WHERE seq BETWEEN ? AND ?").execute(arguments: bounds)
    }

    /// Returns the sequence numbers of all captured changes; nil if there are none.
    package static func pendingRange(in db: Database) throws -> ClosedRange<Int64>? {
        let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT min(seq), max(seq) FROM tidemark_capture"))
        guard let first = try row?.value(0) as Int64?, let last = try row?.value(1) as Int64? else { return nil }
        guard first <= last else { throw TidemarkError.unreadable("The list of captured changes") }
        return first...last
    }

    /// Captures evicted rows, then returns ``pendingRange(in:)``; only while no other statement runs on the connection.
    package static func collectPending(_ schema: SyncSchema, in db: Database) throws -> ClosedRange<Int64>? {
        guard try pendingRange(in: db) != nil else { return nil }
        try CaptureTables.captureLeftoverEvictions(schema, in: db)
        return try pendingRange(in: db)
    }

    /// Returns records of a table that have captured changes, each as it was before the first of them.
    ///
    /// `keys` is a query for the keys of interest. It only reads. A record whose changes lead back to where they began
    /// is not among them. After a migration of the app, the captured rows may lack columns until the file is fitted to
    /// it, and so do the records then.
    ///
    /// - Returns: By key, the record as canonical JSON without the key; nil if it did not exist.
    package static func firstStates(of table: SyncedTable, among keys: String, in db: Database) throws
        -> [String: String?]
    {
        let captured = try String.fetchSet(
            db.cachedStatement(sql: "SELECT name FROM pragma_table_info(?)"), arguments: [CaptureTables.shadow(table)])
        guard table.key.allSatisfy({ captured.contains("old_\($0)") }) else { return [:] }
        let columns = table.valueColumns.map(\.name).filter { captured.contains("old_\($0)") }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    WITH \(eventSQL(table)), \(stateSQL(table, columns, where: "event.key IN (\(keys))"))
                    SELECT CAST(key AS TEXT) AS key, image
                    FROM state
                    GROUP BY key, image
                    HAVING sum(side) > 0
                    ORDER BY min(seq) FILTER (WHERE side > 0)
                    """),
            arguments: [Int64.min, Int64.max])
        let states = try rows.map { (try $0.value("key") as String, try $0.value("image") as String?) }
        return Dictionary(states, uniquingKeysWith: { first, _ in first })
    }

    /// Returns the statement for records that changed once: the captured change is the result.
    private static func singleChangeSQL(_ table: SyncedTable) -> String {
        """
        \(insertSQL)
        WITH \(eventSQL(table)), span (key, first, has_old, last, has_new) AS (
            SELECT key, seq, has_old, seq, has_new
            FROM event
            GROUP BY key
            HAVING count(*) = 1
        )
        \(comparisonSQL(table))
        """
    }

    /// Returns the statement for records that changed more than once.
    private static func repeatedChangesSQL(_ table: SyncedTable) -> String {
        let columns = table.valueColumns.map(\.name)
        return """
            \(insertSQL)
            WITH \(eventSQL(table)), many (key) AS (
                SELECT key FROM event GROUP BY key HAVING count(*) > 1
            ), \(stateSQL(table, columns, where: "event.key IN (SELECT key FROM many)")),
            unbalanced (key, side, present, first, last) AS (
                SELECT key, sum(side), present, min(seq) FILTER (WHERE side > 0), max(seq) FILTER (WHERE side < 0)
                FROM state
                GROUP BY key, image
                HAVING sum(side) <> 0
            ), span (key, first, has_old, last, has_new) AS (
                SELECT key, first_state.first, first_state.present, last_state.last, last_state.present
                FROM (
                    SELECT key, min(first) AS first, present FROM unbalanced WHERE side > 0 GROUP BY key
                ) AS first_state
                JOIN (
                    SELECT key, max(last) AS last, present FROM unbalanced WHERE side < 0 GROUP BY key
                ) AS last_state USING (key)
            )
            \(comparisonSQL(table))
            """
    }

    /// The states that the events leave and enter.
    private static func stateSQL(_ table: SyncedTable, _ columns: [String], where condition: String) -> String {
        let image = { (side: String) in
            "CASE WHEN event.has_\(side) THEN "
                + RowJSON.object(columns, prefix: "captured.", side: "\(side)_") + " END"
        }
        let rows = """
            FROM event
            JOIN \(SQLText.name(CaptureTables.shadow(table))) AS captured ON captured.seq = event.seq
            WHERE \(condition)
            """
        return """
            state (key, seq, side, present, image) AS (
                SELECT event.key, event.seq, 1, event.has_old, \(image("old"))
                \(rows)
                UNION ALL
                SELECT event.key, event.seq, -1, event.has_new, \(image("new"))
                \(rows)
            )
            """
    }

    private static let insertSQL =
        "INSERT INTO temp.tidemark_reduced (tbl, key, operation, before, attributes, base, seq)"

    /// Lists the events of each key; an update that changes the key is a deletion and a creation.
    private static func eventSQL(_ table: SyncedTable) -> String {
        let capturedRows = "FROM \(SQLText.name(CaptureTables.shadow(table))) WHERE seq BETWEEN ?1 AND ?2"
        let old = RowJSON.key(table, prefix: "old_")
        let new = RowJSON.key(table, prefix: "new_")
        let moves = keyChangeCondition(table)
        return """
            event (key, seq, has_old, has_new) AS (
                SELECT \(old), seq, 1, kind = 'update' AND NOT (\(moves)) \(capturedRows) AND kind <> 'insert'
                UNION ALL
                SELECT \(new), seq, 0, 1 \(capturedRows) AND (kind = 'insert' OR kind = 'update' AND (\(moves)))
            )
            """
    }

    /// The SQL condition that an update changes its key; as text, since SQLite may call distinct general keys equal.
    private static func keyChangeCondition(_ table: SyncedTable) -> String {
        guard table.keyKind == .general else {
            return table.key.map { "\(SQLText.name("old_" + $0)) IS NOT \(SQLText.name("new_" + $0))" }.joined(
                separator: " OR ")
        }
        return "\(RowJSON.key(table, prefix: "old_")) <> \(RowJSON.key(table, prefix: "new_"))"
    }

    /// Compares the first old row with the last new row of each record.
    private static func comparisonSQL(_ table: SyncedTable) -> String {
        let shadow = SQLText.name(CaptureTables.shadow(table))
        let values = table.valueColumns.map(\.name)
        let last = planted(PlantedBug.capturesFirstEditOnly) ? "first" : "last"
        let changes =
            planted(PlantedBug.sendsWholeRow)
            ? RowJSON.object(values, prefix: "last_row.", side: "new_") : RowJSON.changes(values)
        return """
            SELECT * FROM (
                SELECT \(SQLText.literal(table.name)), key,
                    CASE WHEN NOT has_old THEN 'create' WHEN has_new THEN 'update' ELSE 'delete' END AS operation,
                    CASE WHEN has_old THEN \(RowJSON.object(values, prefix: "first_row.", side: "old_")) END,
                    CASE WHEN NOT has_new THEN NULL
                        WHEN has_old THEN \(changes)
                        ELSE \(RowJSON.object(values, prefix: "last_row.", side: "new_")) END AS attributes,
                    (SELECT base FROM tidemark_capture AS capture WHERE capture.seq = span.first), first
                FROM span
                JOIN \(shadow) AS first_row ON first_row.seq = span.first
                JOIN \(shadow) AS last_row ON last_row.seq = span.\(last)
                WHERE has_old OR has_new
            )
            WHERE operation <> 'update' OR attributes <> '{}'
            """
    }

    /// Counts the keys that a table's captured rows name; a key counts once for each row that names it.
    private static func keyCountSQL(_ table: SyncedTable) -> String {
        """
        SELECT count(*) + count(*) FILTER (WHERE kind = 'update' AND (\(keyChangeCondition(table))))
        FROM \(SQLText.name(CaptureTables.shadow(table)))
        WHERE seq BETWEEN ? AND ?
        """
    }
}
