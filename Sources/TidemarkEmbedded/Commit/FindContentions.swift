import GRDB
package import TidemarkCore
import TidemarkSQL
import TidemarkStoreSupport

/// Finds the records of a change set that another device changed since its base.
///
/// This takes a few queries per table, whatever the number of records. The rule itself is the pure
/// function `judge`.
extension ZoneTransaction {
    package func contentions(_ ord: Int, base: Int64, seenRevisions: [Int64], stamp: Stamp) throws -> [Contention] {
        if planted(PlantedBug.skipsBaseCheck) { return [] }
        let tables = try staged.touchedTables(ord)
        // Usually no other device changed these records, and a request may have thousands of change
        // sets. So the first query ignores the author's own revisions.
        guard try collectContended(tables, ord: ord, base: base, seenList: "[]") else { return [] }
        let seenList = Self.list(seenRevisions)
        guard try seenList == "[]" || collectContended(tables, ord: ord, base: base, seenList: seenList) else {
            return []
        }
        for table in tables { try addImages(of: table) }
        return try staged.contentions(histories(seenList), stamp: stamp, isCascade: false)
    }

    /// Collects the records that changed after their base in a revision outside `seenList`.
    ///
    /// - Returns: Whether there are any.
    private func collectContended(_ tables: [SyncedTable], ord: Int, base: Int64, seenList: String) throws -> Bool {
        try CommitTables.clear("contended", in: db)
        for table in tables {
            try db.cachedStatement(sql: insertContendedSQL(table)).execute(arguments: [ord, base, seenList])
        }
        return try staged.hasContended()
    }

    /// Adds the current rows to the contended records of a table.
    private func addImages(of table: SyncedTable) throws {
        let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "current_row.")
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_contended AS contended
                SET image = (
                    SELECT \(image)
                    FROM main.\(SQLText.name(table.name)) AS current_row
                    WHERE \(KeySQL.match(table, key: "contended.key", alias: "current_row.")))
                WHERE contended.tbl = ? AND contended.operation <> 'delete'
                """
        ).execute(arguments: [table.name])
    }

    private func insertContendedSQL(_ table: SyncedTable) -> String {
        let cells = table.key.indices.map {
            """
            JOIN temp.tidemark_staged_cell AS cell\($0)
                ON cell\($0).rec = staged.rec AND cell\($0).col = \(SQLText.literal(table.key[$0]))
            """
        }
        let match = table.key.indices.map { "current_row.\(SQLText.name(table.key[$0])) = cell\($0).value" }
        let base = planted(PlantedBug.ignoresRecordBase) ? "?2" : "min(coalesce(staged.base, ?2), ?2)"
        return """
            INSERT INTO temp.tidemark_contended (rec, tbl, key, operation, base, present)
            SELECT rec, tbl, key, operation, base, present
            FROM (
                SELECT
                    staged.rec,
                    staged.tbl,
                    staged.key,
                    staged.operation,
                    \(base) AS base,
                    current_row.\(SQLText.name(table.key[0])) IS NOT NULL AS present,
                    EXISTS (
                        SELECT 1
                        FROM tidemark_log AS log_entry
                        WHERE log_entry.tbl = staged.tbl
                            AND log_entry.key = staged.key
                            AND log_entry.revision > \(base)
                            AND (log_entry.merged
                                OR log_entry.revision NOT IN (SELECT value FROM json_each(?3)))) AS newer
                FROM temp.tidemark_staged AS staged
                \(cells.joined(separator: " "))
                LEFT JOIN main.\(SQLText.name(table.name)) AS current_row
                    ON \(match.joined(separator: " AND "))
                WHERE staged.ord = ?1 AND staged.tbl = \(SQLText.literal(table.name))
            )
            WHERE CASE operation WHEN 'create' THEN present ELSE newer OR NOT present END
            """
    }

    /// Returns the changes to each contended record since its base, oldest first.
    ///
    /// Equal changes by the author, in revisions of `seenList`, count once, at the last of them.
    /// `CROSS JOIN` fixes the join order; otherwise SQLite reads the whole log.
    func histories(_ seenList: String) throws -> [StagedRequest.RecordName: StagedRequest.History] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT tbl, key, operation, columns, coalesce(max(time), 0) AS time, max(device) AS device, is_seen
                    FROM (
                        SELECT
                            contended.tbl,
                            contended.key,
                            log_entry.revision,
                            log_entry.operation,
                            log_entry.columns,
                            committed.time,
                            committed.device,
                            NOT log_entry.merged
                                AND log_entry.revision IN (SELECT value FROM json_each(?)) AS is_seen
                        FROM temp.tidemark_contended AS contended
                        CROSS JOIN tidemark_log AS log_entry
                            ON log_entry.tbl = contended.tbl
                                AND log_entry.key = contended.key
                                AND log_entry.revision > contended.base
                        LEFT JOIN tidemark_revision AS committed USING (revision)
                    )
                    GROUP BY tbl, key, operation, columns, is_seen, iif(is_seen, 0, revision)
                    ORDER BY max(revision)
                    """
            ),
            arguments: [seenList]
        )
        var histories: [StagedRequest.RecordName: StagedRequest.History] = [:]
        while let row = try rows.next() {
            let change = try StagedRequest.unseen(
                operation: try row.value("operation"),
                columns: try row.value("columns"),
                stamp: try Stamp(time: row.value("time"), device: row.value("device"))
            )
            try histories[.init(table: row.value("tbl"), key: row.value("key")), default: []].append(
                (change: change, isSeen: row.value("is_seen") as Bool)
            )
        }
        return histories
    }

    /// Renders numbers as a JSON array.
    static func list(_ numbers: [Int64]) -> String { "[" + numbers.map(String.init).joined(separator: ",") + "]" }
}
