import GRDB
import TidemarkCore
import TidemarkSQLite

/// Records as JSON objects of columns.
enum Images {
    /// The columns of an image, with those of a change in their place.
    static func merged(_ image: String, _ attributes: String, in db: Database) throws -> String {
        try String.fetchOne(
            db,
            sql: """
                SELECT json_group_object(j.key, json(coalesce(?2 -> j.fullkey, ?1 -> j.fullkey)))
                FROM json_each(?1) AS j
                """,
            arguments: [image, attributes]
        ) ?? image
    }

    /// Whether an image has all columns of a change.
    static func covers(_ image: String, _ attributes: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT NOT EXISTS (SELECT 1 FROM json_each(?2) AS c
                    WHERE c.key NOT IN (SELECT j.key FROM json_each(?1) AS j))
                """,
            arguments: [image, attributes]
        ) ?? false
    }

    /// SQL for the record with a key, as a JSON object of its columns.
    static func current(_ table: SyncedTable, key: String) -> String {
        """
        SELECT \(RowJSON.object(table.valueColumns.map(\.name), prefix: "t."))
        FROM main.\(SQLText.name(table.name)) AS t WHERE \(KeySQL.match(table, key: key, alias: "t."))
        """
    }
}
