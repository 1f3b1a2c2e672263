import Foundation
import GRDB
package import TidemarkCore
package import TidemarkServer
package import TidemarkSQLite

/// Permanent ids, put wherever a temporary id stands in a staged change set.
///
/// The store knows which ids there are, and gives them into `temp.tidemark_given`, for each request
/// its own: another one's temporary ids are nobody's there.
extension StagedRequest {
    /// A temporary id that a request names without creating its record.
    package struct WantedIdentity: Hashable, Sendable {
        /// The table of the record.
        package let table: String
        /// The temporary id, negative.
        package let temporary: Int64
    }

    /// The temporary ids that a request refers to, or names without creating their records; one may
    /// be there twice.
    package func wantedIdentities(_ request: SyncRequest) throws -> [WantedIdentity] {
        guard let first = request.changeSets.first?.ord, let last = request.changeSets.last?.ord else { return [] }
        let keys = """
            SELECT s.tbl, CAST(s.key AS INTEGER) AS temporary
            FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
            WHERE s.ord BETWEEN ?1 AND ?2 AND t.kind = 'integer' AND s.operation <> 'create'
                AND s.key LIKE '-%'
            """
        let references = """
            SELECT DISTINCT r.parent AS tbl, c.value AS temporary
            FROM temp.tidemark_reference AS r
                CROSS JOIN temp.tidemark_staged AS s INDEXED BY tidemark_staged_by_set
                    ON s.ord BETWEEN ?1 AND ?2 AND s.tbl = r.tbl
                CROSS JOIN temp.tidemark_staged_cell AS c ON c.rec = s.rec AND c.col = r.col
            WHERE typeof(c.value) = 'integer' AND c.value < 0
            """
        let hasReferences = schema.tables.contains { !$0.references.isEmpty }
        return try (hasReferences ? [references, keys] : [keys]).flatMap {
            try Row.fetchAll(db.cachedStatement(sql: $0), arguments: [first, last])
        }.map { try WantedIdentity(table: $0.value("tbl"), temporary: $0.value("temporary")) }
    }

    /// The integer-keyed tables in which a change set creates records.
    package func tablesWithTemporaryCreates(_ ord: Int) throws -> [SyncedTable] {
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

    /// How many records a change set creates in a table.
    package func creationCount(_ table: SyncedTable, _ ord: Int) throws -> Int {
        try Int.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT count(*) FROM temp.tidemark_staged
                    WHERE ord = ? AND tbl = ? AND operation = 'create'
                    """
            ),
            arguments: [ord, table.name]
        ) ?? 0
    }

    /// Gives the new records of a table ids, one each, in their order.
    package func give(_ ids: [Int64], to table: SyncedTable, in sets: StagedSets) throws {
        guard let first = ids.first else { return }
        let numbers = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(rec), max(rec), count(*) FROM temp.tidemark_staged
                    WHERE \(Self.created(in: sets))
                    """
            ),
            arguments: [sets.number, table.name]
        )
        do {
            // Mostly they were staged one behind the other, and then so are their numbers.
            let areConsecutive = zip(ids, ids.dropFirst()).allSatisfy { $1 == $0 + 1 }
            if areConsecutive, let least = try numbers?.value(0) as Int64?,
                let highest = try numbers?.value(1) as Int64?, try highest - least + 1 == numbers?.value(2)
            {
                try shift(table, sets, least...highest, by: first - least)
            } else {
                try list(ids, table, sets)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw Self.usedTemporaryId(table, sets.number)
        }
    }

    private static func created(in sets: StagedSets) -> String {
        "\(sets.contains("ord")) AND tbl = ?2 AND operation = 'create'"
    }

    /// Gives the records with these numbers ids, and puts them in their place at once.
    private func shift(_ table: SyncedTable, _ sets: StagedSets, _ records: ClosedRange<Int64>, by offset: Int64) throws
    {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_given
                SELECT \(Self.list("ord")), tbl, CAST(key AS INTEGER), rec + ?3
                FROM temp.tidemark_staged WHERE \(Self.created(in: sets))
                """
        ).execute(arguments: [sets.number, table.name, offset])
        try namingTwice(sets.number) {
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged SET old_key = key, key = CAST(rec + ?3 AS TEXT)
                    WHERE \(Self.created(in: sets))
                    """
            ).execute(arguments: [sets.number, table.name, offset])
        }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell SET value = rec + ?1
                WHERE rec BETWEEN ?2 AND ?3 AND col = ?4
                """
        ).execute(arguments: [offset, records.lowerBound, records.upperBound, table.key[0]])
    }

    /// Gives records ids, which ``nameIdentities(_:)`` puts in their place.
    private func list(_ ids: [Int64], _ table: SyncedTable, _ sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_given
                WITH id (place, value) AS MATERIALIZED (SELECT key, value FROM json_each(?3)),
                    created AS MATERIALIZED (
                        SELECT ord, key, row_number() OVER (ORDER BY ord, rec) - 1 AS place
                        FROM temp.tidemark_staged WHERE \(Self.created(in: sets))
                    )
                SELECT \(Self.list("c.ord")), ?2, CAST(c.key AS INTEGER), id.value
                FROM created AS c CROSS JOIN id ON id.place = c.place
                """
        ).execute(arguments: [sets.number, table.name, "[\(ids.map(String.init).joined(separator: ","))]"])
    }

    /// The request of a change set, by its number in SQL.
    package static func list(_ ord: String) -> String { ChangeSetStaging.list(of: ord) }

    /// A temporary id that stands for two records.
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

    /// Puts permanent ids wherever change sets name temporary ones.
    ///
    /// - Throws: ``TidemarkServer/Violation`` when one stands for nothing.
    package func nameIdentities(_ sets: StagedSets) throws {
        if try unknownKey(sets) != nil {
            try rewriteKeys(sets)
            if let unknown = try unknownKey(sets) { throw try unknownTemporaryId(unknown) }
        }
        if try unknownReference(sets) != nil {
            try rewriteReferences(sets)
            if let unknown = try unknownReference(sets) { throw try unknownTemporaryId(unknown) }
        }
    }

    /// Puts permanent ids wherever a change set that was refused names temporary ones that are
    /// known; those of its own creations stay.
    package func nameKnownIdentities(_ ord: Int) throws {
        try rewriteKeys(.one(ord))
        try rewriteReferences(.one(ord))
    }

    /// A record that a change set names by its id and by a temporary one.
    private func namedTwice(_ ord: Int) -> Violation {
        .refusal(
            TidemarkError(
                .invalidKey,
                "A change set names a record twice: by a temporary id, and by the id that it has, or now gets.",
                fix: "Name each record once; an id that the server has not given is nobody's.",
                place: .init(changeSet: ord)
            )
        )
    }

    private func rewriteKeys(_ sets: StagedSets) throws { try namingTwice(sets.number) { try rewriteOwnKeys(sets) } }

    private func rewriteReferences(_ sets: StagedSets) throws {
        try namingTwice(sets.number) { try rewriteReferencesAndKeys(sets) }
    }

    /// Gives records other keys, of which each may be there once.
    private func namingTwice(_ ord: Int, _ rename: () throws -> Void) throws {
        do { try rename() } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw namedTwice(ord)
        }
    }

    private func rewriteOwnKeys(_ sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET old_key = key, key = CAST(m.permanent AS TEXT)
                FROM temp.tidemark_given AS m
                WHERE \(sets.contains("ord")) AND key LIKE '-%'
                    AND m.list = \(Self.list("tidemark_staged.ord")) AND m.tbl = tidemark_staged.tbl
                    AND m.temporary = CAST(tidemark_staged.key AS INTEGER)
                """
        ).execute(arguments: [sets.number])
        let renamed = db.changesCount
        guard renamed > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell SET value = CAST(s.key AS INTEGER)
                FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    JOIN temp.tidemark_column AS k ON k.tbl = s.tbl AND k.key_position = 0
                WHERE \(sets.contains("s.ord")) AND t.kind = 'integer' AND s.old_key IS NOT NULL
                    AND tidemark_staged_cell.rec = s.rec AND tidemark_staged_cell.col = k.col
                """
        ).execute(arguments: [sets.number])
    }

    private func rewriteReferencesAndKeys(_ sets: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged_cell SET value = m.permanent
                FROM temp.tidemark_staged AS s, temp.tidemark_reference AS r, temp.tidemark_given AS m
                WHERE \(sets.contains("s.ord")) AND s.rec = tidemark_staged_cell.rec AND r.tbl = s.tbl
                    AND r.col = tidemark_staged_cell.col AND typeof(value) = 'integer' AND value < 0
                    AND m.list = \(Self.list("s.ord")) AND m.tbl = r.parent AND m.temporary = value
                """
        ).execute(arguments: [sets.number])
        let rewritten = db.changesCount
        guard rewritten > 0 else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET old_key = coalesce(old_key, key), key = f.fresh
                FROM (
                    SELECT rec, CASE count(*) WHEN 1 THEN tidemark_key(value)
                        ELSE '[' || group_concat(tidemark_key(value)) || ']' END AS fresh
                    FROM (
                        SELECT s.rec, c.value FROM temp.tidemark_staged AS s
                            JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                            JOIN temp.tidemark_column AS k ON k.tbl = s.tbl AND k.key_position >= 0
                            JOIN temp.tidemark_staged_cell AS c ON c.rec = s.rec AND c.col = k.col
                        WHERE \(sets.contains("s.ord")) AND t.kind = 'general' ORDER BY s.rec, k.key_position
                    ) GROUP BY rec
                ) AS f
                WHERE f.rec = tidemark_staged.rec AND f.fresh <> tidemark_staged.key
                """
        ).execute(arguments: [sets.number])
    }

    /// A record that still has a temporary id for a key.
    private func unknownKey(_ sets: StagedSets) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, s.tbl, s.key
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    WHERE \(sets.contains("s.ord")) AND t.kind = 'integer' AND key LIKE '-%'
                    """
            ),
            arguments: [sets.number]
        )
    }

    private func unknownReference(_ sets: StagedSets) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, s.tbl, coalesce(s.old_key, s.key) AS key, c.col
                    FROM temp.tidemark_staged AS s
                        JOIN temp.tidemark_staged_cell AS c USING (rec)
                        JOIN temp.tidemark_reference AS r ON r.tbl = s.tbl AND r.col = c.col
                    WHERE \(sets.contains("s.ord")) AND typeof(c.value) = 'integer' AND c.value < 0
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
