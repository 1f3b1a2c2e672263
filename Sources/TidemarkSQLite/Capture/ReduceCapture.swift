package import GRDB
package import TidemarkCore

/// Reduction: what was captured between two numbers, as one change a record.
///
/// The first old row is held against the last new row: updates merge, a record created and deleted
/// in between vanishes, and so does an update that changed nothing. A changed key is a deletion and
/// a creation. The result lands in `temp.tidemark_reduced`; one statement a table, no row passes
/// through Swift.
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
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        """

    /// Replaces the content of `temp.tidemark_reduced` by the changes numbered `range`.
    ///
    /// `before` is the record as it was, `attributes` the changed columns (all of them for a
    /// creation), both canonical JSON without the key; `base` the revision that the file was at
    /// when the record first changed.
    package static func reduce(
        _ range: ClosedRange<Int64>,
        schema: SyncSchema,
        in db: Database
    ) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        let names = try String.fetchAll(
            db.cachedStatement(
                sql: "SELECT DISTINCT tbl FROM tidemark_capture WHERE seq BETWEEN ? AND ?"
            ),
            arguments: [range.lowerBound, range.upperBound]
        )
        for table in names.compactMap({ schema.byName[$0] }) {
            try db.cachedStatement(sql: sql(table)).execute(
                arguments: [range.lowerBound, range.upperBound])
        }
    }

    /// Forgets the changes numbered `range`.
    package static func forget(
        _ range: ClosedRange<Int64>,
        schema: SyncSchema,
        in db: Database
    ) throws {
        for table in schema.tables {
            let shadow = SQLText.name(CaptureTables.shadow(table))
            try db.cachedStatement(sql: "DELETE FROM \(shadow) WHERE seq BETWEEN ? AND ?").execute(
                arguments: [range.lowerBound, range.upperBound])
        }
        try db.cachedStatement(sql: "DELETE FROM tidemark_capture WHERE seq BETWEEN ? AND ?")
            .execute(arguments: [range.lowerBound, range.upperBound])
    }

    /// The numbers of everything captured and not forgotten, or nil when there is nothing.
    package static func pending(in db: Database) throws -> ClosedRange<Int64>? {
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT min(seq), max(seq) FROM tidemark_capture")
        )
        guard let first = row?[0] as Int64?, let last = row?[1] as Int64? else { return nil }
        return first...last
    }

    private static func sql(_ table: SyncedTable) -> String {
        let shadow = SQLText.name(CaptureTables.shadow(table))
        let values = table.valueColumns.map(\.name)
        let last = planted(PlantedBug.capturesFirstEditOnly) ? "first" : "last"
        let changes =
            planted(PlantedBug.sendsWholeRow)
            ? RowJSON.object(values, prefix: "l.", side: "new_") : RowJSON.changes(values)
        return """
            INSERT INTO temp.tidemark_reduced (tbl, key, operation, before, attributes, base)
            WITH captured AS (
                SELECT seq, kind, \(RowJSON.key(table, prefix: "old_")) AS old_key,
                    \(RowJSON.key(table, prefix: "new_")) AS new_key
                FROM \(shadow) WHERE seq BETWEEN ?1 AND ?2
            ), event (key, seq, has_old, has_new) AS (
                SELECT old_key, seq, 1, kind = 'update' AND old_key = new_key
                    FROM captured WHERE kind <> 'insert'
                UNION ALL
                SELECT new_key, seq, 0, 1 FROM captured
                    WHERE kind = 'insert' OR kind = 'update' AND old_key <> new_key
            ), span (key, first, has_old, last, has_new) AS (
                SELECT key, min(seq), 1 - min(seq * 2 + 1 - has_old) % 2,
                    max(seq), max(seq * 2 + has_new) % 2
                FROM event GROUP BY key
            )
            SELECT * FROM (
                SELECT \(SQLText.literal(table.name)), key,
                    CASE WHEN NOT has_old THEN 'create' WHEN has_new THEN 'update' ELSE 'delete' END AS operation,
                    CASE WHEN has_old THEN \(RowJSON.object(values, prefix: "f.", side: "old_")) END,
                    CASE WHEN NOT has_new THEN NULL
                        WHEN has_old THEN \(changes)
                        ELSE \(RowJSON.object(values, prefix: "l.", side: "new_")) END AS attributes,
                    (SELECT base FROM tidemark_capture AS c WHERE c.seq = span.first)
                FROM span JOIN \(shadow) AS f ON f.seq = span.first
                    JOIN \(shadow) AS l ON l.seq = span.\(last)
                WHERE has_old OR has_new
            ) WHERE operation <> 'update' OR attributes <> '{}'
            """
    }
}
