import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Values that do not stand are kept; what they are is put together in ``TidemarkStore``.
extension PostgresTransaction {
    func overrule(_ overrulings: [Overruling], in ord: Int) throws {
        try staged.overrule(overrulings, in: ord, imageRows: imageRows)
    }

    /// Writes the notes for other devices, and returns what goes into the author's copy.
    func takeOverruled(revision: Int64, author: String?) throws -> [String] {
        let told = try staged.takeOverruled(author: author, imageRows: imageRows)
        for note in told.notes {
            notes += 1
            try pg.query(
                "INSERT INTO tidemark.overruled VALUES ($1, $2, $3::bigint, $4::bigint, $5)",
                [zoneName, note.device, "\(notes)", "\(revision)", note.records]
            )
        }
        return told.own
    }

    /// Notes the contended rows as they are now.
    private func imageRows(_ moment: String) throws {
        let keys = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, json_group_array(key) AS keys FROM (
                        SELECT DISTINCT tbl, key FROM temp.tidemark_overruling) GROUP BY tbl
                    """
            )
        )
        for row in keys {
            guard let table = table(row["tbl"]) else { continue }
            let found = try pg.text(
                """
                SELECT json_agg(json_build_array(k.key, \(table.rowJSON("t"))))
                FROM \(KeySet.keys(2)) JOIN \(table.name) AS t ON \(KeySet.match(table, "t"))
                WHERE $1::text IS NOT NULL
                """,
                [zoneName, row["keys"]]
            )
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_overruled_row (tbl, key, \(moment))
                    SELECT ?1, value ->> 0, value ->> 1 FROM json_each(?2) WHERE true
                    ON CONFLICT DO UPDATE SET \(moment) = excluded.\(moment)
                    """
            ).execute(arguments: [table.table.name, found ?? "[]"])
        }
    }

    func overruled(device: String, taken: Int64, through revision: Int64, limit: Int) throws -> [String] {
        guard notes > 0 else { return [] }
        if taken > 0 {
            try pg.query(
                """
                DELETE FROM tidemark.overruled
                WHERE zone = $1 AND device = $2 AND number <= $3::bigint
                """,
                [zoneName, device, "\(taken)"]
            )
        }
        return try pg.query(
            """
            SELECT '{"number":' || number || ',"revision":' || revision || ',"records":' || records || '}'
            FROM tidemark.overruled WHERE zone = $1 AND device = $2 AND revision <= $3::bigint
            ORDER BY number LIMIT $4::bigint
            """,
            [zoneName, device, "\(revision)", "\(limit)"]
        ).map { $0.text(0) }
    }
}
