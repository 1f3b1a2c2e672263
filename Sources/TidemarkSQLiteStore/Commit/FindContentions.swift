import GRDB
package import TidemarkCore
import TidemarkSQLite
import TidemarkStore

/// Finds the records of a change set that somebody else changed since its base: a few queries a
/// table, whatever the number of records.
///
/// The rule itself is `judge`, a pure function; here is only the evidence.
extension ZoneTransaction {
    package func contentions(_ ord: Int, base: Int64, seen: [Int64], stamp: Stamp) throws -> [Contention] {
        if planted(PlantedBug.skipsBaseCheck) { return [] }
        let tables = try staged.touchedTables(ord)
        // Mostly nobody has changed these records, and a request may bring thousands of change
        // sets: what their author has made meanwhile is told only where that decides.
        guard try noteContended(tables, ord, base, seen: "[]") else { return [] }
        let seen = Self.list(seen)
        guard try seen == "[]" || noteContended(tables, ord, base, seen: seen) else { return [] }
        for table in tables { try noteImages(table) }
        return try staged.contentions(histories(seen), stamp: stamp, isCascade: false)
    }

    /// Notes the records that somebody changed since their base, except in revisions `seen`, and
    /// says whether there are any.
    private func noteContended(_ tables: [SyncedTable], _ ord: Int, _ base: Int64, seen: String) throws -> Bool {
        try CommitTables.clear("contended", in: db)
        for table in tables { try db.cachedStatement(sql: contendedSQL(table)).execute(arguments: [ord, base, seen]) }
        return try staged.hasContended()
    }

    /// Notes the contended rows of a table as they are now.
    private func noteImages(_ table: SyncedTable) throws {
        let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_contended AS w SET image = (
                    SELECT \(image) FROM main.\(SQLText.name(table.name)) AS t
                    WHERE \(KeySQL.match(table, key: "w.key", alias: "t.")))
                WHERE w.tbl = ? AND w.operation <> 'delete'
                """
        ).execute(arguments: [table.name])
    }

    private func contendedSQL(_ table: SyncedTable) -> String {
        let cells = table.key.indices.map {
            "JOIN temp.tidemark_staged_cell AS c\($0) ON c\($0).rec = s.rec AND c\($0).col = \(SQLText.literal(table.key[$0]))"
        }
        let match = table.key.indices.map { "t.\(SQLText.name(table.key[$0])) = c\($0).value" }
        let base = planted(PlantedBug.ignoresRecordBase) ? "?2" : "min(coalesce(s.base, ?2), ?2)"
        return """
            INSERT INTO temp.tidemark_contended (rec, tbl, key, operation, base, present)
            SELECT rec, tbl, key, operation, base, present FROM (
                SELECT s.rec, s.tbl, s.key, s.operation, \(base) AS base,
                    t.\(SQLText.name(table.key[0])) IS NOT NULL AS present,
                    EXISTS (SELECT 1 FROM tidemark_log AS l WHERE l.tbl = s.tbl AND l.key = s.key
                        AND l.revision > \(base)
                        AND (l.merged OR l.revision NOT IN (SELECT value FROM json_each(?3)))) AS newer
                FROM temp.tidemark_staged AS s \(cells.joined(separator: " "))
                    LEFT JOIN main.\(SQLText.name(table.name)) AS t ON \(match.joined(separator: " AND "))
                WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name))
            ) WHERE CASE operation WHEN 'create' THEN present ELSE newer OR NOT present END
            """
    }

    /// What was done to each contended record since its base, oldest first.
    ///
    /// Of what the author has done in the same way many times, in revisions `seen`, the last one
    /// says all. `CROSS JOIN`, because SQLite would rather read the whole log.
    func histories(_ seen: String) throws -> [StagedRequest.RecordName: StagedRequest.History] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT tbl, key, operation, columns, coalesce(max(time), 0) AS time, max(device) AS device, is_seen
                    FROM (
                        SELECT c.tbl, c.key, l.revision, l.operation, l.columns, r.time, r.device,
                            NOT l.merged AND l.revision IN (SELECT value FROM json_each(?)) AS is_seen
                        FROM temp.tidemark_contended AS c
                        CROSS JOIN tidemark_log AS l
                            ON l.tbl = c.tbl AND l.key = c.key AND l.revision > c.base
                        LEFT JOIN tidemark_revision AS r USING (revision)
                    )
                    GROUP BY tbl, key, operation, columns, is_seen, iif(is_seen, 0, revision)
                    ORDER BY max(revision)
                    """
            ),
            arguments: [seen]
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

    /// Numbers as a JSON array.
    static func list(_ numbers: [Int64]) -> String { "[" + numbers.map(String.init).joined(separator: ",") + "]" }
}
