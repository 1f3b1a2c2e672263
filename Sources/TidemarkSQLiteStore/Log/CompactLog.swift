import GRDB
import TidemarkCore
import TidemarkSQLite

/// Compaction: what only devices far behind would need goes away; they take a snapshot instead.
///
/// - Bodies of revisions below the horizon go; who made them, and when, stays.
/// - Of a record's log entries up to the horizon one stays, with the columns of all: whoever edited
///   it on an older base is judged as if they had missed every one of them. Such an entry counts as
///   somebody else's, even where its last change was the author's own.
/// - Entries of records that are gone go: an update of one is a conflict anyway, and a record with
///   a text key can be created again.
/// - Verdicts stay for ever, so that nothing is ever done twice; of those up to the horizon only
///   the new ids are left, which is all that a retry from there can need.
extension ZoneTransaction {
    package func compact(to horizon: Int64) throws {
        try db.execute(
            sql: """
                CREATE INDEX IF NOT EXISTS main.tidemark_log_revision ON tidemark_log (revision);
                CREATE TEMP TABLE IF NOT EXISTS tidemark_compacted (
                    tbl TEXT, key TEXT, PRIMARY KEY (tbl, key)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_compacted;
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
        try db.execute(
            sql: "DELETE FROM tidemark_revision_rest WHERE revision < ?",
            arguments: [horizon]
        )
        try db.execute(
            sql: "DELETE FROM tidemark_fingerprint WHERE revision < ?",
            arguments: [horizon]
        )
        try db.execute(sql: "UPDATE tidemark_zone SET horizon = ?", arguments: [horizon])
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

    private func mergeEntries(_ horizon: Int64) throws {
        // `CROSS JOIN`, because SQLite would rather read the whole log.
        // A record that was there before, went and came again stays one that was created anew.
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO tidemark_log (tbl, key, revision, operation, columns, merged)
                SELECT l.tbl, l.key, max(l.revision),
                    iif(max(l.operation = 'delete'
                        OR l.operation = 'create' AND (l.merged OR t.kind <> 'integer')), 'create', 'update'),
                    (SELECT json_group_array(DISTINCT j.value)
                        FROM tidemark_log AS e, json_each(coalesce(e.columns, '[]')) AS j
                        WHERE e.tbl = l.tbl AND e.key = l.key AND e.revision <= ?1), 1
                FROM temp.tidemark_compacted AS c CROSS JOIN tidemark_log AS l USING (tbl, key)
                    JOIN temp.tidemark_table AS t USING (tbl)
                WHERE l.revision <= ?1 GROUP BY l.tbl, l.key HAVING count(*) > 1
                """,
            arguments: [horizon]
        )
        try db.execute(
            sql: """
                DELETE FROM tidemark_log WHERE (tbl, key, revision) IN (
                    SELECT l.tbl, l.key, l.revision
                    FROM temp.tidemark_compacted AS c CROSS JOIN tidemark_log AS l USING (tbl, key)
                    WHERE l.revision < (SELECT max(n.revision) FROM tidemark_log AS n
                        WHERE n.tbl = l.tbl AND n.key = l.key AND n.revision <= ?))
                """,
            arguments: [horizon]
        )
    }

    /// The log's part of what was accepted goes with its bodies; the author's own parts go here.
    private func shortenVerdicts(_ horizon: Int64) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_verdict SET body = NULL
                WHERE revision > (SELECT horizon FROM tidemark_zone) AND revision <= ?
                    AND ids IS NOT NULL
                """,
            arguments: [horizon]
        )
    }
}
