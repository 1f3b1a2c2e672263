import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Stores overruled values; ``TidemarkStoreSupport`` composes the notes.
extension PostgresTransaction {
    func overrule(_ overrulings: [Overruling], in ord: Int) throws {
        try staged.overrule(overrulings, in: ord, imageRows: imageRows)
    }

    /// Stores the notes for other devices, and returns the values for the author's copy.
    func takeOverruled(revision: Int64, author: String?) throws -> [String] {
        let overruled = try staged.takeOverruled(author: author, imageRows: imageRows)
        for note in overruled.notes {
            notes += 1
            try pg.query(
                "INSERT INTO tidemark.overruled VALUES ($1, $2, $3::bigint, $4::bigint, $5)",
                [zoneName, note.device, "\(notes)", "\(revision)", note.records]
            )
        }
        return overruled.own
    }

    /// Stores the current images of the overruled rows.
    private func imageRows(_ moment: String) throws {
        let keys = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, json_group_array(key) AS keys
                    FROM (SELECT DISTINCT tbl, key FROM temp.tidemark_overruling)
                    GROUP BY tbl
                    """
            )
        )
        for row in keys {
            guard let table = table(row["tbl"]) else { continue }
            let images = try pg.text(
                """
                SELECT json_agg(json_build_array(wanted.key, \(table.rowJSON("app_row"))))
                FROM \(KeySet.keys(2))
                JOIN \(table.name) AS app_row ON \(KeySet.match(table, "app_row"))
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
            ).execute(arguments: [table.table.name, images ?? "[]"])
        }
    }

    func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws -> [String] {
        guard notes > 0 else { return [] }
        if cursor > 0 {
            try pg.query(
                """
                DELETE FROM tidemark.overruled
                WHERE zone = $1 AND device = $2 AND number <= $3::bigint
                """,
                [zoneName, device, "\(cursor)"]
            )
        }
        return try pg.query(
            """
            SELECT '{"number":' || number || ',"revision":' || revision || ',"records":' || records || '}'
            FROM tidemark.overruled
            WHERE zone = $1 AND device = $2 AND revision <= $3::bigint
            ORDER BY number
            LIMIT $4::bigint
            """,
            [zoneName, device, "\(revision)", "\(limit)"]
        ).map { $0.text(0) }
    }
}
