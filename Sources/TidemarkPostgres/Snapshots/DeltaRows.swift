import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Selects the rows of a delta, which the log names after the base, in the transaction of a ``BuildSnapshot``.
struct DeltaRows {
    let pg: PostgresConnection
    let served: PostgresSchema
    let zone: String
    let base: DeltaBase

    /// Checks that most of the zone's rows are unchanged.
    func isWorthwhile() throws -> Bool {
        let changed =
            try pg.query(
                """
                SELECT count(*)
                FROM (
                    SELECT DISTINCT tbl, key
                    FROM tidemark.log
                    WHERE zone = $1 AND revision > $2::bigint
                ) AS changed
                """,
                [zone, "\(base.revision)"]
            )[0].integer(0) ?? 0
        return try DeltaChoice.isWorthwhile(changed: changed, in: served.schema.tables) {
            guard let stored = served.tables[$0.name] else { return 0 }
            return try pg.query(
                """
                SELECT count(*)
                FROM (
                    SELECT 1
                    FROM \(stored.name) AS app_row
                    WHERE $1::text IS NOT NULL AND \(stored.inZone("app_row"))
                    LIMIT $2::bigint
                ) AS app_rows
                """,
                [zone, "\($1)"]
            )[0].integer(0) ?? 0
        }
    }

    /// The condition that a row changed after the base; the zone is the parameter `$1`.
    func isChanged(_ table: PostgresTable, _ alias: String) -> String {
        """
        EXISTS (SELECT 1 FROM tidemark.log AS wanted
            WHERE \(isLogged(table)) AND \(KeySet.match(table, alias)))
        """
    }

    /// Returns the keys of deleted records, a JSON array of canonical JSON.
    func deletedKeys(of table: PostgresTable) throws -> String {
        try pg.query(
            """
            SELECT coalesce(json_agg(wanted.key ORDER BY wanted.key), '[]')
            FROM (
                SELECT DISTINCT wanted.key
                FROM tidemark.log AS wanted
                WHERE \(isLogged(table))
            ) AS wanted
            LEFT JOIN \(table.name) AS app_row ON \(KeySet.match(table, "app_row"))
            WHERE $1::text IS NOT NULL AND app_row.tableoid IS NULL
            """,
            [zone]
        )[0].text(0)
    }

    /// The condition that `wanted`, an entry of the log, is of a table and newer than the base.
    private func isLogged(_ table: PostgresTable) -> String {
        """
        wanted.zone = \(SQLText.literal(zone)) AND wanted.tbl = \(table.literal)
            AND wanted.revision > \(base.revision)
        """
    }
}
