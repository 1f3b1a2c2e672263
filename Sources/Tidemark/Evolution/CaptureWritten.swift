import GRDB
import TidemarkCore
import TidemarkSQLite

/// Captures what was written into waiting records while their table had no triggers, or in columns
/// that these did not know.
struct CaptureWritten {
    let db: Database
    let schema: SyncSchema

    /// Captures the rows that are not as they are known to wait, as edits.
    ///
    /// `other` is the value of a column of which nothing is known, canonical JSON as SQL over `t`.
    func capture(_ table: SyncedTable, other: (SyncedTable.Column) throws -> String) throws {
        let key = RowJSON.key(table, alias: "t.")
        let literal = SQLText.literal(table.name)
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        let values = try table.valueColumns.filter { !unserved.contains($0.name) }.map { column -> (String, String) in
            let unknown = try other(column)
            let path = SQLText.literal("$.\"\(column.name)\"")
            let expected = """
                coalesce((SELECT o.attributes -> \(path) FROM tidemark_outbox AS o
                WHERE o.tbl = \(literal) AND o.key = \(key) AND json_type(o.attributes, \(path)) IS NOT NULL
                ORDER BY o.seq DESC LIMIT 1), (SELECT b.image -> \(path) FROM tidemark_base AS b
                WHERE b.tbl = \(literal) AND b.key = \(key)), \(unknown))
                """
            return (column.name, "tidemark_decode(\(expected))")
        }
        guard !values.isEmpty else { return }
        let differs = values.map { name, value in "tidemark_key(t.\(SQLText.name(name))) IS NOT tidemark_key(\(value))"
        }
        try CaptureAddedColumns(
            table,
            before: Dictionary(uniqueKeysWithValues: values),
            where: """
                EXISTS (SELECT 1 FROM tidemark_base AS b WHERE b.tbl = \(literal) AND b.key = \(key))
                AND (\(differs.joined(separator: " OR ")))
                """
        ).run(db)
    }
}
