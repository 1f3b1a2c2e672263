import GRDB
package import TidemarkCore
package import TidemarkSQL

extension ChangeSetJSON.Source {
    /// The records of a table that the last commit changed.
    ///
    /// With `ord`, the number of the staged change set, it includes the temporary ids for the
    /// author's copy, and respelled keys of records that did not change otherwise.
    package init(effectOn table: SyncedTable, revision: Int64, authorOf ord: Int?) {
        let unchangedSQL = """
            UNION ALL
            SELECT staged.key, 'update', '"__oldId__":' || staged.old_key || ',"revision":' || ?2
            FROM temp.tidemark_staged AS staged
            WHERE staged.ord = ?3 AND staged.tbl = ?1 AND staged.operation = 'update' AND staged.old_key IS NOT NULL
                AND staged.key NOT IN (SELECT key FROM temp.tidemark_reduced WHERE tbl = ?1)
            """
        let oldId = "CASE WHEN staged.old_key IS NULL THEN '' ELSE '\"__oldId__\":' || staged.old_key || ',' END"
        self.init(
            table: table,
            sql: """
                SELECT reduced.key, reduced.operation, CASE WHEN reduced.operation <> 'delete' THEN
                    \(ord == nil ? "''" : oldId) || '"revision":' || ?2 || \(members("reduced.attributes"))
                    END AS members
                FROM temp.tidemark_reduced AS reduced
                LEFT JOIN temp.tidemark_staged AS staged
                    ON staged.ord = ?3 AND staged.tbl = reduced.tbl AND staged.key = reduced.key
                WHERE reduced.tbl = ?1
                \(ord == nil || table.keyKind == .integer ? "" : unchangedSQL)
                """,
            arguments: [table.name, revision, ord]
        )
    }

    /// The current records of a table in `temp.tidemark_truth`.
    package init(truth table: SyncedTable) {
        self.init(
            table: table,
            sql: """
                SELECT key, CASE WHEN image IS NULL THEN 'delete' ELSE 'update' END AS operation,
                    CASE WHEN image IS NOT NULL
                        THEN '"revision":' || revision || \(members("image")) END AS members
                FROM temp.tidemark_truth
                WHERE tbl = ?1
                """,
            arguments: [table.name]
        )
    }
}

/// The SQL for the members of a JSON object after a comma; an empty text when it has none.
func members(_ object: String) -> String {
    "CASE \(object) WHEN '{}' THEN '' ELSE ',' || substr(\(object), 2, length(\(object)) - 2) END"
}
