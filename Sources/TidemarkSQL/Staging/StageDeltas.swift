import GRDB
import TidemarkCore

/// Stages deltas: integers that updates add to columns with the policy `add`.
extension ChangeSetStaging {
    /// Whether a column of the schema has the policy `add`.
    static func hasAddingColumns(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_column WHERE adds)"))
            ?? false
    }

    /// Checks and stages the deltas of all records; their values are staged already.
    func stageDeltas() throws {
        let deltas = """
            FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
            \(Self.aliasJoin)
            JOIN \(Self.columnJoin) AND known_column.adds
            WHERE \(Delta.has("staged.attributes")) AND \(Delta.isDelta("attribute"))
            """
        // SQLite reads a number beyond 64 bits as a REAL, and renders it in another way.
        let canonical = "'\(Delta.prefix)' || CAST(\(Delta.number("attribute.value")) AS INTEGER) || '}'"
        try refuse(
            .invalidValue,
            message: "A delta is not of the form that an update may have.",
            fix: #"Add by {"$add":-2}, with one 64-bit integer, in an update; a creation has values only."#,
            sql: """
                SELECT staged.ord, staged.tbl, staged.key, attribute.key AS col
                \(deltas) AND (staged.operation <> 'update' OR attribute.value IS NOT \(canonical))
                LIMIT 1
                """
        )
        try stageOnce(
            """
            INTO temp.tidemark_staged_delta (rec, col, delta)
            SELECT staged.rec, known_column.col, \(Delta.number("attribute.value"))
            \(deltas)
            """,
            orRefuse: """
                SELECT staged.ord, staged.tbl, staged.key, attribute.key AS name
                \(deltas)
                GROUP BY staged.rec, known_column.col
                HAVING count(*) > 1
                LIMIT 1
                """
        )
        try refuseDuplicates(
            """
            SELECT staged.ord, staged.tbl, staged.key, delta.col AS name
            FROM temp.tidemark_staged_delta AS delta
            JOIN temp.tidemark_staged_cell AS cell USING (rec, col)
            JOIN temp.tidemark_staged AS staged USING (rec)
            LIMIT 1
            """
        )
    }
}
