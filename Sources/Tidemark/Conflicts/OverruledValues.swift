import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Keeps values that lost by the policy of their column: in the conflicts, where they ask nobody
/// for a decision, but can be restored.
///
/// The answer tells about them twice: a change set of the device's own names what it set in vain; a
/// note names what somebody else's change set replaced.
struct OverruledValues {
    let db: Database
    let now: String

    /// Keeps what an accepted change set, staged as `ord`, set in vain.
    func keep(fromSet ord: Int, id: String) throws -> [SyncEvent] {
        let records = try String.fetchOne(
            db.cachedStatement(
                sql:
                    "SELECT value FROM temp.tidemark_staged_member WHERE ord = ? AND name = 'overruled' AND type = 'array'"
            ),
            arguments: [ord]
        )
        guard let records, !planted(PlantedBug.dropsValuesInVain) else { return [] }
        return try keep(records, id: id)
    }

    /// Keeps the values of notes that were not taken in yet, and the number of the last one.
    func keep(notes: String, after taken: Int64, newID: () -> UUID) throws -> [SyncEvent] {
        guard notes != "[]" else { return [] }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT value ->> '$.number' AS number, value -> '$.records' AS records
                FROM json_each(?) WHERE type = 'object'
                    AND typeof(value ->> '$.number') = 'integer' AND value ->> '$.number' > ?
                ORDER BY number
                """,
            arguments: [notes, taken]
        )
        var events: [SyncEvent] = []
        for row in rows {
            events += try keep(try row.value("records") as String? ?? "null", id: newID().uuidString.lowercased())
            try db.execute(
                sql: "UPDATE tidemark_device SET overruled = ?",
                arguments: try [row.value("number") as Int64]
            )
        }
        return events
    }

    private func keep(_ records: String, id: String) throws -> [SyncEvent] {
        try refuseMisshapen(records)
        let reasons = try String.fetchOne(
            db,
            sql: """
                SELECT json_group_array(json_object('table', r.value ->> '$.table',
                    'key', json(r.value -> '$.key'), 'columns', json((
                        SELECT json_group_array(j.key) FROM json_each(r.value, '$.lost') AS j)),
                    'rule', ?2, 'message', ?3))
                FROM json_each(?1) AS r WHERE r.type = 'object'
                """,
            arguments: [records, ConflictRule.overruled.rawValue, Self.message]
        )
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict (id, parked, reasons, kind) VALUES (?, ?, ?, ?)
                """,
            arguments: [id, now, reasons ?? "[]", Conflict.Kind.overruled.rawValue]
        )
        // A record is named twice when one of its values was set in vain and another one replaced a
        // program's.
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, tbl, key, 'update', max(whole),
                    '{' || group_concat(nullif(substr(lost, 2, length(lost) - 2), '')) || '}',
                    '{' || group_concat(nullif(substr(kept, 2, length(kept) - 2), '')) || '}'
                FROM (
                    SELECT value ->> '$.table' AS tbl, value -> '$.key' AS key,
                        value -> '$.row' AS whole, value -> '$.lost' AS lost,
                        iif(json_type(value, '$.kept') = 'object', value -> '$.kept', NULL) AS kept
                    FROM json_each(?2) WHERE json_type(value, '$.table') = 'text'
                        AND json_type(value, '$.key') <> 'null' AND json_type(value, '$.lost') = 'object'
                )
                GROUP BY tbl, key
                """,
            arguments: [id, records]
        )
        return [.overruled(id: id)]
    }

    /// What is kept is read again whenever somebody looks at the conflicts.
    private func refuseMisshapen(_ records: String) throws {
        let isMisshapen = try Bool.fetchOne(
            db,
            sql: """
                SELECT json_type(?1) <> 'array' OR EXISTS (
                    SELECT 1 FROM json_each(?1) AS r WHERE CASE r.type WHEN 'object' THEN
                        json_type(r.value, '$.table') IS NOT 'text'
                        OR coalesce(json_type(r.value, '$.key'), 'null') = 'null'
                        OR json_type(r.value, '$.lost') IS NOT 'object'
                        OR coalesce(json_type(r.value, '$.kept'), 'null') NOT IN ('object', 'null')
                        OR coalesce(json_type(r.value, '$.row'), 'null') NOT IN ('object', 'null')
                        ELSE 1 END)
                """,
            arguments: [records]
        )
        guard isMisshapen != true else {
            throw AnswerCheck.inapplicable("a record of overruled values has another form than the protocol's.")
        }
    }

    private static let message = "Another value stands in these columns, by their policy; this one is kept here."
}
