import GRDB
package import TidemarkCore
import TidemarkSQLite

/// Finds the records of a change set that somebody else changed since its base: one query a table.
///
/// The rule itself is `judge`, a pure function; here is only the evidence.
extension ZoneTransaction {
    package func contentions(_ ord: Int, base: Int64, seen: [Int64]) throws -> [Contention] {
        if planted(PlantedBug.skipsBaseCheck) { return [] }
        let seenList = "[" + seen.map(String.init).joined(separator: ",") + "]"
        return try touchedTables(ord).flatMap { table in
            try Row.fetchAll(
                db.cachedStatement(sql: contendedSQL(table)),
                arguments: [ord, base, seenList]
            ).map { try contention(table, $0, base: base, seenList) }
        }
    }

    func touchedTables(_ ord: Int) throws -> [SyncedTable] {
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE ord = ?"),
            arguments: [ord]
        )
        return schema.tables.filter { names.contains($0.name) }
    }

    private func contendedSQL(_ table: SyncedTable) -> String {
        let cells = table.key.indices.map {
            "JOIN temp.tidemark_staged_cell AS c\($0) ON c\($0).rec = s.rec AND c\($0).col = \(SQLText.literal(table.key[$0]))"
        }
        let match = table.key.indices.map { "t.\(SQLText.name(table.key[$0])) = c\($0).value" }
        let base = planted(PlantedBug.ignoresRecordBase) ? "?2" : "min(coalesce(s.base, ?2), ?2)"
        return """
            SELECT * FROM (
                SELECT s.rec, s.key, s.operation, \(base) AS base,
                    t.\(SQLText.name(table.key[0])) IS NOT NULL AS present,
                    EXISTS (SELECT 1 FROM tidemark_log AS l WHERE l.tbl = s.tbl AND l.key = s.key
                        AND l.revision > \(base)
                        AND l.revision NOT IN (SELECT value FROM json_each(?3))) AS newer
                FROM temp.tidemark_staged AS s \(cells.joined(separator: " "))
                    LEFT JOIN main.\(SQLText.name(table.name)) AS t ON \(match.joined(separator: " AND "))
                WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name))
            ) WHERE CASE operation WHEN 'create' THEN present ELSE newer OR NOT present END
            """
    }

    private func contention(
        _ table: SyncedTable,
        _ row: Row,
        base: Int64,
        _ seen: String
    ) throws -> Contention {
        let operation = TidemarkCore.Operation(rawValue: row["operation"]) ?? .update
        let needsEvidence = operation == .update
        let key: String = row["key"]
        return Contention(
            table: table.name,
            key: key,
            operation: operation,
            differingColumns: needsEvidence
                ? try differingColumns(table, rec: row["rec"], key: key) : [],
            unseen: needsEvidence ? try unseen(table, key: key, base: row["base"], seen) : [],
            exists: row["present"]
        )
    }

    func unseen(
        _ table: SyncedTable,
        key: String,
        base: Int64,
        _ seen: String
    ) throws -> [UnseenChange] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT operation, columns FROM tidemark_log
                    WHERE tbl = ? AND key = ? AND revision > ? AND revision NOT IN (SELECT value FROM json_each(?))
                    ORDER BY revision
                    """
            ),
            arguments: [table.name, key, base, seen]
        ).map { row in
            let columns = try String.fetchSet(
                db.cachedStatement(sql: "SELECT value FROM json_each(?)"),
                arguments: [row["columns"] as String? ?? "[]"]
            )
            return UnseenChange(
                operation: TidemarkCore.Operation(rawValue: row["operation"]) ?? .update,
                columns: columns
            )
        }
    }

    /// The columns that the staged update sets to another value than the row has now.
    private func differingColumns(_ table: SyncedTable, rec: Int64, key: String) throws -> Set<
        String
    > {
        guard
            let current = try String.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT \(RowJSON.object(table.valueColumns.map(\.name))) FROM main.\(SQLText.name(table.name))
                        WHERE \(KeySQL.match(table, key: "?1"))
                        """
                ),
                arguments: [key]
            )
        else { return [] }
        return try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT c.col FROM temp.tidemark_staged_cell AS c JOIN json_each(?2) AS j ON j.key = c.col
                    WHERE c.rec = ?1 AND tidemark_key(c.value) IS NOT
                        CASE j.type WHEN 'object' THEN j.value ELSE tidemark_key(j.atom) END
                    """
            ),
            arguments: [rec, current]
        )
    }
}
