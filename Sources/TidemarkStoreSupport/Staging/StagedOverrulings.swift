import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Keeps the values that a column's policy overrules.
///
/// A losing value of the change set goes into the author's copy. A value that it replaces goes into
/// a note for the device that wrote it. If a program on the server wrote the replaced value, it goes
/// into the author's copy, too. The store puts the rows before and after the write into
/// `temp.tidemark_overruled_row`.
extension StagedRequest {
    /// The overruled values of a change set, for its author and for other devices.
    package struct OverruledRecords: Sendable {
        /// The records for the author's copy, a JSON object each.
        package let own: [String]
        /// The notes for other devices, a JSON array of records each.
        package let notes: [(device: String, records: String)]
    }

    /// Removes overruled columns from the staged rows, and keeps the losing values.
    ///
    /// `imageRows` stores the current contended rows in the column `before` or `after`.
    package func overrule(_ overrulings: [Overruling], in ord: Int, imageRows: (_ moment: String) throws -> Void) throws
    {
        guard !overrulings.isEmpty else { return }
        try clearOverruled()
        let values = overrulings.flatMap(Self.values)
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_overruling (tbl, key, col, is_mine, loser)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
                FROM json_each(?)
                """
        ).execute(arguments: ["[\(values.joined(separator: ","))]"])
        try imageRows("before")
        try storeLosingValues(ord)
        try dropOverruledCells(ord)
        try turnCreationsIntoUpdates(overrulings, ord)
    }

    /// Takes the overruled values after the rows are written, and empties their tables.
    package func takeOverruled(author: String?, imageRows: (_ moment: String) throws -> Void) throws -> OverruledRecords
    {
        let hasAny = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_overruling)")
        )
        guard hasAny == true else { return OverruledRecords(own: [], notes: []) }
        try imageRows("after")
        let notes = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT loser, '[' || group_concat(record) || ']' AS records
                    FROM (\(Self.recordSQL))
                    WHERE record IS NOT NULL AND loser IS NOT NULL AND loser IS NOT ?
                    GROUP BY loser
                    ORDER BY loser
                    """
            ),
            arguments: [author]
        ).map { try (device: $0.value("loser") as String, records: $0.value("records") as String) }
        let own = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT record
                    FROM (\(Self.recordSQL))
                    WHERE record IS NOT NULL AND (loser IS NULL OR loser IS ?)
                    """
            ),
            arguments: [author]
        )
        try clearOverruled()
        return OverruledRecords(own: own, notes: notes)
    }

    /// Returns the overruled columns of a record, a JSON array each.
    private static func values(_ overruling: Overruling) -> [String] {
        let contention = overruling.contention
        let quote = ChangeSetJSON.quote
        let record = "\(quote(contention.table)),\(quote(contention.key))"
        let mine = overruling.mine.sorted().map { "[\(record),\(quote($0)),1,null]" }
        let theirs = overruling.theirs.sorted().map { column in
            let loser = contention.holder(of: column)?.stamp.device.map(quote) ?? "null"
            return "[\(record),\(quote(column)),0,\(loser)]"
        }
        return mine + theirs
    }

    /// Stores each losing value as canonical JSON.
    private func storeLosingValues(_ ord: Int) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_overruling
                SET lost = CASE WHEN is_mine THEN (
                    SELECT tidemark_key(cell.value)
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell ON cell.rec = staged.rec
                    WHERE staged.ord = ? AND staged.tbl = tidemark_overruling.tbl
                        AND staged.key = tidemark_overruling.key AND cell.col = tidemark_overruling.col
                ) ELSE (
                    SELECT overruled_row.before -> member.fullkey
                    FROM temp.tidemark_overruled_row AS overruled_row, json_each(overruled_row.before) AS member
                    WHERE overruled_row.tbl = tidemark_overruling.tbl
                        AND overruled_row.key = tidemark_overruling.key
                        AND \(MemberSQL.name(of: "member.key")) = tidemark_overruling.col
                ) END
                """
        ).execute(arguments: [ord])
    }

    /// Removes the losing values from the staged rows.
    private func dropOverruledCells(_ ord: Int) throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM temp.tidemark_staged_cell
                WHERE (rec, col) IN (
                    SELECT staged.rec, overruling.col
                    FROM temp.tidemark_overruling AS overruling
                    JOIN temp.tidemark_staged AS staged
                        ON staged.tbl = overruling.tbl AND staged.key = overruling.key
                    WHERE staged.ord = ? AND overruling.is_mine)
                """
        ).execute(arguments: [ord])
    }

    /// Turns overruled creations of existing records into updates.
    private func turnCreationsIntoUpdates(_ overrulings: [Overruling], _ ord: Int) throws {
        let records = overrulings.map(\.contention).filter { $0.operation == .create }.map {
            "[\(ChangeSetJSON.quote($0.table)),\(ChangeSetJSON.quote($0.key))]"
        }
        guard !records.isEmpty else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged
                SET operation = 'update'
                WHERE ord = ? AND (tbl, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
                """
        ).execute(arguments: [ord, "[\(records.joined(separator: ","))]"])
    }

    /// Selects a JSON object for each record and loser: the losing and the winning values.
    ///
    /// For a deleted record, the object has the whole row, so the device can create it again.
    private static let recordSQL = """
        SELECT overruling.loser, '{"table":' || json_quote(overruling.tbl) || ',"key":' || overruling.key
            || ',"lost":{' || group_concat(json_quote(\(MemberSQL.member(column: "overruling.col"))) || ':' || overruling.lost) || '}'
            || CASE WHEN overruled_row.after IS NULL THEN ',"kept":null,"row":' || overruled_row.before
                ELSE ',"kept":{' || group_concat(json_quote(\(MemberSQL.member(column: "overruling.col"))) || ':' || (
                    SELECT overruled_row.after -> member.fullkey
                    FROM json_each(overruled_row.after) AS member
                    WHERE \(MemberSQL.name(of: "member.key")) = overruling.col))
                || '}' END || '}' AS record
        FROM (SELECT * FROM temp.tidemark_overruling ORDER BY tbl, length(key), key, col) AS overruling
        JOIN temp.tidemark_overruled_row AS overruled_row USING (tbl, key)
        GROUP BY overruling.tbl, overruling.key, overruling.loser, overruling.is_mine
        """

    private func clearOverruled() throws {
        try CommitTables.clear("overruling", in: db)
        try CommitTables.clear("overruled_row", in: db)
    }
}
