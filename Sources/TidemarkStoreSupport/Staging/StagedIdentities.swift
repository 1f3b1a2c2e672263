import Foundation
import GRDB
package import TidemarkCore
package import TidemarkEngine
package import TidemarkSQL

/// Replaces temporary ids in staged change sets by permanent ones.
///
/// The store puts the id map into `temp.tidemark_given`, separately for each request: requests do
/// not share temporary ids.
extension StagedRequest {
    /// A temporary id that a request names without creating its record.
    package struct WantedIdentity: Hashable, Sendable {
        /// The table of the record.
        package let table: String
        /// The temporary id, negative.
        package let temporary: Int64
    }

    /// Returns the temporary ids that a request refers to or names without creating their records.
    ///
    /// It may return an id twice.
    package func wantedIdentities(_ request: SyncRequest) throws -> [WantedIdentity] {
        guard let first = request.changeSets.first?.ord, let last = request.changeSets.last?.ord else { return [] }
        let keys = """
            SELECT staged.tbl, CAST(staged.key AS INTEGER) AS temporary
            FROM temp.tidemark_staged AS staged
            JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
            WHERE staged.ord BETWEEN ?1 AND ?2
                AND synced_table.kind = 'integer'
                AND staged.operation <> 'create'
                AND staged.key LIKE '-%'
                AND CAST(staged.key AS INTEGER) < synced_table.lowest
            """
        let references = """
            SELECT DISTINCT reference.parent AS tbl, cell.value AS temporary
            FROM temp.tidemark_reference AS reference
            CROSS JOIN temp.tidemark_staged AS staged INDEXED BY tidemark_staged_by_set
                ON staged.ord BETWEEN ?1 AND ?2 AND staged.tbl = reference.tbl
            CROSS JOIN temp.tidemark_staged_cell AS cell
                ON cell.rec = staged.rec AND cell.col = reference.col
            WHERE typeof(cell.value) = 'integer'
                AND cell.value < 0
                AND cell.value < (SELECT lowest FROM temp.tidemark_table WHERE tbl = reference.parent)
            """
        let hasReferences = schema.tables.contains { !$0.references.isEmpty }
        return try (hasReferences ? [references, keys] : [keys]).flatMap {
            try Row.fetchAll(db.cachedStatement(sql: $0), arguments: [first, last])
        }.map { try WantedIdentity(table: $0.value("tbl"), temporary: $0.value("temporary")) }
            + strayIdentities(from: first, to: last)
    }

    /// Returns the integer-keyed tables in which a change set creates records under temporary ids.
    package func tablesWithTemporaryCreates(_ ord: Int) throws -> [SyncedTable] {
        try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT staged.tbl
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                    WHERE ord = ? AND operation = 'create' AND synced_table.kind = 'integer' AND key LIKE '-%'
                        AND CAST(key AS INTEGER) < synced_table.lowest
                    ORDER BY staged.tbl
                    """
            ),
            arguments: [ord]
        ).compactMap { schema.byName[$0] }
    }

    /// Counts the records that a change set creates in a table under temporary ids.
    package func creationCount(_ table: SyncedTable, _ ord: Int) throws -> Int {
        try Int.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT count(*)
                    FROM temp.tidemark_staged
                    WHERE ord = ? AND tbl = ? AND operation = 'create' AND key LIKE '-%'
                        AND CAST(key AS INTEGER) < \(table.lowestID)
                    """
            ),
            arguments: [ord, table.name]
        ) ?? 0
    }

    /// Returns the ids above `least` that the staged requests choose for new records of a table.
    ///
    /// The store assigns none of them to a record with a temporary id.
    package func chosenIDs(of table: SyncedTable, from least: Int64) throws -> Set<Int64> {
        try Int64.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT CAST(key AS INTEGER)
                    FROM temp.tidemark_staged
                    WHERE tbl = ?1 AND operation = 'create' AND key NOT LIKE '-%' AND CAST(key AS INTEGER) >= ?2
                    """
            ),
            arguments: [table.name, least]
        )
    }

    /// Assigns ids to the new records of a table, in their order.
    package func give(_ ids: [Int64], to table: SyncedTable, in sets: StagedSets) throws {
        guard let first = ids.first else { return }
        let numbers = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(rec), max(rec), count(*)
                    FROM temp.tidemark_staged
                    WHERE \(Self.isCreation(of: table, in: sets))
                    """
            ),
            arguments: [sets.number, table.name]
        )
        do {
            // New records are mostly staged consecutively, with consecutive numbers.
            let areConsecutive = zip(ids, ids.dropFirst()).allSatisfy { $1 == $0 + 1 }
            if areConsecutive, let least = try numbers?.value(0) as Int64?,
                let highest = try numbers?.value(1) as Int64?, try highest - least + 1 == numbers?.value(2)
            {
                try shift(table, sets: sets, records: least...highest, by: first - least)
            } else {
                try list(ids, table: table, sets: sets)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw Self.usedTemporaryId(table, sets.number)
        }
    }

    private static func isCreation(of table: SyncedTable, in sets: StagedSets) -> String {
        """
        \(sets.contains("ord")) AND tbl = ?2 AND operation = 'create' AND key LIKE '-%' \
        AND CAST(key AS INTEGER) < \(table.lowestID)
        """
    }

    /// Assigns each record its number plus an offset as its id, and replaces the temporary ids.
    private func shift(_ table: SyncedTable, sets: StagedSets, records: ClosedRange<Int64>, by offset: Int64) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_given
                SELECT \(Self.list("ord")), tbl, CAST(key AS INTEGER), rec + ?3
                FROM temp.tidemark_staged
                WHERE \(Self.isCreation(of: table, in: sets))
                """
        ).execute(arguments: [sets.number, table.name, offset])
        try refusingDuplicateKeys(sets.number) {
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged
                    SET old_key = key, key = CAST(rec + ?3 AS TEXT)
                    WHERE \(Self.isCreation(of: table, in: sets))
                    """
            ).execute(arguments: [sets.number, table.name, offset])
        }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell
                SET value = rec + ?1
                WHERE rec BETWEEN ?2 AND ?3 AND col = ?4
                """
        ).execute(arguments: [offset, records.lowerBound, records.upperBound, table.key[0]])
    }

    /// Assigns ids to records; ``nameIdentities(_:)`` replaces the temporary ones.
    private func list(_ ids: [Int64], table: SyncedTable, sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_given
                WITH id (place, value) AS MATERIALIZED (SELECT key, value FROM json_each(?3)),
                    creation AS MATERIALIZED (
                        SELECT ord, key, row_number() OVER (ORDER BY ord, rec) - 1 AS place
                        FROM temp.tidemark_staged
                        WHERE \(Self.isCreation(of: table, in: sets))
                    )
                SELECT \(Self.list("creation.ord")), ?2, CAST(creation.key AS INTEGER), id.value
                FROM creation
                CROSS JOIN id ON id.place = creation.place
                """
        ).execute(arguments: [sets.number, table.name, "[\(ids.map(String.init).joined(separator: ","))]"])
    }

    /// The SQL expression for the number of a change set's request.
    package static func list(_ ord: String) -> String { ChangeSetStaging.list(of: ord) }

    /// The refusal of a temporary id that stands for two records.
    package static func usedTemporaryId(_ table: SyncedTable, _ ord: Int) -> Violation {
        .refusal(
            TidemarkError(
                .invalidKey,
                "A temporary id was used for a record before.",
                fix: "Count down for each new record, and keep the counter.",
                place: .init(changeSet: ord, table: table.name)
            )
        )
    }

    /// Replaces the temporary ids of change sets by permanent ones.
    ///
    /// - Throws: ``TidemarkEngine/Violation`` when a temporary id is unknown.
    package func nameIdentities(_ sets: StagedSets) throws {
        if try unknownKey(sets) != nil {
            try rewriteKeys(sets)
            if let unknown = try unknownKey(sets) { throw try unknownTemporaryId(unknown) }
        }
        if try unknownReference(sets) != nil {
            try rewriteReferences(sets)
            if let unknown = try unknownReference(sets) { throw try unknownTemporaryId(unknown) }
        }
        try nameStrays(sets)
    }

    /// Replaces the known temporary ids of a refused change set; those of its new records stay.
    package func nameKnownIdentities(_ ord: Int) throws {
        try rewriteKeys(.one(ord))
        try rewriteReferences(.one(ord))
    }

    /// The refusal of a record that a change set names by its permanent and by a temporary id.
    private func duplicateRecord(_ ord: Int) -> Violation {
        .refusal(
            TidemarkError(
                .invalidKey,
                "A change set names a record twice: by a temporary id, and by the id that it has, or now gets.",
                fix: "Name each record once, and use only ids that the server has assigned.",
                place: .init(changeSet: ord)
            )
        )
    }

    private func rewriteKeys(_ sets: StagedSets) throws {
        try refusingDuplicateKeys(sets.number) { try rewriteOwnKeys(sets) }
    }

    private func rewriteReferences(_ sets: StagedSets) throws {
        try refusingDuplicateKeys(sets.number) { try rewriteReferencesAndKeys(sets) }
    }

    /// Runs `rename`, which changes keys, and refuses the change set if two keys become equal.
    private func refusingDuplicateKeys(_ ord: Int, _ rename: () throws -> Void) throws {
        do { try rename() } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw duplicateRecord(ord)
        }
    }

    private func rewriteOwnKeys(_ sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged
                SET old_key = key, key = CAST(id_map.permanent AS TEXT)
                FROM temp.tidemark_given AS id_map
                WHERE \(sets.contains("ord")) AND key LIKE '-%'
                    AND id_map.list = \(Self.list("tidemark_staged.ord"))
                    AND id_map.tbl = tidemark_staged.tbl
                    AND id_map.temporary = CAST(tidemark_staged.key AS INTEGER)
                """
        ).execute(arguments: [sets.number])
        guard db.changesCount > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell
                SET value = CAST(staged.key AS INTEGER)
                FROM temp.tidemark_staged AS staged
                JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                JOIN temp.tidemark_column AS key_column
                    ON key_column.tbl = staged.tbl AND key_column.key_position = 0
                WHERE \(sets.contains("staged.ord"))
                    AND synced_table.kind = 'integer' AND staged.old_key IS NOT NULL
                    AND tidemark_staged_cell.rec = staged.rec AND tidemark_staged_cell.col = key_column.col
                """
        ).execute(arguments: [sets.number])
    }

    private func rewriteReferencesAndKeys(_ sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell
                SET value = id_map.permanent
                FROM temp.tidemark_staged AS staged, temp.tidemark_reference AS reference,
                    temp.tidemark_given AS id_map
                WHERE \(sets.contains("staged.ord")) AND staged.rec = tidemark_staged_cell.rec
                    AND reference.tbl = staged.tbl AND reference.col = tidemark_staged_cell.col
                    AND typeof(value) = 'integer' AND value < 0
                    AND id_map.list = \(Self.list("staged.ord"))
                    AND id_map.tbl = reference.parent AND id_map.temporary = value
                """
        ).execute(arguments: [sets.number])
        guard db.changesCount > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged
                SET old_key = coalesce(old_key, key), key = new_key.fresh
                FROM (
                    SELECT rec, CASE count(*) WHEN 1 THEN tidemark_key(value)
                        ELSE '[' || group_concat(tidemark_key(value)) || ']' END AS fresh
                    FROM (
                        SELECT staged.rec, cell.value
                        FROM temp.tidemark_staged AS staged
                        JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                        JOIN temp.tidemark_column AS key_column
                            ON key_column.tbl = staged.tbl AND key_column.key_position >= 0
                        JOIN temp.tidemark_staged_cell AS cell
                            ON cell.rec = staged.rec AND cell.col = key_column.col
                        WHERE \(sets.contains("staged.ord")) AND synced_table.kind = 'general'
                        ORDER BY staged.rec, key_column.key_position
                    ) GROUP BY rec
                ) AS new_key
                WHERE new_key.rec = tidemark_staged.rec AND new_key.fresh <> tidemark_staged.key
                """
        ).execute(arguments: [sets.number])
    }

    /// Finds a record whose key is still a temporary id.
    private func unknownKey(_ sets: StagedSets) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT staged.ord, staged.tbl, staged.key
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                    WHERE \(sets.contains("staged.ord"))
                        AND synced_table.kind = 'integer'
                        AND key LIKE '-%'
                        AND CAST(key AS INTEGER) < synced_table.lowest
                    """
            ),
            arguments: [sets.number]
        )
    }

    /// Finds a reference to a temporary id.
    private func unknownReference(_ sets: StagedSets) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT staged.ord, staged.tbl, coalesce(staged.old_key, staged.key) AS key, cell.col
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell USING (rec)
                    JOIN temp.tidemark_reference AS reference
                        ON reference.tbl = staged.tbl AND reference.col = cell.col
                    WHERE \(sets.contains("staged.ord"))
                        AND typeof(cell.value) = 'integer'
                        AND cell.value < 0
                        AND cell.value < (SELECT lowest FROM temp.tidemark_table WHERE tbl = reference.parent)
                    """
            ),
            arguments: [sets.number]
        )
    }

    private func unknownTemporaryId(_ row: Row) throws -> Violation {
        .refusal(
            TidemarkError(
                .unknownTemporaryId,
                "A negative id stands for no record that this device created.",
                fix: "Create the record in this change set or in an earlier one of the same device.",
                place: .init(
                    changeSet: try row.value("ord"),
                    table: try row.value("tbl"),
                    key: try row.value("key"),
                    column: try row.hasColumn("col") ? row.value("col") : nil
                )
            )
        )
    }
}
