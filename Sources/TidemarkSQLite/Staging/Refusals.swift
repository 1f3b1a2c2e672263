import GRDB
import TidemarkCore

/// Checks that are one query each: a row that comes back is something wrong, and says where.
extension ChangeSetStaging {
    /// Throws when the query finds a row. Columns `ord`, `tbl`, `key` and `col` become the error's place.
    func refuse(_ code: ErrorCode, _ message: String, fix: String, _ sql: String) throws {
        guard let row = try Row.fetchOne(db, sql: sql) else { return }
        throw TidemarkError(code, message, fix: fix, place: place(of: row))
    }

    /// Throws when the query finds a name that one JSON object has twice.
    func refuseDuplicates(_ sql: String) throws {
        guard let row = try Row.fetchOne(db, sql: sql) else { return }
        let name: String = row["name"]
        throw TidemarkError(
            .duplicateName, "The name \(name) appears twice in one object.",
            fix: "Give each name once: readers of JSON disagree on which one counts.",
            place: place(of: row))
    }

    /// Runs statements that decode values, and turns a failed decoding into a typed error with its place.
    func mappingInvalidValues(_ code: ErrorCode, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError {
            guard let message = error.message, message.hasPrefix(SQLFunctions.invalidValueMark) else {
                if error.resultCode == .SQLITE_CONSTRAINT { try refuseRepeatedKeys() }
                throw error
            }
            throw TidemarkError(
                code, "A value \(message.dropFirst(SQLFunctions.invalidValueMark.count)).",
                fix: "PROTOCOL.md lists the JSON form of every SQLite value.")
        }
    }

    private func refuseRepeatedKeys() throws {
        try refuse(
            .malformedRequest, "A record appears twice in one change set.",
            fix: "List each key once, in one of create, update and delete.",
            """
            SELECT t.ord, t.tbl, k.value AS key
            FROM temp.tidemark_staged_table AS t, json_each(t.json) AS m, json_each(m.value) AS k
            WHERE m.key <> 'attributes' GROUP BY t.ord, t.tbl, k.value HAVING count(*) > 1 LIMIT 1
            """)
    }

    private func place(of row: Row) -> TidemarkError.Place {
        TidemarkError.Place(
            changeSet: row["ord"], table: row["tbl"], key: row.hasColumn("key") ? row["key"] : nil,
            column: row.hasColumn("col") ? row["col"] : nil)
    }
}
