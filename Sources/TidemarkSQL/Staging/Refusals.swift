import GRDB
import TidemarkCore

/// Checks with one query each; a returned row is an error with its place.
extension ChangeSetStaging {
    /// Throws if the query finds a row.
    ///
    /// The row's columns `ord`, `tbl`, `key` and `col` become the error's place.
    func refuse(_ code: ErrorCode, message: String, fix: String, sql: String) throws {
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)) else { return }
        throw TidemarkError(code, message, fix: fix, place: try place(of: row))
    }

    /// Throws if `types` does not list exactly the change set's tables.
    func refuseTypes() throws {
        let fix = "List in types exactly the tables that the change set has members for."
        try refuse(
            .malformedRequest,
            message: "types is not an array of strings.",
            fix: fix,
            sql: """
                SELECT member.ord
                FROM temp.tidemark_staged_member AS member
                WHERE member.name = 'types' AND (member.type <> 'array' OR EXISTS (
                    SELECT 1
                    FROM json_each(iif(member.type = 'array', member.value, '[]')) AS element
                    WHERE element.type <> 'text'))
                LIMIT 1
                """
        )
        try refuse(
            .unknownTable,
            message: "types lists a table that this zone or the change set does not have.",
            fix: fix,
            sql: """
                SELECT types.ord, element.value AS tbl
                FROM temp.tidemark_staged_member AS types, json_each(types.value) AS element
                LEFT JOIN temp.tidemark_staged_member AS member
                    ON member.ord = types.ord AND member.name = element.value
                WHERE types.name = 'types' AND member.tbl IS NULL
                    AND \(MemberSQL.name(of: "element.value")) NOT IN (SELECT tbl FROM temp.tidemark_gone)
                LIMIT 1
                """
        )
        try refuse(
            .malformedRequest,
            message: "The change set has a table that types does not list.",
            fix: fix,
            sql: """
                SELECT member.ord, member.tbl
                FROM temp.tidemark_staged_member AS member
                JOIN temp.tidemark_staged_member AS types ON types.ord = member.ord AND types.name = 'types'
                WHERE member.tbl IS NOT NULL AND member.name NOT IN (SELECT value FROM json_each(types.value))
                LIMIT 1
                """
        )
    }

    /// Throws if the query finds a name that occurs twice in one JSON object.
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

    /// Runs statements that decode values, and translates a decoding failure to an error with a place.
    ///
    /// `place` is a query for the first value that cannot be decoded.
    func mappingInvalidValues(_ code: ErrorCode, place: String, _ body: () throws -> Void) throws {
        do { try body() } catch let error as DatabaseError {
            guard let reason = SQLFunctions.invalidValueReason(of: error) else {
                if error.resultCode == .SQLITE_CONSTRAINT { try refuseRepeatedKeys() }
                throw error
            }
            let row = try Row.fetchOne(db.cachedStatement(sql: place))
            throw TidemarkError(
                code,
                "A value \(reason).",
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
            message: message,
            fix: fix,
            sql: """
                SELECT ord, tbl, \(Self.keyTextSQL) AS key
                FROM temp.tidemark_staged_key
                GROUP BY ord, tbl, \(Self.keyTextSQL)
                HAVING count(*) > 1
                LIMIT 1
                """
        )
        // The request spells the same key in two ways.
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

    /// Returns a part of a place as text, whatever type the sender wrote.
    private func text(_ column: String, of row: Row) -> String? {
        guard let value: DatabaseValue = row[column], !value.isNull else { return nil }
        return String.fromDatabaseValue(value) ?? "\(value)"
    }
}
