import GRDB
import TidemarkCore
import TidemarkSQL
import TidemarkStoreSupport

/// Gives each record's key the spelling that PostgreSQL stores.
///
/// PostgreSQL compares keys by their type: an upper-case UUID finds the lower-case one, '1.0' finds
/// the numeric 1.00. The log compares keys as text, so another spelling would hide contentions.
///
/// - An update or deletion gets the stored key of its row, before the engine judges it.
/// - A creation gets the key as its type will store it. The author's spelling becomes the old key,
///   which the author's copy sends as `__oldId__`, so that the device renames its row.
///
/// A key with only one possible spelling, such as most keys from devices, costs no query.
extension PostgresTransaction {
    func spellKeys() throws {
        for table in schema.tables where table.keyKind != .integer {
            guard let stored = self.table(table.name) else { continue }
            let records = try ambiguousRecords(of: stored)
            guard !records.isEmpty else { continue }
            guard let spellings = try spellings(records, of: stored) else {
                throw try unreadableKey(among: records, of: stored)
            }
            try respell(spellings, table)
        }
    }

    /// A staged record whose key may have another spelling than the stored one.
    private struct AmbiguousRecord {
        let ord: Int
        let key: String
        /// Number, key, operation and the values of the key's columns, JSON.
        let json: String
    }

    private func ambiguousRecords(of table: PostgresTable) throws -> [AmbiguousRecord] {
        let isUnambiguous = table.table.key.map {
            "WHEN \(SQLText.literal($0)) THEN \(Self.isUnambiguous(table, $0))"
        }
        return try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT staged.ord, staged.key,
                        json_object('rec', staged.rec, 'key', staged.key, 'operation', staged.operation, 'v', json((
                            SELECT json_group_object(cell.col,
                                tidemark_postgres_text(\(PostgresText.storedValue("cell.value", "type.kind")), type.kind))
                            FROM temp.tidemark_staged_cell AS cell
                            JOIN temp.tidemark_column AS part ON part.tbl = ?1 AND part.col = cell.col
                            JOIN temp.tidemark_postgres_type AS type ON type.tbl = ?1 AND type.col = cell.col
                            WHERE cell.rec = staged.rec AND part.key_position IS NOT NULL))) AS json
                    FROM temp.tidemark_staged AS staged
                    WHERE staged.tbl = ?1 AND EXISTS (
                        SELECT 1
                        FROM temp.tidemark_staged_cell AS cell
                        WHERE cell.rec = staged.rec
                            AND NOT CASE cell.col \(isUnambiguous.joined(separator: " ")) ELSE true END)
                    """
            ),
            arguments: [table.table.name]
        ).map { AmbiguousRecord(ord: $0["ord"], key: $0["key"], json: $0["json"]) }
    }

    /// The condition that a staged value has the spelling that its column stores.
    private static func isUnambiguous(_ table: PostgresTable, _ column: String) -> String {
        switch (table.kind(column), table.type(column)) {
        case (.integer, _), (.boolean, _): "typeof(cell.value) = 'integer'"
        case (.real, _): "typeof(cell.value) = 'real'"
        case (.bytes, _): "typeof(cell.value) = 'blob'"
        case (.text, "text"), (.text, "character varying"): "typeof(cell.value) = 'text'"
        case (.text, "uuid"):
            "cell.value GLOB '\([8, 4, 4, 4, 12].map { String(repeating: "[0-9a-f]", count: $0) }.joined(separator: "-"))'"
        default: "false"
        }
    }

    /// Finds records with another key in the table; nil if a key is invalid for its column's type.
    private func spellings(_ records: [AmbiguousRecord], of table: PostgresTable) throws -> String? {
        // A key without a row is parsed too, because it may be invalid.
        let parts = table.table.key.map { table.kind($0).json(table.staged($0)) }
        let canonicalKey = parts.count == 1 ? parts[0] : "'[' || \(parts.joined(separator: " || ',' || ")) || ']'"
        let spelling = PostgresStatement(
            """
            SELECT json_agg(json_build_array(
                spelled.rec, coalesce(spelled.stored, spelled.canonical), spelled.operation = 'create'))
            FROM (
                SELECT staged.rec, staged.key, staged.operation, \(canonicalKey) AS canonical,
                    CASE WHEN app_row.tableoid IS NOT NULL THEN \(table.keyJSON("app_row")) END AS stored,
                    \(Self.isRespelled(table)) AS is_respelled
                FROM \(StagedSet.records(2))
                LEFT JOIN \(table.name) AS app_row ON \(table.matches("app_row"))
                WHERE $1::text IS NOT NULL
            ) AS spelled
            WHERE CASE WHEN coalesce(spelled.stored, spelled.canonical) <> spelled.key
                THEN spelled.is_respelled OR spelled.stored IS NOT NULL AND spelled.operation <> 'create' END
            """,
            [zoneName, "[\(records.map(\.json).joined(separator: ","))]"]
        )
        do {
            let results = try pg.run([
                PostgresStatement("SAVEPOINT spelling"), spelling, PostgresStatement("RELEASE spelling"),
            ])
            return results[1][0][0] ?? "[]"
        } catch let failure as PostgresFailure where pg.isUsable && failure.isAboutValues {
            try pg.execute("ROLLBACK TO spelling; RELEASE spelling")
            return nil
        }
    }

    /// The condition that a type changes the spelling of a staged record's key.
    private static func isRespelled(_ table: PostgresTable) -> String {
        let parts = table.table.key.filter { table.kind($0) == .text }.map {
            "(\(table.staged($0)))::text COLLATE \"C\" <> staged.v ->> \(SQLText.literal($0))"
        }
        return parts.isEmpty ? "false" : "(\(parts.joined(separator: " OR ")))"
    }

    private func respell(_ spellings: String, _ table: SyncedTable) throws {
        guard spellings != "[]" else { return }
        try mergeReplacements(spellings, table)
        do {
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged
                    SET key = spelling.value ->> 1,
                        old_key = iif(spelling.value ->> 2, tidemark_staged.key, old_key)
                    FROM json_each(?) AS spelling
                    WHERE tidemark_staged.rec = spelling.value ->> 0
                    """
            ).execute(arguments: [spellings])
            // A key with a temporary id is composed from these cells after the id is assigned.
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged_cell
                    SET value = part.value
                    FROM json_each(?) AS spelling, json_each(spelling.value ->> 1) AS part,
                        temp.tidemark_column AS named
                    WHERE json_type(spelling.value ->> 1) = 'array' AND part.type = 'text'
                        AND named.tbl = ? AND named.key_position = part.key
                        AND tidemark_staged_cell.rec = spelling.value ->> 0
                        AND tidemark_staged_cell.col = named.col
                    """
            ).execute(arguments: [spellings, table.name])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw try repeatedKey(spellings, table)
        }
    }

    /// Merges the deletion of a record and its creation under another spelling to an update.
    ///
    /// A program that saves a record under its own spelling, by `INSERT OR REPLACE` or an update of the
    /// key, sends both.
    private func mergeReplacements(_ spellings: String, _ table: SyncedTable) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_replacement").execute()
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_replacement (created, deleted)
                SELECT created.rec, deleted.rec
                FROM json_each(?1) AS spelling
                JOIN temp.tidemark_staged AS created
                    ON created.rec = spelling.value ->> 0 AND created.operation = 'create'
                JOIN temp.tidemark_staged AS deleted
                    ON deleted.tbl = ?2 AND deleted.key = spelling.value ->> 1 AND deleted.ord = created.ord
                        AND deleted.operation = 'delete'
                """
        ).execute(arguments: [spellings, table.name])
        guard db.changesCount > 0 else { return }
        try db.execute(
            sql: """
                UPDATE temp.tidemark_staged
                SET operation = 'update', base = deleted.base
                FROM temp.tidemark_replacement AS replacement
                JOIN temp.tidemark_staged AS deleted ON deleted.rec = replacement.deleted
                WHERE tidemark_staged.rec = replacement.created;
                DELETE FROM temp.tidemark_staged_cell
                WHERE rec IN (SELECT deleted FROM temp.tidemark_replacement);
                DELETE FROM temp.tidemark_staged
                WHERE rec IN (SELECT deleted FROM temp.tidemark_replacement);
                """
        )
    }

    /// Returns the error for a record that appears twice in one change set.
    private func repeatedKey(_ spellings: String, _ table: SyncedTable) throws -> TidemarkError {
        let row = try Row.fetchOne(
            db,
            sql: """
                WITH named AS (
                    SELECT staged.ord, coalesce(spelling.value ->> 1, staged.key) AS stored
                    FROM temp.tidemark_staged AS staged
                    LEFT JOIN json_each(?) AS spelling ON spelling.value ->> 0 = staged.rec
                    WHERE staged.tbl = ?
                )
                SELECT ord, stored
                FROM named
                GROUP BY ord, stored
                HAVING count(*) > 1
                LIMIT 1
                """,
            arguments: [spellings, table.name]
        )
        return TidemarkError(
            .malformedRequest,
            "A record appears twice in one change set, its key spelled in two ways.",
            fix: "List each key once, in one of create, update and delete.",
            place: .init(
                changeSet: row.map { ChangeSetStaging.index(of: $0["ord"]) },
                table: table.name,
                key: row?["stored"]
            )
        )
    }

    /// Returns the error for the first key that is invalid for its columns' types.
    private func unreadableKey(among records: [AmbiguousRecord], of table: PostgresTable) throws -> TidemarkError {
        var suspects = records
        while suspects.count > 1 {
            let half = Array(suspects[..<(suspects.count / 2)])
            let isReadable = try spellings(half, of: table) != nil
            suspects = isReadable ? Array(suspects[half.count...]) : half
        }
        return TidemarkError(
            .invalidKey,
            "A key cannot be read as its columns' types in PostgreSQL.",
            fix: "Give the record a key that is valid for the columns' types.",
            place: .init(
                changeSet: ChangeSetStaging.index(of: suspects[0].ord),
                table: table.table.name,
                key: suspects[0].key
            )
        )
    }
}
