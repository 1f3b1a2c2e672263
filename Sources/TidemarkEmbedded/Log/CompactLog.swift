import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Compaction up to a horizon. Devices behind the horizon take a snapshot instead.
///
/// - The store deletes the bodies of revisions below the horizon. It keeps their author and time.
/// - Of a record's log entries up to the horizon, the store keeps the last one for each column and
///   the one that created the record again. The server needs both to judge edits on an older base.
///   If a record had several entries, the kept ones count as another device's changes. They keep
///   their unlogged values.
/// - The store deletes the entries of deleted records. An update of such a record is a conflict
///   anyway, and a record with a text key can be created again.
/// - Verdicts stay for ever, so that no change set is applied twice. Up to the horizon, only the
///   new ids stay, and the author's copies with overruled values. A retry needs nothing else.
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
                    unlogged TEXT, PRIMARY KEY (tbl, key, revision)
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
        for table in schema.tables { try deleteEntriesOfDeletedRecords(of: table, upTo: horizon) }
        try mergeEntries(horizon)
        try shortenVerdicts(horizon)
        // Author and time stay, because policies compare times. The horizon's own body stays for
        // devices that are at the horizon.
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

    /// Deletes the log up to a damaged entry.
    func forgetLog(through revision: Int64) throws {
        if try head().state.horizon < revision { try compact(to: revision) }
        // The entry's hash is unreliable too, and the check of the next entry would use it.
        try db.execute(
            sql: "UPDATE tidemark_revision SET body = '', chain = '' WHERE revision = ?",
            arguments: [revision]
        )
        try db.execute(sql: "DELETE FROM tidemark_revision_rest WHERE revision = ?", arguments: [revision])
    }

    private func deleteEntriesOfDeletedRecords(of table: SyncedTable, upTo horizon: Int64) throws {
        let rowExists = """
            EXISTS (
                SELECT 1
                FROM main.\(SQLText.name(table.name)) AS current_row
                WHERE \(KeySQL.match(table, key: "compacted.key", alias: "current_row.")))
            """
        try db.execute(
            sql: """
                DELETE FROM tidemark_log
                WHERE tbl = ?1
                    AND revision <= ?2
                    AND key IN (
                        SELECT compacted.key
                        FROM temp.tidemark_compacted AS compacted
                        WHERE compacted.tbl = ?1 AND NOT \(rowExists))
                """,
            arguments: [table.name, horizon]
        )
    }

    /// Coalesces the log entries of each record.
    ///
    /// A record that was deleted and created again keeps a `create` entry. The first `create` under
    /// a server id needs none: no device knew the record before.
    private func mergeEntries(_ horizon: Int64) throws {
        // `CROSS JOIN`, because SQLite would rather read the whole log.
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_merged (tbl, key, revision, operation, columns)
                WITH entry AS (
                    SELECT
                        log_entry.tbl,
                        log_entry.key,
                        log_entry.revision,
                        log_entry.operation,
                        log_entry.columns,
                        count(*) OVER record AS entries,
                        log_entry.operation = 'delete'
                            OR log_entry.operation = 'create'
                                AND (log_entry.merged
                                    OR log_entry.tbl NOT IN (SELECT value FROM json_each(?2))
                                    OR log_entry.revision > min(log_entry.revision) OVER record) AS renews
                    FROM temp.tidemark_compacted AS compacted
                    CROSS JOIN tidemark_log AS log_entry USING (tbl, key)
                    WHERE log_entry.revision <= ?1
                    WINDOW record AS (PARTITION BY log_entry.tbl, log_entry.key)
                ), history AS (
                    SELECT *,
                        coalesce(max(revision) FILTER (WHERE renews) OVER (PARTITION BY tbl, key), 0)
                            AS last_renewal
                    FROM entry
                    WHERE entries > 1
                )
                SELECT tbl, key, revision, 'create', NULL
                FROM history
                WHERE revision = last_renewal
                UNION ALL
                SELECT tbl, key, revision, 'update', json_group_array(col)
                FROM (
                    SELECT history.tbl, history.key, changed_column.value AS col, max(history.revision) AS revision
                    FROM history, json_each(history.columns) AS changed_column
                    WHERE history.operation = 'update' AND history.revision > history.last_renewal
                    GROUP BY history.tbl, history.key, changed_column.value
                )
                GROUP BY tbl, key, revision
                """,
            arguments: [
                horizon,
                JSONText.array(schema.tables.filter { $0.keyKind == .integer }.map { JSONText.quote($0.name) }),
            ]
        )
        try replaceMergedEntries(horizon)
    }

    /// Replaces log entries by the coalesced ones, which keep the values that no entry has.
    private func replaceMergedEntries(_ horizon: Int64) throws {
        try db.execute(
            sql: """
                UPDATE temp.tidemark_merged AS merged
                SET unlogged = (
                    SELECT log_entry.unlogged
                    FROM tidemark_log AS log_entry
                    WHERE log_entry.tbl = merged.tbl AND log_entry.key = merged.key
                        AND log_entry.revision = merged.revision)
                """
        )
        try db.execute(
            sql: """
                DELETE FROM tidemark_log
                WHERE (tbl, key, revision) IN (
                    SELECT log_entry.tbl, log_entry.key, log_entry.revision
                    FROM (SELECT DISTINCT tbl, key FROM temp.tidemark_merged) AS merged_record
                    CROSS JOIN tidemark_log AS log_entry USING (tbl, key)
                    WHERE log_entry.revision <= ?)
                """,
            arguments: [horizon]
        )
        try db.execute(
            sql: """
                INSERT INTO tidemark_log (tbl, key, revision, operation, columns, merged, unlogged)
                SELECT tbl, key, revision, operation, columns, 1, unlogged FROM temp.tidemark_merged
                """
        )
    }

    /// Deletes the author's copies of accepted change sets, except copies with overruled values.
    ///
    /// If the answer was lost, the copy is the only place that has these values.
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
