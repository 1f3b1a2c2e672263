import GRDB
package import TidemarkCore
package import TidemarkSQLite

extension ChangeSetJSON.Source {
    /// What the last commit changed in a table.
    ///
    /// With `ord`, the author's staged change set, the temporary ids are named: the author's copy.
    package init(reduced table: SyncedTable, revision: Int64, authorOf ord: Int?) {
        let old = "CASE WHEN s.old_key IS NULL THEN '' ELSE '\"__oldId__\":' || s.old_key || ',' END"
        self.init(
            table: table,
            sql: """
                SELECT r.key, r.operation, CASE WHEN r.operation <> 'delete' THEN
                    \(ord == nil ? "''" : old) || '"revision":' || ?2 || \(members("r.attributes")) END AS members
                FROM temp.tidemark_reduced AS r
                LEFT JOIN temp.tidemark_staged AS s ON s.ord = ?3 AND s.tbl = r.tbl AND s.key = r.key
                WHERE r.tbl = ?1
                """,
            arguments: [table.name, revision, ord]
        )
    }

    /// The records of a table that `temp.tidemark_truth` lists, as they are now.
    package init(truth table: SyncedTable) {
        self.init(
            table: table,
            sql: """
                SELECT key, CASE WHEN image IS NULL THEN 'delete' ELSE 'update' END AS operation,
                    CASE WHEN image IS NOT NULL
                        THEN '"revision":' || revision || \(members("image")) END AS members
                FROM temp.tidemark_truth WHERE tbl = ?1
                """,
            arguments: [table.name]
        )
    }
}

/// The members of a JSON object behind a comma, or nothing when it has none.
func members(_ object: String) -> String {
    "CASE \(object) WHEN '{}' THEN '' ELSE ',' || substr(\(object), 2, length(\(object)) - 2) END"
}
