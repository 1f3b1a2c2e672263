import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// Values that do not stand, by the policy of their column, are kept: what the change set set in
/// vain goes into its author's copy, what it replaced into a note for the device that had written
/// it.
///
/// What no device had written, but a program on the server, goes into the author's copy as well:
/// there is nobody else to keep it. The rows as they are before and after writing come from the
/// store, in `temp.tidemark_overruled_row`.
extension StagedRequest {
    /// What is told about overruled values after the rows are written.
    package struct OverruledRecords: Sendable {
        /// What goes into the author's copy: a JSON object a record.
        package let own: [String]
        /// What goes to other devices: a JSON array of records each.
        package let notes: [(device: String, records: String)]
    }

    /// Takes what is overruled out of what a change set writes, and keeps it.
    ///
    /// `imageRows` notes the contended rows as they are now, in the column `before` or `after`.
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
        try noteValues(ord)
        try dropOverruledCells(ord)
        try joinCreations(overrulings, ord)
    }

    /// What is told after the rows are written; nothing is overruled any more.
    package func takeOverruled(author: String?, imageRows: (_ moment: String) throws -> Void) throws -> OverruledRecords
    {
        let isAny = try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_overruling)"))
        guard isAny == true else { return OverruledRecords(own: [], notes: []) }
        try imageRows("after")
        let notes = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT loser, '[' || group_concat(record) || ']' AS records FROM (\(Self.recordSQL))
                    WHERE record IS NOT NULL AND loser IS NOT NULL AND loser IS NOT ?
                    GROUP BY loser ORDER BY loser
                    """
            ),
            arguments: [author]
        ).map { try (device: $0.value("loser") as String, records: $0.value("records") as String) }
        let own = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT record FROM (\(Self.recordSQL))
                    WHERE record IS NOT NULL AND (loser IS NULL OR loser IS ?)
                    """
            ),
            arguments: [author]
        )
        try clearOverruled()
        return OverruledRecords(own: own, notes: notes)
    }

    /// The overruled columns of a record, a JSON array each.
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

    /// Keeps each value that is not going to stand, as canonical JSON.
    private func noteValues(_ ord: Int) throws {
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_overruling SET lost = CASE WHEN is_mine THEN (
                    SELECT tidemark_key(c.value) FROM temp.tidemark_staged AS s
                    JOIN temp.tidemark_staged_cell AS c ON c.rec = s.rec
                    WHERE s.ord = ? AND s.tbl = tidemark_overruling.tbl
                        AND s.key = tidemark_overruling.key AND c.col = tidemark_overruling.col
                ) ELSE (
                    SELECT r.before -> j.fullkey
                    FROM temp.tidemark_overruled_row AS r, json_each(r.before) AS j
                    WHERE r.tbl = tidemark_overruling.tbl AND r.key = tidemark_overruling.key
                        AND j.key = tidemark_overruling.col
                ) END
                """
        ).execute(arguments: [ord])
    }

    /// Takes the overruled columns out of what is written.
    private func dropOverruledCells(_ ord: Int) throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM temp.tidemark_staged_cell WHERE (rec, col) IN (
                    SELECT s.rec, o.col FROM temp.tidemark_overruling AS o
                    JOIN temp.tidemark_staged AS s ON s.tbl = o.tbl AND s.key = o.key
                    WHERE s.ord = ? AND o.is_mine)
                """
        ).execute(arguments: [ord])
    }

    /// Makes creations of records that are there updates of them.
    private func joinCreations(_ overrulings: [Overruling], _ ord: Int) throws {
        let records = overrulings.map(\.contention).filter { $0.operation == .create }.map {
            "[\(ChangeSetJSON.quote($0.table)),\(ChangeSetJSON.quote($0.key))]"
        }
        guard !records.isEmpty else { return }
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET operation = 'update' WHERE ord = ? AND (tbl, key) IN (
                    SELECT value ->> 0, value ->> 1 FROM json_each(?))
                """
        ).execute(arguments: [ord, "[\(records.joined(separator: ","))]"])
    }

    /// A row a record and loser: what was lost, and what stands there instead.
    ///
    /// A record that is gone comes whole, in `row`, so that it can be made again.
    private static let recordSQL = """
        SELECT o.loser, '{"table":' || json_quote(o.tbl) || ',"key":' || o.key
            || ',"lost":{' || group_concat(json_quote(o.col) || ':' || o.lost) || '}'
            || CASE WHEN r.after IS NULL THEN ',"kept":null,"row":' || r.before ELSE ',"kept":{'
                || group_concat(json_quote(o.col) || ':' || (
                    SELECT r.after -> j.fullkey FROM json_each(r.after) AS j WHERE j.key = o.col))
                || '}' END || '}' AS record
        FROM (SELECT * FROM temp.tidemark_overruling ORDER BY tbl, length(key), key, col) AS o
        JOIN temp.tidemark_overruled_row AS r USING (tbl, key)
        GROUP BY o.tbl, o.key, o.loser, o.is_mine
        """

    private func clearOverruled() throws {
        try CommitTables.clear("overruling", in: db)
        try CommitTables.clear("overruled_row", in: db)
    }
}
