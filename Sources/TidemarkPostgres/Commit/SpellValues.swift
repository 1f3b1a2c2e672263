import GRDB
import TidemarkCore
import TidemarkSQL
import TidemarkStoreSupport

/// Compares the values of contended records by their columns' types.
///
/// A program that writes a whole row spells untouched values in its own way, such as a moment without
/// its zone. As texts they would differ from the server's values, and count as edits.
///
/// - Each value gets the spelling that PostgreSQL stores, so that equal values are equal texts.
/// - A respelled value of an update that is the record's value at the author's base is no edit. The
///   transaction drops it, so that the update does not undo another author's change.
extension PostgresTransaction {
    /// Spells the values of the records in `temp.tidemark_contended`.
    func spellContendedValues(_ ord: Int, of table: PostgresTable, seenRevisions: [Int64]) throws {
        let columns = table.table.valueColumns.map(\.name).filter(table.hasSpellings)
        guard !columns.isEmpty else { return }
        let records = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('rec', staged.rec, 'v', json((\(PostgresText.values)))))
                    FROM temp.tidemark_contended AS contended
                    JOIN temp.tidemark_staged AS staged USING (rec)
                    WHERE staged.tbl = ?1 AND staged.ord = ?2 AND staged.operation <> 'delete'
                    """
            ),
            arguments: [table.table.name, ord]
        )
        guard let records, records != "[]", let spellings = try spellings(records, columns, of: table) else { return }
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_spelling").execute()
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_spelling (rec, col, json)
                SELECT spelling.value ->> 0, spelling.value ->> 1, spelling.value ->> 2
                FROM json_each(?) AS spelling
                JOIN temp.tidemark_staged_cell AS cell
                    ON cell.rec = spelling.value ->> 0 AND cell.col = spelling.value ->> 1
                WHERE tidemark_key(cell.value) IS NOT spelling.value ->> 2
                """
        ).execute(arguments: [spellings])
        guard db.changesCount > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell
                SET value = tidemark_decode(spelling.json)
                FROM temp.tidemark_spelling AS spelling
                WHERE tidemark_staged_cell.rec = spelling.rec AND tidemark_staged_cell.col = spelling.col
                """
        ).execute()
        try dropUntouchedValues(seenRevisions)
    }

    /// Returns rec, column and canonical JSON of the values; nil if a value is invalid for its type.
    private func spellings(_ records: String, _ columns: [String], of table: PostgresTable) throws -> String? {
        let values = columns.map {
            """
            SELECT staged.rec, \(SQLText.literal($0)) AS col, \(table.kind($0).json(table.staged($0))) AS json
            WHERE staged.v ? \(SQLText.literal($0))
            """
        }
        let statement = PostgresStatement(
            """
            SELECT json_agg(json_build_array(spelling.rec, spelling.col, spelling.json))
            FROM \(StagedSet.records(2))
            CROSS JOIN LATERAL (\(values.joined(separator: " UNION ALL "))) AS spelling
            WHERE $1::text IS NOT NULL
            """,
            [zoneName, records]
        )
        do {
            let results = try pg.run([
                PostgresStatement("SAVEPOINT spelling"), statement, PostgresStatement("RELEASE spelling"),
            ])
            return results[1][0][0]
        } catch let failure as PostgresFailure where pg.isUsable && failure.isAboutValues {
            // The write finds the value, and refuses it.
            try pg.execute("ROLLBACK TO spelling; RELEASE spelling")
            return nil
        }
    }

    /// Drops respelled values that the records had when the author wrote.
    ///
    /// The log has a hash of each replaced value. The author's value is the one that the first change
    /// replaced which the author had not seen. A value without a hash counts as an edit: the log of an
    /// earlier version has none, and compaction merges entries.
    private func dropUntouchedValues(_ seenRevisions: [Int64]) throws {
        let suspects = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('rec', contended.rec, 'tbl', contended.tbl,
                        'key', contended.key, 'base', contended.base,
                        'v', json_object('col', spelling.col, 'hash', tidemark_hash(spelling.json))))
                    FROM temp.tidemark_spelling AS spelling
                    JOIN temp.tidemark_contended AS contended USING (rec)
                    WHERE contended.operation = 'update'
                    """
            )
        )
        guard let suspects, suspects != "[]" else { return }
        let untouched = try pg.text(
            """
            SELECT json_agg(json_build_array(rec, col))
            FROM (
                SELECT DISTINCT ON (rec, col) rec, col, hash, before::json ->> col AS hash_before
                FROM (
                    SELECT suspect.rec, suspect.v ->> 'col' AS col, suspect.v ->> 'hash' AS hash,
                        log_entry.revision, log_entry.before,
                        max(log_entry.revision) FILTER (
                            WHERE NOT log_entry.merged AND log_entry.revision = ANY ($3::bigint[])
                        ) OVER (PARTITION BY suspect.rec, suspect.v) AS last_seen
                    FROM \(StagedSet.records(2, "suspect"))
                    JOIN tidemark.log AS log_entry
                        ON log_entry.zone = $1 AND log_entry.tbl = suspect.tbl AND log_entry.key = suspect.key
                        AND log_entry.revision > suspect.base
                    WHERE log_entry.operation <> 'update' OR log_entry.columns::jsonb ? (suspect.v ->> 'col')
                ) AS change
                WHERE last_seen IS NULL OR revision > last_seen
                ORDER BY rec, col, revision
            ) AS first_unseen
            WHERE hash_before = hash
            """,
            [zoneName, suspects, Self.array(seenRevisions)]
        )
        guard let untouched else { return }
        try db.cachedStatement(
            sql: """
                DELETE FROM temp.tidemark_staged_cell
                WHERE (rec, col) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
                """
        ).execute(arguments: [untouched])
    }
}
