import GRDB
package import TidemarkCore
import TidemarkSQLite
import TidemarkStore

/// Finds the records that the database changed along with a change set, and that somebody else
/// changed since its base.
///
/// The author of a deletion saw which children went with it. One that was added or edited meanwhile
/// was not among them, so `ON DELETE CASCADE` must not take it: nobody overwrites what they have
/// not seen.
extension ZoneTransaction {
    package func cascades(_ ord: Int, base: Int64, seen: [Int64]) throws -> [Contention] {
        if planted(PlantedBug.takesUnseenChildren) { return [] }
        guard let touched = try staged.cascading(ord, base: base) else { return [] }
        try staged.refuseLost(ord) { table in
            try String.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT s.key FROM temp.tidemark_staged AS s
                        WHERE s.ord = ? AND s.tbl = ? AND s.operation <> 'delete' AND NOT EXISTS (
                            SELECT 1 FROM main.\(SQLText.name(table.name)) AS t
                            WHERE \(KeySQL.match(table, key: "s.key", alias: "t."))) LIMIT 1
                        """
                ),
                arguments: [ord, table.name]
            )
        }
        try CommitTables.clear("contended", in: db)
        let seen = Self.list(seen)
        for table in schema.tables where !table.references.isEmpty {
            try db.cachedStatement(sql: cascadedSQL(table)).execute(arguments: [ord, touched.base, seen])
        }
        guard try staged.hasContended() else { return [] }
        return try staged.contentions(histories(seen), stamp: Stamp(), isCascade: true)
    }

    private func cascadedSQL(_ table: SyncedTable) -> String {
        """
        INSERT INTO temp.tidemark_contended (tbl, key, operation, base, present)
        SELECT \(SQLText.literal(table.name)), key,
            CASE WHEN max(kind = 'delete') THEN 'delete' ELSE 'update' END, ?2, 1
        FROM (
            SELECT \(RowJSON.key(table, prefix: "old_")) AS key, kind
            FROM \(SQLText.name(CaptureTables.shadow(table))) WHERE kind <> 'insert'
        ) AS c
        WHERE NOT EXISTS (SELECT 1 FROM temp.tidemark_staged AS s
                WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name)) AND s.key = c.key)
            AND EXISTS (SELECT 1 FROM tidemark_log AS l
                WHERE l.tbl = \(SQLText.literal(table.name)) AND l.key = c.key AND l.revision > ?2
                AND (l.merged OR l.revision NOT IN (SELECT value FROM json_each(?3))))
        GROUP BY key
        """
    }
}
