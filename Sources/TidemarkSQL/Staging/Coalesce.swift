package import GRDB
import TidemarkCore

/// Coalesces many staged change sets into one with the same outcome; the cost depends on the changed records only.
package enum Coalesce {
    /// Stages the sum of the change sets numbered in a JSON array as change set `target`.
    package static func merge(_ ords: [Int], into target: Int, in db: Database) throws {
        let list = "[" + ords.map(String.init).joined(separator: ",") + "]"
        let deletion = planted(PlantedBug.coalescesDeletionAway) ? "'update'" : "'delete'"
        // `base` stores the number of the record's last deletion: earlier changes no longer count. A
        // record that only one set changes refers to its existing cells.
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged (ord, tbl, key, operation, base, cells)
                SELECT ?1, tbl, key,
                    CASE
                        WHEN last_change = coalesce(last_deletion, -1) THEN \(deletion)
                        WHEN coalesce(last_creation, -1) > coalesce(last_deletion, -1) THEN 'create'
                        ELSE 'update'
                    END,
                    coalesce(last_deletion, -1), iif(change_count = 1, last_change, NULL)
                FROM (
                    SELECT tbl, key, count(*) AS change_count, max(rec) AS last_change,
                        max(rec) FILTER (WHERE operation = 'delete') AS last_deletion,
                        max(rec) FILTER (WHERE operation = 'create') AS last_creation
                    FROM temp.tidemark_staged
                    WHERE ord IN (SELECT value FROM json_each(?2))
                    GROUP BY tbl, key
                )
                ORDER BY tbl, CAST(key AS INTEGER), key
                """
        ).execute(arguments: [target, list])
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_staged_cell (rec, col, value)
                SELECT merged.rec, cell.col, cell.value
                FROM temp.tidemark_staged AS merged
                JOIN temp.tidemark_staged AS staged
                    ON staged.tbl = merged.tbl AND staged.key = merged.key AND staged.rec >= merged.base
                        AND staged.ord IN (SELECT value FROM json_each(?2))
                JOIN temp.tidemark_staged_cell AS cell ON cell.rec = staged.rec
                WHERE merged.ord = ?1 AND merged.cells IS NULL
                ORDER BY staged.rec DESC
                """
        ).execute(arguments: [target, list])
        if try Delta.isStaged(in: db) { try mergeDeltas(list, into: target, in: db) }
    }

    /// Adds up the deltas of each record since the last value of their column, and adds them to it.
    private static func mergeDeltas(_ list: String, into target: Int, in db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged_delta (rec, col, delta)
                SELECT merged.rec, delta.col, tidemark_sum(delta.delta)
                FROM temp.tidemark_staged AS merged
                JOIN temp.tidemark_staged AS staged
                    ON staged.tbl = merged.tbl AND staged.key = merged.key AND staged.rec >= merged.base
                        AND staged.ord IN (SELECT value FROM json_each(?2))
                JOIN temp.tidemark_staged_delta AS delta ON delta.rec = staged.rec
                WHERE merged.ord = ?1 AND merged.cells IS NULL AND NOT EXISTS (
                    SELECT 1
                    FROM temp.tidemark_staged AS later
                    JOIN temp.tidemark_staged_cell AS cell ON cell.rec = later.rec AND cell.col = delta.col
                    WHERE later.tbl = merged.tbl AND later.key = merged.key AND later.rec > staged.rec
                        AND later.ord IN (SELECT value FROM json_each(?2)))
                GROUP BY merged.rec, delta.col
                """
        ).execute(arguments: [target, list])
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell
                SET value = tidemark_add(tidemark_staged_cell.value, delta.delta)
                FROM temp.tidemark_staged_delta AS delta
                JOIN temp.tidemark_staged AS merged ON merged.rec = delta.rec AND merged.ord = ?
                WHERE tidemark_staged_cell.rec = delta.rec AND tidemark_staged_cell.col = delta.col
                """
        ).execute(arguments: [target])
        try db.cachedStatement(
            sql: """
                DELETE FROM temp.tidemark_staged_delta
                WHERE rec IN (SELECT rec FROM temp.tidemark_staged WHERE ord = ?)
                    AND (rec, col) IN (SELECT rec, col FROM temp.tidemark_staged_cell)
                """
        ).execute(arguments: [target])
    }
}

/// Stages records from JSON objects of ``RowJSON``.
package enum StagedImages {
    /// Stages `tbl`, `key`, `operation` and `attributes` of a query, with deltas if `hasDeltas`, as change set `ord`.
    package static func stage(
        _ query: String, arguments: StatementArguments = [], hasDeltas: Bool = false, ord: Int, in db: Database
    ) throws {
        let arriving = StagedPurpose.arriving.ord
        // With a constant number at first, the statement texts are constant and prepared once.
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged (ord, tbl, key, operation, attributes)
                SELECT \(arriving), tbl, key, operation, attributes FROM (\(query))
                """
        ).execute(arguments: arguments)
        let isNew = "staged.ord = \(arriving)"
        let isValue = hasDeltas ? "\(isNew) AND NOT \(Delta.isDelta("attribute"))" : isNew
        try db.cachedStatement(sql: cellSQL(where: isValue)).execute()
        if hasDeltas {
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged_delta (rec, col, delta)
                    SELECT staged.rec, attribute.key, \(Delta.number("attribute.value"))
                    FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
                    WHERE \(isNew) AND \(Delta.has("staged.attributes")) AND \(Delta.isDelta("attribute"))
                    """
            ).execute()
        }
        try db.cachedStatement(sql: ChangeSetStaging.keyCellSQL(where: isNew)).execute()
        try db.cachedStatement(sql: "UPDATE temp.tidemark_staged SET ord = ? WHERE ord = \(arriving)").execute(
            arguments: [ord])
    }

    /// Returns a statement that decodes attributes of staged records, which the device wrote; `condition` selects them.
    private static func cellSQL(where condition: String) -> String {
        """
        INSERT INTO temp.tidemark_staged_cell (rec, col, value)
        SELECT staged.rec, \(MemberSQL.name(of: "attribute.key")), CASE attribute.type
            WHEN 'text' THEN attribute.atom
            WHEN 'integer' THEN attribute.atom
            WHEN 'null' THEN NULL
            WHEN 'object' THEN tidemark_decode(attribute.value)
            WHEN 'array' THEN tidemark_decode(attribute.value)
            ELSE tidemark_decode(staged.attributes -> attribute.fullkey) END
        FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
        WHERE \(condition) AND attribute.key NOT IN ('revision', '__oldId__')
        """
    }
}
