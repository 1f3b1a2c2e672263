import GRDB
import TidemarkCore
import TidemarkSQLite
import TidemarkStore

/// One record, one spelling of its key.
///
/// PostgreSQL finds a row by what a type makes of a text: an upper-case UUID finds the one in lower
/// case, '1.0' finds the numeric 1.00. The log is searched by the key's text. So an update or a
/// deletion gets the key of its row as that is stored, before anything is judged; else what others
/// did to it would not be found. A creation gets the key as its row will have it, where a type
/// spells a text in its own way; the author's spelling is kept as the record's old key, which the
/// author's copy tells as `__oldId__`, so that a device renames its row. Keys that can be spelled
/// in one way only, as most are and as they come from a device that has the row, cost no question.
extension PostgresTransaction {
    func spellKeys() throws {
        for table in schema.tables where table.keyKind != .integer {
            guard let stored = self.table(table.name) else { continue }
            let records = try doubtful(stored)
            guard !records.isEmpty else { continue }
            guard let found = try spellings(records, of: stored) else {
                throw try unreadableKey(among: records, of: stored)
            }
            try respell(found, table)
        }
    }

    /// A staged record whose key may not be spelled as it is stored.
    private struct Doubtful {
        let ord: Int
        let key: String
        /// Number, key and the values of the key's columns, JSON.
        let json: String
    }

    private func doubtful(_ table: PostgresTable) throws -> [Doubtful] {
        let isPlain = table.table.key.map { "WHEN \(SQLText.literal($0)) THEN \(Self.isPlain(table, $0))" }
        return try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, s.key, json_object('rec', s.rec, 'key', s.key, 'operation', s.operation, 'v', json((
                        SELECT json_group_object(c.col,
                            tidemark_postgres_text(\(PostgresText.written("c.value", "t.kind")), t.kind))
                        FROM temp.tidemark_staged_cell AS c
                            JOIN temp.tidemark_column AS k ON k.tbl = ?1 AND k.col = c.col
                            JOIN temp.tidemark_postgres_type AS t ON t.tbl = ?1 AND t.col = c.col
                        WHERE c.rec = s.rec AND k.key_position IS NOT NULL))) AS json
                    FROM temp.tidemark_staged AS s WHERE s.tbl = ?1 AND EXISTS (
                        SELECT 1 FROM temp.tidemark_staged_cell AS c
                        WHERE c.rec = s.rec AND NOT CASE c.col \(isPlain.joined(separator: " ")) ELSE true END)
                    """
            ),
            arguments: [table.table.name]
        ).map { Doubtful(ord: $0["ord"], key: $0["key"], json: $0["json"]) }
    }

    /// The condition under which a staged value is spelled as its column stores it.
    private static func isPlain(_ table: PostgresTable, _ column: String) -> String {
        switch (table.kind(column), table.type(column)) {
        case (.integer, _), (.boolean, _): "typeof(c.value) = 'integer'"
        case (.real, _): "typeof(c.value) = 'real'"
        case (.bytes, _): "typeof(c.value) = 'blob'"
        case (.text, "text"), (.text, "character varying"): "typeof(c.value) = 'text'"
        case (.text, "uuid"):
            "c.value GLOB '\([8, 4, 4, 4, 12].map { String(repeating: "[0-9a-f]", count: $0) }.joined(separator: "-"))'"
        default: "false"
        }
    }

    /// Which of the records have another key in the table; nil where one of them cannot be a key.
    private func spellings(_ records: [Doubtful], of table: PostgresTable) throws -> String? {
        // A key without a row is read all the same: it may be none.
        let parts = table.table.key.map { table.kind($0).json(table.staged($0)) }
        let written = parts.count == 1 ? parts[0] : "'[' || \(parts.joined(separator: " || ',' || ")) || ']'"
        let spelling = PostgresStatement(
            """
            SELECT json_agg(json_build_array(n.rec, coalesce(n.stored, n.written),
                n.operation = 'create')) FROM (
                SELECT s.rec, s.key, s.operation, \(written) AS written,
                    CASE WHEN t.tableoid IS NOT NULL THEN \(table.keyJSON("t")) END AS stored,
                    \(Self.isRespelled(table)) AS is_respelled
                FROM \(StagedSet.records(2)) LEFT JOIN \(table.name) AS t ON \(table.matches("t"))
                WHERE $1::text IS NOT NULL
            ) AS n
            WHERE CASE WHEN coalesce(n.stored, n.written) <> n.key
                THEN n.is_respelled OR n.stored IS NOT NULL AND n.operation <> 'create' END
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

    /// The condition that a type spells a text of a staged record's key in its own way.
    private static func isRespelled(_ table: PostgresTable) -> String {
        let parts = table.table.key.filter { table.kind($0) == .text }.map {
            "(\(table.staged($0)))::text COLLATE \"C\" <> s.v ->> \(SQLText.literal($0))"
        }
        return parts.isEmpty ? "false" : "(\(parts.joined(separator: " OR ")))"
    }

    private func respell(_ found: String, _ table: SyncedTable) throws {
        guard found != "[]" else { return }
        do {
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged SET key = f.value ->> 1,
                        old_key = iif(f.value ->> 2, tidemark_staged.key, old_key)
                    FROM json_each(?) AS f WHERE tidemark_staged.rec = f.value ->> 0
                    """
            ).execute(arguments: [found])
            // A key with a temporary id in it is put together from its parts once that is known.
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged_cell SET value = n.value
                    FROM json_each(?) AS f, json_each(f.value ->> 1) AS n, temp.tidemark_column AS k
                    WHERE json_type(f.value ->> 1) = 'array' AND n.type = 'text'
                        AND k.tbl = ? AND k.key_position = n.key
                        AND tidemark_staged_cell.rec = f.value ->> 0 AND tidemark_staged_cell.col = k.col
                    """
            ).execute(arguments: [found, table.name])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw try repeatedKey(found, table)
        }
    }

    /// The error that names a record which one change set names twice.
    private func repeatedKey(_ found: String, _ table: SyncedTable) throws -> TidemarkError {
        let row = try Row.fetchOne(
            db,
            sql: """
                WITH named AS (
                    SELECT s.ord, coalesce(f.value ->> 1, s.key) AS stored
                    FROM temp.tidemark_staged AS s LEFT JOIN json_each(?) AS f ON f.value ->> 0 = s.rec
                    WHERE s.tbl = ?
                )
                SELECT ord, stored FROM named GROUP BY ord, stored HAVING count(*) > 1 LIMIT 1
                """,
            arguments: [found, table.name]
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

    /// The error that names the first key which the columns' types do not read.
    private func unreadableKey(among records: [Doubtful], of table: PostgresTable) throws -> TidemarkError {
        var suspects = records
        while suspects.count > 1 {
            let half = Array(suspects[..<(suspects.count / 2)])
            let isReadable = try spellings(half, of: table) != nil
            suspects = isReadable ? Array(suspects[half.count...]) : half
        }
        return TidemarkError(
            .invalidKey,
            "A key cannot be read as its columns' types in PostgreSQL.",
            fix: "Give the record a key that the columns of the table take.",
            place: .init(
                changeSet: ChangeSetStaging.index(of: suspects[0].ord),
                table: table.table.name,
                key: suspects[0].key
            )
        )
    }
}
