import GRDB
import TidemarkCore

/// Checks that are one query each: a row that comes back is something wrong, and says where.
extension ChangeSetStaging {
    /// Throws when the query finds a row.
    ///
    /// Columns `ord`, `tbl`, `key` and `col` become the error's place.
    func refuse(_ code: ErrorCode, _ message: String, fix: String, _ sql: String) throws {
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)) else { return }
        throw TidemarkError(code, message, fix: fix, place: try place(of: row))
    }

    /// Throws when `types` is there and names other tables than the change set has.
    func refuseTypes() throws {
        let fix = "List in types exactly the tables that the change set has members for."
        try refuse(
            .malformedRequest,
            "types is not an array of strings.",
            fix: fix,
            """
            SELECT m.ord FROM temp.tidemark_staged_member AS m
            WHERE m.name = 'types' AND (m.type <> 'array' OR EXISTS (
                SELECT 1 FROM json_each(iif(m.type = 'array', m.value, '[]')) AS j
                WHERE j.type <> 'text'))
            LIMIT 1
            """
        )
        try refuse(
            .unknownTable,
            "types lists a table that this zone or the change set does not have.",
            fix: fix,
            """
            SELECT m.ord, j.value AS tbl
            FROM temp.tidemark_staged_member AS m, json_each(m.value) AS j
            LEFT JOIN temp.tidemark_staged_member AS t ON t.ord = m.ord AND t.name = j.value
            WHERE m.name = 'types' AND t.tbl IS NULL
                AND j.value NOT IN (SELECT tbl FROM temp.tidemark_gone) LIMIT 1
            """
        )
        try refuse(
            .malformedRequest,
            "The change set has a table that types does not list.",
            fix: fix,
            """
            SELECT t.ord, t.tbl FROM temp.tidemark_staged_member AS t
            JOIN temp.tidemark_staged_member AS m ON m.ord = t.ord AND m.name = 'types'
            WHERE t.tbl IS NOT NULL AND t.tbl NOT IN (SELECT value FROM json_each(m.value)) LIMIT 1
            """
        )
    }

    /// Throws when the query finds a name that one JSON object has twice.
    func refuseDuplicates(_ sql: String) throws {
        if planted(PlantedBug.takesNamesTwice) { return }
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)) else { return }
        let name: String = try row.value("name")
        throw TidemarkError(
            .duplicateName,
            "The name \(name) appears twice in one object.",
            fix: "Give each name once: readers of JSON disagree on which one counts.",
            place: try place(of: row)
        )
    }

    /// Runs statements that decode values, and turns a failed decoding into a typed error with its
    /// place.
    ///
    /// `place` is a query for the first value that cannot be decoded.
    func mappingInvalidValues(_ code: ErrorCode, place: String, _ body: () throws -> Void) throws {
        do { try body() } catch let error as DatabaseError {
            guard let message = error.message, message.hasPrefix(SQLFunctions.invalidValueMark) else {
                if error.resultCode == .SQLITE_CONSTRAINT { try refuseRepeatedKeys() }
                throw error
            }
            let row = try Row.fetchOne(db.cachedStatement(sql: place))
            throw TidemarkError(
                code,
                "A value \(message.dropFirst(SQLFunctions.invalidValueMark.count)).",
                fix: "PROTOCOL.md lists the JSON form of every SQLite value.",
                place: try row.map(self.place(of:)) ?? TidemarkError.Place()
            )
        }
    }

    private func refuseRepeatedKeys() throws {
        let message = "A record appears twice in one change set."
        let fix = "List each key once, in one of create, update and delete."
        try refuse(
            .malformedRequest,
            message,
            fix: fix,
            """
            SELECT ord, tbl, \(Self.writtenKey) AS key FROM temp.tidemark_staged_key
            GROUP BY ord, tbl, \(Self.writtenKey) HAVING count(*) > 1 LIMIT 1
            """
        )
        // Spelled in two ways that mean the same.
        throw TidemarkError(.malformedRequest, message, fix: fix)
    }

    private func place(of row: Row) throws -> TidemarkError.Place {
        try TidemarkError.Place(
            changeSet: row.value("ord"),
            table: text("tbl", of: row),
            key: text("key", of: row),
            column: text("col", of: row)
        )
    }

    /// A part of a place, as text whatever the sender wrote there.
    private func text(_ column: String, of row: Row) -> String? {
        guard let value: DatabaseValue = row[column], !value.isNull else { return nil }
        return String.fromDatabaseValue(value) ?? "\(value)"
    }
}
