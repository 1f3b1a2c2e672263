import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Values that do not stand are kept; what they are is put together in ``TidemarkStore``.
extension ZoneTransaction {
    package func overrule(_ overrulings: [Overruling], in ord: Int) throws {
        try staged.overrule(overrulings, in: ord, imageRows: imageRows)
    }

    /// Writes the notes for other devices, and returns what goes into the author's copy: a JSON
    /// object a record.
    func takeOverruled(revision: Int64, author: String?) throws -> [String] {
        let told = try staged.takeOverruled(author: author, imageRows: imageRows)
        for note in told.notes where !planted(PlantedBug.tellsNoLosers) {
            try db.cachedStatement(sql: "INSERT INTO tidemark_overruled (device, revision, records) VALUES (?, ?, ?)")
                .execute(arguments: [note.device, revision, note.records])
        }
        return told.own
    }

    /// Notes the contended rows as they are now.
    private func imageRows(_ moment: String) throws {
        for table in schema.tables {
            let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_overruled_row (tbl, key, \(moment))
                    SELECT DISTINCT o.tbl, o.key, \(image) FROM temp.tidemark_overruling AS o
                    JOIN main.\(SQLText.name(table.name)) AS t
                        ON \(KeySQL.match(table, key: "o.key", alias: "t."))
                    WHERE o.tbl = \(SQLText.literal(table.name))
                    ON CONFLICT DO UPDATE SET \(moment) = excluded.\(moment)
                    """
            ).execute()
        }
    }

    // MARK: Notes

    package func overruled(device: String, taken: Int64, through revision: Int64, limit: Int) throws -> [String] {
        if taken > 0 {
            try db.cachedStatement(sql: "DELETE FROM tidemark_overruled WHERE device = ? AND number <= ?").execute(
                arguments: [device, taken])
        }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT '{"number":' || number || ',"revision":' || revision
                        || ',"records":' || records || '}'
                    FROM tidemark_overruled WHERE device = ? AND revision <= ?
                    ORDER BY number LIMIT ?
                    """
            ),
            arguments: [device, revision, limit]
        )
    }
}
