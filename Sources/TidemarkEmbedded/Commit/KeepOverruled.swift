import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Stores overruled values, which ``TidemarkStoreSupport`` collects.
extension ZoneTransaction {
    package func overrule(_ overrulings: [Overruling], in ord: Int) throws {
        try staged.overrule(overrulings, in: ord, imageRows: imageRows)
    }

    /// Writes the notes for other devices.
    ///
    /// - Returns: The overruled values for the author's copy, one JSON object per record.
    func takeOverruled(revision: Int64, author: String?) throws -> [String] {
        let overruledValues = try staged.takeOverruled(author: author, imageRows: imageRows)
        for note in overruledValues.notes where !planted(PlantedBug.tellsNoLosers) {
            try db.cachedStatement(sql: "INSERT INTO tidemark_overruled (device, revision, records) VALUES (?, ?, ?)")
                .execute(arguments: [note.device, revision, note.records])
        }
        return overruledValues.own
    }

    /// Stores the current images of the contended rows in column `moment`.
    private func imageRows(_ moment: String) throws {
        for table in schema.tables {
            let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "current_row.")
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_overruled_row (tbl, key, \(moment))
                    SELECT DISTINCT overruling.tbl, overruling.key, \(image)
                    FROM temp.tidemark_overruling AS overruling
                    JOIN main.\(SQLText.name(table.name)) AS current_row
                        ON \(KeySQL.match(table, key: "overruling.key", alias: "current_row."))
                    WHERE overruling.tbl = \(SQLText.literal(table.name))
                    ON CONFLICT DO UPDATE SET \(moment) = excluded.\(moment)
                    """
            ).execute()
        }
    }

    // MARK: Notes

    package func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws
        -> [String]
    {
        if cursor > 0 {
            try db.cachedStatement(sql: "DELETE FROM tidemark_overruled WHERE device = ? AND number <= ?").execute(
                arguments: [device, cursor])
        }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT '{"number":' || number || ',"revision":' || revision
                        || ',"records":' || records || '}'
                    FROM tidemark_overruled
                    WHERE device = ? AND revision <= ?
                    ORDER BY number
                    LIMIT ?
                    """
            ),
            arguments: [device, revision, limit]
        )
    }
}
