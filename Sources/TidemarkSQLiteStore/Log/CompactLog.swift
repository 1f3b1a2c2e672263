import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Compaction: what only devices far behind would need goes away; they take a snapshot instead.
///
/// - Bodies of revisions below the horizon go; who made them, and when, stays.
/// - Of a record's log entries up to the horizon those stay that set a column last, with these
///   columns, and the one that made the record anew: whoever edited it on an older base is judged
///   by what has become of each column, and by who set it. Of a record that had several entries,
///   those that stay count as somebody else's, even where they are the author's own.
/// - Entries of records that are gone go: an update of one is a conflict anyway, and a record with
///   a text key can be created again.
/// - Verdicts stay for ever, so that nothing is ever done twice; of those up to the horizon only
///   the new ids are left, which is all that a retry from there can need, and the author's copies
///   with overruled values, which stand nowhere else until their author has them.
extension ZoneTransaction {
    package func compact(to horizon: Int64) throws {
        try db.execute(
            sql: """
                CREATE INDEX IF NOT EXISTS main.tidemark_log_revision ON tidemark_log (revision);
                CREATE TEMP TABLE IF NOT EXISTS tidemark_compacted (
                    tbl TEXT, key TEXT, PRIMARY KEY (tbl, key)
                ) WITHOUT ROWID;
                CREATE TEMP TABLE IF NOT EXISTS tidemark_merged (
                    tbl TEXT, key TEXT, revision INTEGER, operation TEXT, columns TEXT,
                    PRIMARY KEY (tbl, key, revision)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_compacted;
                DELETE FROM temp.tidemark_merged;
                """
        )
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_compacted
                SELECT DISTINCT tbl, key FROM tidemark_log
                WHERE revision > (SELECT horizon FROM tidemark_zone) AND revision <= ?
                """,
            arguments: [horizon]
        )
        for table in schema.tables { try forgetGone(table, horizon) }
        try mergeEntries(horizon)
        try shortenVerdicts(horizon)
        // Who made a revision and when stays: policies that look at clocks ask for it. The
        // horizon's own body stays too, for devices that are exactly there.
        try db.execute(
            sql: """
                UPDATE tidemark_revision SET body = ''
                WHERE revision >= (SELECT horizon FROM tidemark_zone) AND revision < ?
                """,
            arguments: [horizon]
        )
        try db.execute(sql: "DELETE FROM tidemark_revision_rest WHERE revision < ?", arguments: [horizon])
        try db.execute(sql: "DELETE FROM tidemark_fingerprint WHERE revision < ?", arguments: [horizon])
        try db.execute(sql: "UPDATE tidemark_zone SET horizon = ?", arguments: [horizon])
    }

    /// Takes away a log whose entry of a revision is damaged, up to that.
    func forgetLog(through revision: Int64) throws {
        if try zone().horizon < revision { try compact(to: revision) }
        // Nor is its hash to be trusted, by which the next entry would be judged.
        try db.execute(
            sql: "UPDATE tidemark_revision SET body = '', chain = '' WHERE revision = ?",
            arguments: [revision]
        )
        try db.execute(sql: "DELETE FROM tidemark_revision_rest WHERE revision = ?", arguments: [revision])
    }

    private func forgetGone(_ table: SyncedTable, _ horizon: Int64) throws {
        let isThere = """
            EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name)) AS t
            WHERE \(KeySQL.match(table, key: "c.key", alias: "t.")))
            """
        try db.execute(
            sql: """
                DELETE FROM tidemark_log WHERE tbl = ?1 AND revision <= ?2 AND key IN (
                    SELECT c.key FROM temp.tidemark_compacted AS c WHERE c.tbl = ?1 AND NOT \(isThere))
                """,
            arguments: [table.name, horizon]
        )
    }

    /// Puts several entries of a record together.
    ///
    /// A record that was there before, went and came again stays one that was created anew. That
    /// the server has made one under an id of its own is nothing that anybody can have missed.
    private func mergeEntries(_ horizon: Int64) throws {
        // `CROSS JOIN`, because SQLite would rather read the whole log.
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_merged (tbl, key, revision, operation, columns)
                WITH entry AS (
                    SELECT l.tbl, l.key, l.revision, l.operation, l.columns, count(*) OVER record AS entries,
                        l.operation = 'delete' OR l.operation = 'create' AND (l.merged OR t.kind IS NOT 'integer'
                            OR l.revision > min(l.revision) OVER record) AS renews
                    FROM temp.tidemark_compacted AS c CROSS JOIN tidemark_log AS l USING (tbl, key)
                        LEFT JOIN temp.tidemark_table AS t USING (tbl)
                    WHERE l.revision <= ?1 WINDOW record AS (PARTITION BY l.tbl, l.key)
                ), known AS (
                    SELECT *, coalesce(max(revision) FILTER (WHERE renews)
                        OVER (PARTITION BY tbl, key), 0) AS renewed
                    FROM entry WHERE entries > 1
                )
                SELECT tbl, key, revision, 'create', NULL FROM known WHERE revision = renewed
                UNION ALL
                SELECT tbl, key, revision, 'update', json_group_array(col) FROM (
                    SELECT e.tbl, e.key, j.value AS col, max(e.revision) AS revision
                    FROM known AS e, json_each(e.columns) AS j
                    WHERE e.operation = 'update' AND e.revision > e.renewed
                    GROUP BY e.tbl, e.key, j.value
                ) GROUP BY tbl, key, revision
                """,
            arguments: [horizon]
        )
        try db.execute(
            sql: """
                DELETE FROM tidemark_log WHERE (tbl, key, revision) IN (
                    SELECT l.tbl, l.key, l.revision
                    FROM (SELECT DISTINCT tbl, key FROM temp.tidemark_merged) AS m
                        CROSS JOIN tidemark_log AS l USING (tbl, key) WHERE l.revision <= ?)
                """,
            arguments: [horizon]
        )
        try db.execute(
            sql: """
                INSERT INTO tidemark_log (tbl, key, revision, operation, columns, merged)
                SELECT tbl, key, revision, operation, columns, 1 FROM temp.tidemark_merged
                """
        )
    }

    /// The log's part of what was accepted goes with its bodies; the author's own parts go here,
    /// but for values that were overruled: if the answer was lost, nobody else has them.
    private func shortenVerdicts(_ horizon: Int64) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_verdict SET body = NULL
                WHERE revision > (SELECT horizon FROM tidemark_zone) AND revision <= ?
                    AND ids IS NOT NULL AND coalesce(json_array_length(body, '$.overruled'), 0) = 0
                """,
            arguments: [horizon]
        )
    }
}
