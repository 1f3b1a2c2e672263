package import GRDB
import TidemarkCore

/// Coalesces many staged change sets into one with the same outcome: the last state of each record.
///
/// A device applies an answer in one transaction, so no reader sees the states in between. The cost
/// depends on the number of changed records, not on the number of change sets.
package enum Coalesce {
    /// Stages the sum of the change sets numbered in a JSON array as change set `target`.
    package static func merge(_ ords: [Int], into target: Int, in db: Database) throws {
        let list = "[" + ords.map(String.init).joined(separator: ",") + "]"
        let gone = planted(PlantedBug.coalescesDeletionAway) ? "'update'" : "'delete'"
        // `base` keeps the number of the record's last deletion: what came before it no longer
        // counts. Whatever only one set touches keeps its cells where they are.
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged (ord, tbl, key, operation, base, cells)
                SELECT ?1, tbl, key, CASE WHEN last = coalesce(gone, -1) THEN \(gone)
                    WHEN coalesce(made, -1) > coalesce(gone, -1) THEN 'create' ELSE 'update' END, coalesce(gone, -1),
                    iif(touches = 1, last, NULL)
                FROM (
                    SELECT tbl, key, count(*) AS touches, max(rec) AS last,
                        max(rec) FILTER (WHERE operation = 'delete') AS gone,
                        max(rec) FILTER (WHERE operation = 'create') AS made
                    FROM temp.tidemark_staged WHERE ord IN (SELECT value FROM json_each(?2))
                    GROUP BY tbl, key
                ) ORDER BY tbl, CAST(key AS INTEGER), key
                """
        ).execute(arguments: [target, list])
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_staged_cell (rec, col, value)
                SELECT n.rec, c.col, c.value
                FROM temp.tidemark_staged AS n
                JOIN temp.tidemark_staged AS s ON s.tbl = n.tbl AND s.key = n.key AND s.rec >= n.base
                    AND s.ord IN (SELECT value FROM json_each(?2))
                JOIN temp.tidemark_staged_cell AS c ON c.rec = s.rec
                WHERE n.ord = ?1 AND n.cells IS NULL ORDER BY s.rec DESC
                """
        ).execute(arguments: [target, list])
    }
}

/// Stages records whose columns are given as JSON objects made by ``RowJSON``.
package enum StagedImages {
    /// The number of a change set that is just being staged.
    private static let arriving = Int64.min

    /// Stages the rows of a query with columns `tbl`, `key`, `operation`, `attributes` as change
    /// set `ord`.
    package static func stage(_ query: String, arguments: StatementArguments = [], ord: Int, in db: Database) throws {
        // Under a number of its own first, so that the statements stay the same and are prepared
        // once.
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged (ord, tbl, key, operation, attributes)
                SELECT \(arriving), tbl, key, operation, attributes FROM (\(query))
                """
        ).execute(arguments: arguments)
        let isNew = "a.ord = \(arriving)"
        try db.cachedStatement(sql: ChangeSetStaging.cellSQL(text: "c.atom", where: isNew)).execute()
        try db.cachedStatement(sql: ChangeSetStaging.keyCellSQL(where: isNew)).execute()
        try db.cachedStatement(sql: "UPDATE temp.tidemark_staged SET ord = ? WHERE ord = \(arriving)").execute(
            arguments: [ord])
    }
}
