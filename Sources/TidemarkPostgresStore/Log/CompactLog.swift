import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Compaction, as in the embedded store: bodies below the horizon go, of a record's log entries
/// those stay that set a column last or made the record anew, and of verdicts the map of ids and
/// what was overruled.
extension PostgresTransaction {
    func compact(to horizon: Int64) throws { try pg.scanning { try compactLog(to: horizon) } }

    /// Takes away a log whose entry of a revision is damaged, up to that.
    func forgetLog(through revision: Int64) throws {
        if state.horizon < revision { try compact(to: revision) }
        // Nor is its hash to be trusted, by which the next entry would be judged.
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
        for table in schema.tables.compactMap({ table($0.name) }) {
            try pg.query(
                """
                DELETE FROM tidemark.log AS l WHERE l.zone = $1 AND l.tbl = \(table.literal)
                    AND l.revision <= $3::bigint
                    AND l.key IN (SELECT c.key FROM tidemark.log AS c WHERE c.zone = $1
                        AND c.tbl = \(table.literal) AND c.revision > $2::bigint AND c.revision <= $3::bigint)
                    AND NOT EXISTS (SELECT 1 FROM \(table.name) AS t WHERE \(KeySet.match(table, "t", key: "l.key")))
                """,
                range
            )
        }
        try mergeEntries(range)
        try shortenVerdicts(range)
        // Who made a revision and when stays: policies that look at clocks ask for it. The
        // horizon's own body stays too, for devices that are exactly there.
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
        change(horizon: horizon)
    }

    private func mergeEntries(_ range: [String?]) throws {
        let integerTables = PostgresArray.quoted(schema.tables.filter { $0.keyKind == .integer }.map(\.name))
        // A record that was there before, went and came again stays one that was created anew. That
        // the server has made one under an id of its own is nothing that anybody can have missed.
        try pg.query(
            """
            WITH entry AS (
                DELETE FROM tidemark.log AS l WHERE l.zone = $1 AND l.revision <= $3::bigint
                    AND (l.tbl, l.key) IN (
                        SELECT c.tbl, c.key FROM tidemark.log AS c WHERE c.zone = $1
                            AND c.revision > $2::bigint AND c.revision <= $3::bigint)
                RETURNING l.*
            ), counted AS (
                SELECT *, count(*) OVER record AS entries,
                    operation = 'delete' OR operation = 'create' AND (merged OR tbl <> ALL ($4::text[])
                        OR revision > min(revision) OVER record) AS renews
                FROM entry WINDOW record AS (PARTITION BY tbl, key)
            ), known AS (
                SELECT *, coalesce(max(revision) FILTER (WHERE renews)
                    OVER (PARTITION BY tbl, key), 0) AS renewed
                FROM counted
            )
            INSERT INTO tidemark.log (zone, tbl, key, revision, operation, columns, merged)
            SELECT zone, tbl, key, revision, operation, columns, merged FROM known WHERE entries = 1
            UNION ALL
            SELECT zone, tbl, key, revision, 'create', NULL, true FROM known
            WHERE entries > 1 AND revision = renewed
            UNION ALL
            SELECT zone, tbl, key, revision, 'update', json_agg(col ORDER BY col)::text, true FROM (
                SELECT e.zone, e.tbl, e.key, j.col, max(e.revision) AS revision
                FROM known AS e, json_array_elements_text(e.columns::json) AS j (col)
                WHERE e.entries > 1 AND e.operation = 'update' AND e.revision > e.renewed
                GROUP BY e.zone, e.tbl, e.key, j.col
            ) AS c GROUP BY zone, tbl, key, revision
            """,
            range + [integerTables]
        )
    }

    /// The log's part of what was accepted goes with its bodies; the author's own parts go here,
    /// but for values that were overruled: if the answer was lost, nobody else has them.
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
