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
        let columns = table.table.valueColumns.map(\.name).filter { Self.hasSpellings(table, $0) }
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

    /// Whether PostgreSQL reads one value of a column in several spellings.
    private static func hasSpellings(_ table: PostgresTable, _ column: String) -> Bool {
        let texts = ["text", "character varying", "citext", "json", "name"]
        return switch table.kind(column) {
        case .integer, .real, .boolean, .bytes, .mixed: false
        case .text: !texts.contains(PostgresType.baseName(table.type(column)))
        default: true
        }
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

    /// Drops respelled values that the log shows as the record's values at the base.
    ///
    /// Rows from before the log have no value there, so their respelled values count as edits.
    private func dropUntouchedValues(_ seenRevisions: [Int64]) throws {
        let suspects = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('rec', contended.rec, 'tbl', contended.tbl,
                        'key', contended.key, 'base', contended.base,
                        'v', json_object('col', spelling.col, 'json', spelling.json)))
                    FROM temp.tidemark_spelling AS spelling
                    JOIN temp.tidemark_contended AS contended USING (rec)
                    WHERE contended.operation = 'update'
                    """
            )
        )
        guard let suspects, suspects != "[]" else { return }
        let untouched = try pg.text(
            """
            SELECT json_agg(json_build_array(suspect.rec, suspect.v ->> 'col'))
            FROM \(StagedSet.records(2, "suspect"))
            CROSS JOIN LATERAL (
                SELECT log_entry.revision
                FROM tidemark.log AS log_entry
                WHERE log_entry.zone = $1 AND log_entry.tbl = suspect.tbl AND log_entry.key = suspect.key
                    AND (log_entry.revision <= suspect.base
                        OR NOT log_entry.merged AND log_entry.revision = ANY ($3::bigint[]))
                    AND (log_entry.operation = 'create' OR log_entry.columns::jsonb ? (suspect.v ->> 'col'))
                ORDER BY log_entry.revision DESC
                LIMIT 1) AS latest
            JOIN tidemark.revision AS entry ON entry.zone = $1 AND entry.revision = latest.revision
            WHERE (entry.body::json -> suspect.tbl -> 'attributes'
                    -> CASE left(suspect.key, 1) WHEN '"' THEN suspect.key::json #>> '{}' ELSE suspect.key END
                    -> (suspect.v ->> 'col'))::text
                = suspect.v ->> 'json'
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
