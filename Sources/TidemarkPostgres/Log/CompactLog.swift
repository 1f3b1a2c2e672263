import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Compacts the log up to a horizon, as the embedded store does.
///
/// - Bodies below the horizon go.
/// - A record keeps the log entries that last set a column or last created the record, with their
///   unlogged values.
/// - A verdict keeps its ids and the values that another change set overruled.
extension PostgresTransaction {
    func compact(to horizon: Int64) throws { try pg.scanning { try compactLog(to: horizon) } }

    /// Deletes a log up to the revision whose entry is damaged.
    func forgetLog(through revision: Int64) throws {
        if state.horizon < revision { try compact(to: revision) }
        // The next entry must not be verified against the damaged entry's hash.
        try pg.query(
            """
            UPDATE tidemark.revision SET body = '', chain = ''
            WHERE zone = $1 AND revision = $2::bigint
            """,
            [zoneName, "\(revision)"]
        )
    }

    private func compactLog(to horizon: Int64) throws {
        let range = [zoneName, "\(state.horizon)", "\(horizon)"]
        for table in try schema.tables.map({ try table($0.name) }) {
            try pg.query(
                """
                DELETE FROM tidemark.log AS entry
                WHERE entry.zone = $1 AND entry.tbl = \(table.literal)
                    AND entry.revision <= $3::bigint
                    AND entry.key IN (
                        SELECT recent.key
                        FROM tidemark.log AS recent
                        WHERE recent.zone = $1 AND recent.tbl = \(table.literal)
                            AND recent.revision > $2::bigint AND recent.revision <= $3::bigint)
                    AND NOT EXISTS (
                        SELECT 1
                        FROM \(table.name) AS app_row
                        WHERE \(KeySet.match(table, "app_row", key: "entry.key")))
                """,
                range
            )
        }
        try mergeEntries(range)
        try shortenVerdicts(range)
        // Author and time of a revision stay, because policies compare clocks. The horizon's own body
        // stays for devices at exactly that revision.
        try pg.query(
            """
            UPDATE tidemark.revision SET body = ''
            WHERE zone = $1 AND revision >= $2::bigint AND revision < $3::bigint
            """,
            range
        )
        try pg.query(
            "DELETE FROM tidemark.fingerprint WHERE zone = $1 AND revision < $2::bigint",
            [zoneName, "\(horizon)"]
        )
        state = state.with(horizon: horizon)
    }

    private func mergeEntries(_ range: [String?]) throws {
        let integerTables = PostgresArray.quoted(schema.tables.filter { $0.keyKind == .integer }.map(\.name))
        // A record that was deleted and created again keeps a creation. The first creation under an
        // id that the server assigned renews nothing, because no device knew the id before.
        try pg.query(
            """
            WITH entry AS (
                DELETE FROM tidemark.log AS superseded
                WHERE superseded.zone = $1 AND superseded.revision <= $3::bigint
                    AND (superseded.tbl, superseded.key) IN (
                        SELECT recent.tbl, recent.key
                        FROM tidemark.log AS recent
                        WHERE recent.zone = $1
                            AND recent.revision > $2::bigint AND recent.revision <= $3::bigint)
                RETURNING superseded.*
            ), counted AS (
                SELECT *, count(*) OVER record AS entries,
                    operation = 'delete' OR operation = 'create' AND (merged OR tbl <> ALL ($4::text[])
                        OR revision > min(revision) OVER record) AS renews
                FROM entry WINDOW record AS (PARTITION BY tbl, key)
            ), dated AS (
                SELECT *, coalesce(max(revision) FILTER (WHERE renews)
                    OVER (PARTITION BY tbl, key), 0) AS renewed
                FROM counted
            )
            INSERT INTO tidemark.log (zone, tbl, key, revision, operation, columns, merged, before, unlogged)
            SELECT zone, tbl, key, revision, operation, columns, merged, before, unlogged FROM dated WHERE entries = 1
            UNION ALL
            SELECT zone, tbl, key, revision, 'create', NULL, true, NULL, unlogged FROM dated
            WHERE entries > 1 AND revision = renewed
            UNION ALL
            SELECT zone, tbl, key, revision, 'update', json_agg(last_set.col ORDER BY last_set.col)::text, true, NULL,
                max(dated.unlogged)
            FROM (
                SELECT dated.zone, dated.tbl, dated.key, name.col, max(dated.revision) AS revision
                FROM dated, json_array_elements_text(dated.columns::json) AS name (col)
                WHERE dated.entries > 1 AND dated.operation = 'update' AND dated.revision > dated.renewed
                GROUP BY dated.zone, dated.tbl, dated.key, name.col
            ) AS last_set
            JOIN dated USING (zone, tbl, key, revision)
            GROUP BY zone, tbl, key, revision
            """,
            range + [integerTables]
        )
    }

    /// Deletes the authors' copies, except those with overruled values.
    ///
    /// If the answer was lost, the copy is the only place that has these values.
    private func shortenVerdicts(_ range: [String?]) throws {
        try pg.query(
            """
            UPDATE tidemark.verdict SET body = NULL
            WHERE zone = $1 AND revision > $2::bigint AND revision <= $3::bigint AND body IS NOT NULL
                AND coalesce(json_array_length(body::json -> 'overruled'), 0) = 0
            """,
            range
        )
    }
}
