import GRDB
import TidemarkCore

/// Columns that devices do not write, and integers with bounds that SQLite does not have.
extension PostgresText {
    /// The size of PostgreSQL's integers that are smaller than SQLite's.
    static let bits = ["smallint": 16, "integer": 32]

    /// Removes values of generated columns, which PostgreSQL computes; the answer has its value.
    static func dropGenerated(in db: Database) throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM temp.tidemark_staged_cell
                WHERE EXISTS (SELECT 1 FROM temp.tidemark_postgres_type WHERE is_generated)
                    AND (rec, col) IN (
                        SELECT staged.rec, type.col
                        FROM temp.tidemark_staged AS staged
                        JOIN temp.tidemark_postgres_type AS type ON type.tbl = staged.tbl AND type.is_generated)
                """
        ).execute()
    }

    /// Finds an integer of a change set that its column is too small for, after the assignment of ids.
    static func outOfRange(_ ord: Int, in db: Database) throws -> TidemarkError? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT staged.tbl, staged.key, cell.col, CAST(cell.value AS INTEGER) AS value, type.bits
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell USING (rec)
                    JOIN temp.tidemark_postgres_type AS type ON type.tbl = staged.tbl AND type.col = cell.col
                    WHERE staged.ord = ? AND type.bits IS NOT NULL AND cell.value IS NOT NULL
                        AND CAST(cell.value AS INTEGER)
                            NOT BETWEEN -(1 << (type.bits - 1)) AND (1 << (type.bits - 1)) - 1
                    LIMIT 1
                    """
            ),
            arguments: [ord]
        )
        guard let row else { return nil }
        let bound = Int64(1) << (row["bits"] as Int64 - 1)
        let value: Int64 = row["value"]
        return refusal(
            "is \(value), beyond the bounds \(-bound) and \(bound - 1) of an integer of \(row["bits"] as Int64) bits",
            .init(changeSet: ord, table: row["tbl"], key: row["key"], column: row["col"])
        )
    }
}
