import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Permanent ids: given in the commit that creates the records, and put wherever a temporary id
/// stood.
extension ZoneTransaction {
    package func recallIdentities(device: String?) throws {
        guard let device else { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_assigned
                SELECT m.tbl, m.temporary, m.permanent FROM (
                    SELECT DISTINCT r.parent AS tbl, c.value AS temporary
                    FROM temp.tidemark_staged_cell AS c JOIN temp.tidemark_staged AS s USING (rec)
                        JOIN temp.tidemark_reference AS r ON r.tbl = s.tbl AND r.col = c.col
                    WHERE typeof(c.value) = 'integer' AND c.value < 0
                    UNION
                    SELECT s.tbl, CAST(s.key AS INTEGER)
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    WHERE t.kind = 'integer' AND s.operation <> 'create' AND s.key LIKE '-%'
                ) AS wanted JOIN tidemark_idmap AS m
                    ON m.device = ? AND m.tbl = wanted.tbl AND m.temporary = wanted.temporary
                """
        ).execute(arguments: [device])
    }

    package func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = try Int64.fetchOne(
            db.cachedStatement(
                sql: "UPDATE tidemark_zone SET revision = revision + 1 RETURNING revision"
            )
        )
        for table in try tablesWithTemporaryCreates(ord) { try assign(table, ord, device) }
        try rewriteKeys(ord)
        if let unknown = try unknownKey(ord) { throw unknownTemporaryId(ord, unknown) }
        try rewriteReferences(ord)
        if let unknown = try unknownReference(ord) { throw unknownTemporaryId(ord, unknown) }
        return revision ?? 0
    }

    /// Puts permanent ids wherever a change set that was refused names temporary ones that are
    /// known; those of its own creations stay.
    func nameKnownIdentities(_ ord: Int) throws {
        try rewriteKeys(ord)
        try rewriteReferences(ord)
    }

    private func tablesWithTemporaryCreates(_ ord: Int) throws -> [SyncedTable] {
        try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT s.tbl FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    WHERE ord = ? AND operation = 'create' AND t.kind = 'integer' ORDER BY s.tbl
                    """
            ),
            arguments: [ord]
        ).compactMap { schema.byName[$0] }
    }

    /// Gives ids to one table's new records.
    ///
    /// An id is never given twice, also when its record is long gone.
    private func assign(_ table: SyncedTable, _ ord: Int, _ device: String?) throws {
        let name = SQLText.name(table.name)
        let highest = "(SELECT max(\(SQLText.name(table.key[0]))) FROM main.\(name))"
        let given = planted(PlantedBug.reusesIds) ? "NULL" : "next"
        let counter =
            table.isAutoincrement ? "(SELECT seq FROM sqlite_sequence WHERE name = ?1)" : "0"
        let first = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT max(coalesce((SELECT \(given) FROM tidemark_identity WHERE tbl = ?1), 1),
                        coalesce(\(highest), 0) + 1, coalesce(\(counter), 0) + 1)
                    """
            ),
            arguments: [table.name]
        )
        do {
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_assigned
                    SELECT tbl, CAST(key AS INTEGER), ?3 + row_number() OVER (ORDER BY rec) - 1
                    FROM temp.tidemark_staged WHERE ord = ?2 AND tbl = ?1 AND operation = 'create'
                    """
            ).execute(arguments: [table.name, ord, first])
            let count = db.changesCount
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_identity VALUES (?, ?)
                    ON CONFLICT (tbl) DO UPDATE SET next = excluded.next
                    """
            ).execute(arguments: [table.name, (first ?? 1) + Int64(count)])
            guard let device else { return }
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_idmap
                    SELECT ?3, tbl, temporary, permanent FROM temp.tidemark_assigned
                    WHERE tbl = ?1 AND permanent >= ?2
                    """
            ).execute(arguments: [table.name, first, device])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw Violation.refusal(
                TidemarkError(
                    .invalidKey,
                    "A temporary id was used for a record before.",
                    fix: "Count down for each new record, and keep the counter.",
                    place: .init(changeSet: ord, table: table.name)
                )
            )
        }
    }

    private func rewriteKeys(_ ord: Int) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET old_key = key, key = CAST(m.permanent AS TEXT)
                FROM temp.tidemark_assigned AS m
                WHERE ord = ? AND key LIKE '-%' AND m.tbl = tidemark_staged.tbl
                    AND m.temporary = CAST(tidemark_staged.key AS INTEGER)
                """
        ).execute(arguments: [ord])
        let renamed = db.changesCount
        guard renamed > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell SET value = CAST(s.key AS INTEGER)
                FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    JOIN temp.tidemark_column AS k ON k.tbl = s.tbl AND k.key_position = 0
                WHERE s.ord = ? AND t.kind = 'integer' AND s.old_key IS NOT NULL
                    AND tidemark_staged_cell.rec = s.rec AND tidemark_staged_cell.col = k.col
                """
        ).execute(arguments: [ord])
    }

    private func rewriteReferences(_ ord: Int) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell SET value = m.permanent
                FROM temp.tidemark_staged AS s, temp.tidemark_reference AS r, temp.tidemark_assigned AS m
                WHERE s.ord = ? AND s.rec = tidemark_staged_cell.rec AND r.tbl = s.tbl
                    AND r.col = tidemark_staged_cell.col AND typeof(value) = 'integer' AND value < 0
                    AND m.tbl = r.parent AND m.temporary = value
                """
        ).execute(arguments: [ord])
        let rewritten = db.changesCount
        guard rewritten > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET old_key = key, key = f.fresh
                FROM (
                    SELECT rec, CASE count(*) WHEN 1 THEN tidemark_key(value)
                        ELSE '[' || group_concat(tidemark_key(value)) || ']' END AS fresh
                    FROM (
                        SELECT s.rec, c.value FROM temp.tidemark_staged AS s
                            JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                            JOIN temp.tidemark_column AS k ON k.tbl = s.tbl AND k.key_position >= 0
                            JOIN temp.tidemark_staged_cell AS c ON c.rec = s.rec AND c.col = k.col
                        WHERE s.ord = ? AND t.kind = 'general' ORDER BY s.rec, k.key_position
                    ) GROUP BY rec
                ) AS f
                WHERE f.rec = tidemark_staged.rec AND f.fresh <> tidemark_staged.key
                """
        ).execute(arguments: [ord])
    }

    private func unknownKey(_ ord: Int) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.tbl, s.key FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    WHERE ord = ? AND t.kind = 'integer' AND key LIKE '-%'
                    """
            ),
            arguments: [ord]
        )
    }

    private func unknownReference(_ ord: Int) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.tbl, coalesce(s.old_key, s.key) AS key, c.col
                    FROM temp.tidemark_staged AS s
                        JOIN temp.tidemark_staged_cell AS c USING (rec)
                        JOIN temp.tidemark_reference AS r ON r.tbl = s.tbl AND r.col = c.col
                    WHERE s.ord = ? AND typeof(c.value) = 'integer' AND c.value < 0
                    """
            ),
            arguments: [ord]
        )
    }

    private func unknownTemporaryId(_ ord: Int, _ row: Row) -> Violation {
        .refusal(
            TidemarkError(
                .unknownTemporaryId,
                "A negative id stands for no record that this device created.",
                fix:
                    "Create the record in this change set or in an earlier one of the same device.",
                place: .init(
                    changeSet: ord,
                    table: row["tbl"],
                    key: row["key"],
                    column: row.hasColumn("col") ? row["col"] : nil
                )
            )
        )
    }
}
