import Foundation
import GRDB
package import TidemarkCore
import TidemarkSQLite

/// Finds the records of a change set that somebody else changed since its base: a few queries a
/// table, whatever the number of records.
///
/// The rule itself is `judge`, a pure function; here is only the evidence.
extension ZoneTransaction {
    package func contentions(
        _ ord: Int,
        base: Int64,
        seen: [Int64],
        stamp: Stamp
    ) throws -> [Contention] {
        if planted(PlantedBug.skipsBaseCheck) { return [] }
        try CommitTables.clear("contended", in: db)
        let (tables, seen) = (try touchedTables(ord), Self.list(seen))
        for table in tables {
            try db.cachedStatement(sql: contendedSQL(table)).execute(arguments: [ord, base, seen])
        }
        guard try hasContended() else { return [] }
        let differing = try differingColumns(tables)
        return try assemble(seen, stamp: stamp, isCascade: false) { record, _ in
            differing[record] ?? []
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
            INSERT INTO temp.tidemark_contended (rec, tbl, key, operation, base, present)
            SELECT rec, tbl, key, operation, base, present FROM (
                SELECT s.rec, s.tbl, s.key, s.operation, \(base) AS base,
                    t.\(SQLText.name(table.key[0])) IS NOT NULL AS present,
                    EXISTS (SELECT 1 FROM tidemark_log AS l WHERE l.tbl = s.tbl AND l.key = s.key
                        AND l.revision > \(base)
                        AND (l.merged OR l.revision NOT IN (SELECT value FROM json_each(?3)))) AS newer
                FROM temp.tidemark_staged AS s \(cells.joined(separator: " "))
                    LEFT JOIN main.\(SQLText.name(table.name)) AS t ON \(match.joined(separator: " AND "))
                WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name))
            ) WHERE CASE operation WHEN 'create' THEN present ELSE newer OR NOT present END
            """
    }

    // MARK: The evidence about `temp.tidemark_contended`

    /// A record's place in a zone.
    struct RecordName: Hashable {
        let table: String
        let key: String
    }

    /// Whether any record is contended.
    func hasContended() throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_contended)")
        ) ?? false
    }

    /// The contended records with what happened to each.
    func assemble(
        _ seen: String,
        stamp: Stamp,
        isCascade: Bool,
        differing: (RecordName, SyncedTable?) -> Set<String>
    ) throws -> [Contention] {
        let unseen = try unseenChanges(seen)
        return try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT * FROM temp.tidemark_contended ORDER BY tbl, length(key), key"
            )
        ).map { row in
            let record = RecordName(table: row["tbl"], key: row["key"])
            return Contention(
                table: record.table,
                key: record.key,
                operation: TidemarkCore.Operation(rawValue: row["operation"]) ?? .update,
                differingColumns: differing(record, schema.byName[record.table]),
                unseen: unseen[record] ?? [],
                exists: row["present"],
                stamp: stamp,
                isCascade: isCascade
            )
        }
    }

    /// What others did to each contended record since its base, oldest first.
    private func unseenChanges(_ seen: String) throws -> [RecordName: [UnseenChange]] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT c.tbl, c.key, l.operation, l.columns, r.time, r.device
                    FROM temp.tidemark_contended AS c
                    JOIN tidemark_log AS l ON l.tbl = c.tbl AND l.key = c.key AND l.revision > c.base
                        AND (l.merged OR l.revision NOT IN (SELECT value FROM json_each(?)))
                    JOIN tidemark_revision AS r USING (revision) ORDER BY l.revision
                    """
            ),
            arguments: [seen]
        )
        var changes: [RecordName: [UnseenChange]] = [:]
        while let row = try rows.next() {
            let columns: String? = row["columns"]
            let change = UnseenChange(
                operation: TidemarkCore.Operation(rawValue: row["operation"]) ?? .update,
                columns: try columns.map {
                    try JSONDecoder().decode(Set<String>.self, from: Data($0.utf8))
                } ?? [],
                stamp: Stamp(time: row["time"], device: row["device"])
            )
            changes[RecordName(table: row["tbl"], key: row["key"]), default: []].append(change)
        }
        return changes
    }

    /// The columns that staged updates and creations set to other values than the rows have now.
    private func differingColumns(_ tables: [SyncedTable]) throws -> [RecordName: Set<String>] {
        var differing: [RecordName: Set<String>] = [:]
        for table in tables {
            let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
            let rows = try Row.fetchCursor(
                db.cachedStatement(
                    sql: """
                        SELECT r.key, c.col FROM (
                            SELECT w.rec, w.key, \(image) AS image
                            FROM temp.tidemark_contended AS w JOIN main.\(SQLText.name(table.name)) AS t
                                ON \(KeySQL.match(table, key: "w.key", alias: "t."))
                            WHERE w.tbl = \(SQLText.literal(table.name)) AND w.operation <> 'delete'
                        ) AS r, json_each(r.image) AS j
                        JOIN temp.tidemark_staged_cell AS c ON c.rec = r.rec AND c.col = j.key
                        WHERE tidemark_key(c.value) IS NOT (r.image -> j.fullkey)
                        """
                )
            )
            while let row = try rows.next() {
                differing[RecordName(table: table.name, key: row["key"]), default: []]
                    .insert(row["col"])
            }
        }
        return differing
    }

    /// Numbers as a JSON array.
    static func list(_ numbers: [Int64]) -> String {
        "[" + numbers.map(String.init).joined(separator: ",") + "]"
    }
}
