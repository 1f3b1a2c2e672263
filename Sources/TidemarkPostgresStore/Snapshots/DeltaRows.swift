import TidemarkCore
import TidemarkSQLite
import TidemarkStore

/// The rows of a delta: those of the records that the log names after a revision, in the
/// transaction of a ``BuildSnapshot``.
struct DeltaRows {
    let pg: PostgresConnection
    let served: PostgresSchema
    let zone: String
    let base: DeltaBase

    /// Whether most of the zone's rows have not changed.
    func isWorthwhile() throws -> Bool {
        let changed =
            try pg.query(
                """
                SELECT count(*) FROM (SELECT DISTINCT tbl, key FROM tidemark.log
                    WHERE zone = $1 AND revision > $2::bigint) AS changed
                """,
                [zone, "\(base.revision)"]
            )[0].integer(0) ?? 0
        return try DeltaChoice.isWorthwhile(changed: changed, in: served.schema.tables) {
            guard let stored = served.tables[$0.name] else { return 0 }
            return try pg.query(
                """
                SELECT count(*) FROM (SELECT 1 FROM \(stored.name) AS t
                    WHERE $1::text IS NOT NULL AND \(stored.inZone("t")) LIMIT $2::bigint) AS found
                """,
                [zone, "\($1)"]
            )[0].integer(0) ?? 0
        }
    }

    /// The condition that a row's record has changed; the zone is the parameter `$1`.
    func isChanged(_ table: PostgresTable, _ alias: String) -> String {
        """
        EXISTS (SELECT 1 FROM tidemark.log AS k
            WHERE \(named(table)) AND \(KeySet.match(table, alias)))
        """
    }

    /// The keys of the records of a table that are gone, a JSON array of canonical JSON.
    func gone(_ table: PostgresTable) throws -> String {
        try pg.query(
            """
            SELECT coalesce(json_agg(k.key ORDER BY k.key), '[]') FROM (
                SELECT DISTINCT k.key FROM tidemark.log AS k WHERE \(named(table))) AS k
            LEFT JOIN \(table.name) AS t ON \(KeySet.match(table, "t"))
            WHERE $1::text IS NOT NULL AND t.tableoid IS NULL
            """,
            [zone]
        )[0].text(0)
    }

    private func named(_ table: PostgresTable) -> String {
        """
        k.zone = \(SQLText.literal(zone)) AND k.tbl = \(table.literal)
            AND k.revision > \(base.revision)
        """
    }
}
