import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Parks values that a policy of their column overruled.
///
/// They are among the conflicts and need no decision, but the user can restore them. The answer
/// reports them in two places. The device's own change set lists the values that did not prevail. A
/// note lists values that another change set replaced later.
struct OverruledValues {
    let db: Database
    let now: String

    func park(of own: Answered.Own) throws -> [DeviceEvent] {
        guard let records = own.set.overruled, !planted(PlantedBug.dropsValuesInVain) else { return [] }
        return try park(records, id: own.id)
    }

    /// Parks the values of notes after note `last`, and stores the number of the newest note.
    func park(notes: String, after last: Int64, newID: () -> UUID) throws -> [DeviceEvent] {
        guard notes != "[]" else { return [] }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT value ->> '$.number' AS number, value -> '$.records' AS records
                FROM json_each(?) WHERE type = 'object'
                    AND typeof(value ->> '$.number') = 'integer' AND value ->> '$.number' > ?
                ORDER BY number
                """, arguments: [notes, last])
        var events: [DeviceEvent] = []
        for row in rows {
            events += try park(try row.value("records") as String? ?? "null", id: newID().uuidString.lowercased())
            try db.execute(
                sql: "UPDATE tidemark_device SET overruled = ?", arguments: try [row.value("number") as Int64])
        }
        return events
    }

    private func park(_ records: String, id: String) throws -> [DeviceEvent] {
        try validate(records)
        let reasons = try String.fetchOne(
            db,
            sql: """
                SELECT json_group_array(json_object(
                    'table', record.value ->> '$.table',
                    'key', json(record.value -> '$.key'),
                    'columns', json((
                        SELECT json_group_array(\(MemberSQL.name(of: "cell.key")))
                        FROM json_each(record.value, '$.lost') AS cell)),
                    'rule', ?2,
                    'message', ?3))
                FROM json_each(?1) AS record
                WHERE record.type = 'object'
                """, arguments: [records, ConflictRule.overruled.rawValue, Self.message])
        try db.execute(
            sql: "INSERT INTO tidemark_conflict (id, parked, reasons, kind) VALUES (?, ?, ?, ?)",
            arguments: [id, now, reasons ?? "[]", Conflict.Kind.overruled.rawValue])
        // The list names a record twice if one of its values did not prevail and another one replaced
        // a value of a program on the server.
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
                """, arguments: [id, records])
        return [.overruled(id)]
    }

    /// Throws if the records have a wrong form, because every list of conflicts reads them again.
    private func validate(_ records: String) throws {
        let isInvalid = try Bool.fetchOne(
            db,
            sql: """
                SELECT json_type(?1) <> 'array' OR EXISTS (
                    SELECT 1 FROM json_each(?1) AS record WHERE CASE record.type WHEN 'object' THEN
                        json_type(record.value, '$.table') IS NOT 'text'
                        OR coalesce(json_type(record.value, '$.key'), 'null') = 'null'
                        OR json_type(record.value, '$.lost') IS NOT 'object'
                        OR coalesce(json_type(record.value, '$.kept'), 'null') NOT IN ('object', 'null')
                        OR coalesce(json_type(record.value, '$.row'), 'null') NOT IN ('object', 'null')
                        ELSE 1 END)
                """, arguments: [records])
        guard isInvalid != true else {
            throw Answer.inapplicable("a record of overruled values has a form that the protocol does not allow.")
        }
    }

    private static let message = "By their policy, these columns have another value. This one is kept here."
}
