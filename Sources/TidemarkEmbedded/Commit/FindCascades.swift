import GRDB
package import TidemarkCore
import TidemarkSQL
import TidemarkStoreSupport

/// Finds records that a change set's cascades change, and that another device changed since the base.
///
/// The author of a deletion saw which children its cascade deletes. A child that another device added
/// or edited meanwhile was not among them, so `ON DELETE CASCADE` must not delete it: no change
/// overwrites unseen changes.
extension ZoneTransaction {
    package func cascades(_ ord: Int, base: Int64, seenRevisions: [Int64]) throws -> [Contention] {
        if planted(PlantedBug.takesUnseenChildren) { return [] }
        guard let sources = try staged.cascadeSources(ord, base: base) else { return [] }
        try staged.refuseLost(ord) { table in
            try String.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT staged.key
                        FROM temp.tidemark_staged AS staged
                        WHERE staged.ord = ?
                            AND staged.tbl = ?
                            AND staged.operation <> 'delete'
                            AND NOT EXISTS (
                                SELECT 1
                                FROM main.\(SQLText.name(table.name)) AS current_row
                                WHERE \(KeySQL.match(table, key: "staged.key", alias: "current_row.")))
                        LIMIT 1
                        """
                ),
                arguments: [ord, table.name]
            )
        }
        try CommitTables.clear("contended", in: db)
        let seenList = Self.list(seenRevisions)
        for table in schema.tables where !table.references.isEmpty {
            try db.cachedStatement(sql: insertCascadesSQL(table)).execute(arguments: [ord, sources.base, seenList])
        }
        guard try staged.hasContended() else { return [] }
        return try staged.contentions(histories(seenList), stamp: Stamp(), isCascade: true)
    }

    private func insertCascadesSQL(_ table: SyncedTable) -> String {
        """
        INSERT INTO temp.tidemark_contended (tbl, key, operation, base, present)
        SELECT
            \(SQLText.literal(table.name)),
            key,
            CASE WHEN max(kind = 'delete') THEN 'delete' ELSE 'update' END,
            ?2,
            1
        FROM (
            SELECT \(RowJSON.key(table, prefix: "old_")) AS key, kind
            FROM \(SQLText.name(CaptureTables.shadow(table)))
            WHERE kind <> 'insert'
        ) AS capture
        WHERE NOT EXISTS (
                SELECT 1
                FROM temp.tidemark_staged AS staged
                WHERE staged.ord = ?1
                    AND staged.tbl = \(SQLText.literal(table.name))
                    AND staged.key = capture.key)
            AND EXISTS (
                SELECT 1
                FROM tidemark_log AS log_entry
                WHERE log_entry.tbl = \(SQLText.literal(table.name))
                    AND log_entry.key = capture.key
                    AND log_entry.revision > ?2
                    AND (log_entry.merged
                        OR log_entry.revision NOT IN (SELECT value FROM json_each(?3))))
        GROUP BY key
        """
    }
}
