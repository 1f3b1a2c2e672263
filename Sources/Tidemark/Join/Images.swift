import GRDB
import TidemarkCore
import TidemarkSQL

/// SQL over images: records as JSON objects of columns.
enum Images {
    /// Returns an image with a change's attributes applied; it ignores columns that the image lacks.
    static func merged(_ image: String, _ attributes: String, in db: Database) throws -> String {
        try String.fetchOne(
            db,
            sql: """
                SELECT json_group_object(
                    member.key, json(coalesce(?2 -> member.fullkey, ?1 -> member.fullkey)))
                FROM json_each(?1) AS member
                """, arguments: [image, attributes]) ?? image
    }

    /// Returns whether an image has all columns of a change.
    static func covers(_ image: String, _ attributes: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT NOT EXISTS (
                    SELECT 1 FROM json_each(?2) AS change
                    WHERE change.key NOT IN (SELECT member.key FROM json_each(?1) AS member))
                """, arguments: [image, attributes]) ?? false
    }

    /// Returns SQL that selects the record with a key as an image.
    static func current(_ table: SyncedTable, key: String) -> String {
        """
        SELECT \(RowJSON.object(table.valueColumns.map(\.name), prefix: "current_row."))
        FROM main.\(SQLText.name(table.name)) AS current_row
        WHERE \(KeySQL.match(table, key: key, alias: "current_row."))
        """
    }
}
