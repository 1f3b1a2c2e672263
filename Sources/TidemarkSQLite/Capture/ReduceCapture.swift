package import GRDB
package import TidemarkCore

/// Reduction: what was captured between two numbers, as one change a record.
///
/// The first old row is held against the last new row: updates merge, a record created and deleted
/// in between vanishes, and so does an update that changed nothing. A changed key is a deletion and
/// a creation. The result lands in `temp.tidemark_reduced`; no row passes through Swift.
///
/// First and last are not those that were captured first and last. SQLite runs the triggers of an
/// event in no order that it promises; where the app's own trigger updates the row again before the
/// capturing one has run, the inner change is written down before the outer. But whatever the
/// order, the changes of a record lead from state to state, so each state between was left as often
/// as it was entered: the one that was left once more is the first, the one that was entered once
/// more the last, and where all are even nothing has changed.
package enum ReduceCapture {
    static let resultSQL = """
        CREATE TEMP TABLE IF NOT EXISTS tidemark_reduced (
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            operation TEXT NOT NULL,
            before TEXT,
            attributes TEXT,
            base INTEGER NOT NULL,
            after TEXT,
            seq INTEGER,
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        """

    /// Replaces the content of `temp.tidemark_reduced` by the changes numbered `range`.
    ///
    /// `before` is the record as it was, `attributes` the changed columns (all of them for a
    /// creation), both canonical JSON without the key; `base` the revision that the file was at
    /// when the record first changed, and `seq` the number of that change.
    ///
    /// - Returns: How many records changed.
    @discardableResult package static func reduce(_ range: ClosedRange<Int64>, schema: SyncSchema, in db: Database)
        throws -> Int
    {
        var count = 0
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        let bounds: StatementArguments = [range.lowerBound, range.upperBound]
        let captured = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, count(*) FROM tidemark_capture WHERE seq BETWEEN ? AND ? GROUP BY tbl
                    """
            ),
            arguments: bounds
        )
        for row in captured {
            guard let table = try schema.byName[row.value(0)] else { continue }
            try db.cachedStatement(sql: single(table)).execute(arguments: bounds)
            let found = db.changesCount
            count += found
            // One change names no record twice.
            guard try row.value(1) > 1 else { continue }
            let named = try Int.fetchOne(db.cachedStatement(sql: named(table)), arguments: bounds)
            guard named != found else { continue }
            try db.cachedStatement(sql: several(table)).execute(arguments: bounds)
            count += db.changesCount
        }
        return count
    }

    /// Forgets the changes numbered `range`.
    package static func forget(_ range: ClosedRange<Int64>, schema: SyncSchema, in db: Database) throws {
        for table in schema.tables {
            let shadow = SQLText.name(CaptureTables.shadow(table))
            try db.cachedStatement(sql: "DELETE FROM \(shadow) WHERE seq BETWEEN ? AND ?").execute(arguments: [
                range.lowerBound, range.upperBound,
            ])
        }
        try db.cachedStatement(sql: "DELETE FROM tidemark_capture WHERE seq BETWEEN ? AND ?").execute(arguments: [
            range.lowerBound, range.upperBound,
        ])
    }

    /// The numbers of everything captured and not forgotten, or nil when there is nothing.
    package static func pending(in db: Database) throws -> ClosedRange<Int64>? {
        let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT min(seq), max(seq) FROM tidemark_capture"))
        guard let first = try row?.value(0) as Int64?, let last = try row?.value(1) as Int64? else { return nil }
        guard first <= last else { throw TidemarkError.unreadable("The list of captured changes") }
        return first...last
    }

    /// The same, when all rows that were evicted are captured; no other statement runs.
    package static func settled(_ schema: SyncSchema, in db: Database) throws -> ClosedRange<Int64>? {
        guard try pending(in: db) != nil else { return nil }
        try CaptureTables.captureLeftOver(schema, in: db)
        return try pending(in: db)
    }

    // MARK: The statements

    /// Records that were changed once: what was captured is the change.
    private static func single(_ table: SyncedTable) -> String {
        """
        \(events(table)), span (key, first, has_old, last, has_new) AS (
            SELECT key, seq, has_old, seq, has_new FROM event GROUP BY key HAVING count(*) = 1
        )
        \(result(table))
        """
    }

    /// Records that were changed more than once.
    private static func several(_ table: SyncedTable) -> String {
        let shadow = SQLText.name(CaptureTables.shadow(table))
        let image = { (side: String) in
            "CASE WHEN e.has_\(side) THEN "
                + RowJSON.object(table.valueColumns.map(\.name), prefix: "s.", side: "\(side)_") + " END"
        }
        let rows = """
            FROM event AS e JOIN \(shadow) AS s ON s.seq = e.seq WHERE e.key IN (SELECT key FROM many)
            """
        return """
            \(events(table)), many (key) AS (
                SELECT key FROM event GROUP BY key HAVING count(*) > 1
            ), state (key, seq, side, present, image) AS (
                SELECT e.key, e.seq, 1, e.has_old, \(image("old")) \(rows)
                UNION ALL
                SELECT e.key, e.seq, -1, e.has_new, \(image("new")) \(rows)
            ), loose (key, side, present, first, last) AS (
                SELECT key, sum(side), present, min(seq) FILTER (WHERE side > 0), max(seq) FILTER (WHERE side < 0)
                FROM state GROUP BY key, image HAVING sum(side) <> 0
            ), span (key, first, has_old, last, has_new) AS (
                SELECT key, a.first, a.present, z.last, z.present
                FROM (SELECT key, min(first) AS first, present FROM loose WHERE side > 0 GROUP BY key) AS a
                JOIN (SELECT key, max(last) AS last, present FROM loose WHERE side < 0 GROUP BY key) AS z
                    USING (key)
            )
            \(result(table))
            """
    }

    /// What happened to which key: a changed key is a deletion and a creation.
    private static func events(_ table: SyncedTable) -> String {
        let captured = "FROM \(SQLText.name(CaptureTables.shadow(table))) WHERE seq BETWEEN ?1 AND ?2"
        let old = RowJSON.key(table, prefix: "old_")
        let new = RowJSON.key(table, prefix: "new_")
        let moves = moves(table)
        return """
            INSERT INTO temp.tidemark_reduced (tbl, key, operation, before, attributes, base, seq)
            WITH event (key, seq, has_old, has_new) AS (
                SELECT \(old), seq, 1, kind = 'update' AND NOT (\(moves)) \(captured) AND kind <> 'insert'
                UNION ALL
                SELECT \(new), seq, 0, 1 \(captured) AND (kind = 'insert' OR kind = 'update' AND (\(moves)))
            )
            """
    }

    /// Whether an update gave its record another key.
    ///
    /// Values of any type may be two keys although SQLite calls them equal.
    private static func moves(_ table: SyncedTable) -> String {
        guard table.keyKind == .general else {
            return table.key.map { "\(SQLText.name("old_" + $0)) IS NOT \(SQLText.name("new_" + $0))" }.joined(
                separator: " OR "
            )
        }
        return "\(RowJSON.key(table, prefix: "old_")) <> \(RowJSON.key(table, prefix: "new_"))"
    }

    /// The first old row held against the last new one.
    private static func result(_ table: SyncedTable) -> String {
        let shadow = SQLText.name(CaptureTables.shadow(table))
        let values = table.valueColumns.map(\.name)
        let last = planted(PlantedBug.capturesFirstEditOnly) ? "first" : "last"
        let changes =
            planted(PlantedBug.sendsWholeRow)
            ? RowJSON.object(values, prefix: "l.", side: "new_") : RowJSON.changes(values)
        return """
            SELECT * FROM (
                SELECT \(SQLText.literal(table.name)), key,
                    CASE WHEN NOT has_old THEN 'create' WHEN has_new THEN 'update' ELSE 'delete' END AS operation,
                    CASE WHEN has_old THEN \(RowJSON.object(values, prefix: "f.", side: "old_")) END,
                    CASE WHEN NOT has_new THEN NULL
                        WHEN has_old THEN \(changes)
                        ELSE \(RowJSON.object(values, prefix: "l.", side: "new_")) END AS attributes,
                    (SELECT base FROM tidemark_capture AS c WHERE c.seq = span.first), first
                FROM span JOIN \(shadow) AS f ON f.seq = span.first
                    JOIN \(shadow) AS l ON l.seq = span.\(last)
                WHERE has_old OR has_new
            ) WHERE operation <> 'update' OR attributes <> '{}'
            """
    }

    /// How many keys the captured rows of a table name, counting each row's own.
    private static func named(_ table: SyncedTable) -> String {
        """
        SELECT count(*) + count(*) FILTER (WHERE kind = 'update' AND (\(moves(table))))
        FROM \(SQLText.name(CaptureTables.shadow(table))) WHERE seq BETWEEN ? AND ?
        """
    }
}
