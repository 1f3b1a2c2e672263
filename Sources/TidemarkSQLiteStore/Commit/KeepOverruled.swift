import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// Values that do not stand, by the policy of their column, are kept: what the change set set in
/// vain goes into its author's copy, what it replaced into a note for the device that had written
/// it.
///
/// What no device had written, but a program on the server, goes into the author's copy as well:
/// there is nobody else to keep it.
extension ZoneTransaction {
    package func overrule(_ overrulings: [Overruling], in ord: Int) throws {
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

    // MARK: After the rows are written

    /// Writes the notes for other devices, and returns what goes into the author's copy: a JSON
    /// object a record.
    func takeOverruled(revision: Int64, author: String?) throws -> [String] {
        guard
            try Bool.fetchOne(
                db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_overruling)")
            ) ?? false
        else { return [] }
        try imageRows("after")
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_overruled (device, revision, records)
                SELECT loser, ?1, '[' || group_concat(record) || ']' FROM (\(Self.recordSQL))
                WHERE loser IS NOT NULL AND loser IS NOT ?2 GROUP BY loser ORDER BY loser
                """
        ).execute(arguments: [revision, author])
        let own = try String.fetchAll(
            db.cachedStatement(
                sql: "SELECT record FROM (\(Self.recordSQL)) WHERE loser IS NULL OR loser IS ?"
            ),
            arguments: [author]
        )
        try clearOverruled()
        return own
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

    /// Notes the contended rows as they are now.
    private func imageRows(_ moment: String) throws {
        for table in schema.tables {
            let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_overruled_row (tbl, key, \(moment))
                    SELECT DISTINCT o.tbl, o.key, \(image) FROM temp.tidemark_overruling AS o
                    JOIN main.\(SQLText.name(table.name)) AS t
                        ON \(KeySQL.match(table, key: "o.key", alias: "t."))
                    WHERE o.tbl = \(SQLText.literal(table.name))
                    ON CONFLICT DO UPDATE SET \(moment) = excluded.\(moment)
                    """
            ).execute()
        }
    }

    private func clearOverruled() throws {
        try CommitTables.clear("overruling", in: db)
        try CommitTables.clear("overruled_row", in: db)
    }

    // MARK: Notes

    package func overruled(
        device: String,
        taken: Int64,
        through revision: Int64,
        limit: Int
    ) throws -> [String] {
        if taken > 0 {
            try db.cachedStatement(
                sql: "DELETE FROM tidemark_overruled WHERE device = ? AND number <= ?"
            ).execute(arguments: [device, taken])
        }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT '{"number":' || number || ',"revision":' || revision
                        || ',"records":' || records || '}'
                    FROM tidemark_overruled WHERE device = ? AND revision <= ?
                    ORDER BY number LIMIT ?
                    """
            ),
            arguments: [device, revision, limit]
        )
    }
}
