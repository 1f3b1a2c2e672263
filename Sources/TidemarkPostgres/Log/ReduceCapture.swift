import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Coalesces the captured rows of a transaction to one change per record.
///
/// A change compares the first row before with the last row after. Updates merge. A record that was
/// created and deleted vanishes, and so does an update without a difference. The result goes into
/// `temp.tidemark_reduced` of the SQLite connection, and the captured rows are deleted.
extension PostgresTransaction {
    /// The transaction whose captured rows are coalesced.
    enum Author {
        /// This transaction.
        case own
        /// A committed transaction of another program.
        case outside(xid: String)

        var sql: String {
            switch self {
            case .own: "pg_current_xact_id()"
            case .outside: "$2::xid8"
            }
        }
    }

    /// Coalesces the captured rows of a transaction.
    ///
    /// - Returns: Whether any change remains.
    /// - Throws: ``Overtaken`` if another program committed unabsorbed changes of the same records.
    func reduce(_ author: Author) throws -> Bool {
        var parameters: [String?] = [zoneName]
        if case .outside(let xid) = author { parameters.append(xid) }
        var isAny = false
        var isOvertaken = false
        try load(nil)
        try pg.each(Self.reduceSQL(author), parameters: parameters) { row in
            isOvertaken = isOvertaken || row.isTrue(1)
            guard let changes = row[0] else { return }
            isAny = true
            try add(changes)
        }
        if isOvertaken { throw Overtaken() }
        return isAny
    }

    /// Replaces the content of `temp.tidemark_reduced` with changes from a JSON array.
    func load(_ changes: String?) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        if let changes { try add(changes) }
    }

    private func add(_ changes: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_reduced (tbl, key, operation, before, attributes, after, unlogged, base)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, 0
                FROM json_each(?)
                """
        ).executeAndClearBindings(arguments: [changes])
    }

    /// The number of records in one result row.
    private static let recordsPerRow = 1_000

    private static func reduceSQL(_ author: Author) -> String {
        // Unabsorbed changes of other transactions come first in the history. If they touch records
        // of this transaction, it must start again.
        let overtaken =
            if case .own = author {
                """
                (SELECT bool_or((other.tbl, other.key) IN (
                        SELECT own.tbl, own.key
                        FROM tidemark.capture AS own
                        WHERE own.zone = $1 AND own.xid = pg_current_xact_id()))
                    FROM tidemark.capture AS other
                    WHERE other.zone = $1 AND other.xid <> pg_current_xact_id())
                """
            } else { "false" }
        return """
            \(reducedSQL(author.sql))
            SELECT NULL, \(overtaken)
            UNION ALL
            SELECT json_agg(json_build_array(tbl, key, operation, before, attributes, after,
                \(UnloggedValues.sql))), false
            FROM (
                SELECT *, row_number() OVER (ORDER BY tbl, length(key), key) / \(recordsPerRow) AS part
                FROM reduced
                WHERE operation <> 'update' OR attributes <> '{}'
            ) AS change
            GROUP BY part
            """
    }

    /// Coalesces this transaction's captured rows, without a check for other transactions.
    static let reducedNowSQL = """
        \(reducedSQL("pg_current_xact_id()"))
        SELECT json_agg(json_build_array(tbl, key, operation, before, attributes, after, \(UnloggedValues.sql)))
        FROM reduced AS change WHERE operation <> 'update' OR attributes <> '{}'
        """

    /// The common table `reduced` of a transaction's captured rows, which the statement deletes.
    ///
    /// It finds the first and last state of a record independent of the order of triggers, by the
    /// same rule as on a device.
    private static func reducedSQL(_ xid: String) -> String {
        """
        WITH captured AS (
            DELETE FROM tidemark.capture WHERE zone = $1 AND xid = \(xid)
            RETURNING seq, tbl, key, before, after
        ), counted AS (
            SELECT *, count(*) OVER (PARTITION BY tbl, key) AS changes FROM captured
        ), loose AS (
            SELECT tbl, key, image, sum(side) AS net, min(seq) FILTER (WHERE side > 0) AS first,
                max(seq) FILTER (WHERE side < 0) AS last
            FROM (
                SELECT tbl, key, seq, 1 AS side, before AS image FROM counted WHERE changes > 1
                UNION ALL SELECT tbl, key, seq, -1, after FROM counted WHERE changes > 1
            ) AS state GROUP BY tbl, key, image HAVING sum(side) <> 0
        ), span AS (
            SELECT tbl, key, before, after FROM counted WHERE changes = 1
            UNION ALL
            SELECT tbl, key, (array_agg(image ORDER BY first) FILTER (WHERE net > 0))[1],
                (array_agg(image ORDER BY last DESC) FILTER (WHERE net < 0))[1]
            FROM loose GROUP BY tbl, key
        ), reduced AS (
            SELECT tbl, key,
                CASE WHEN before IS NULL THEN 'create' WHEN after IS NULL THEN 'delete' ELSE 'update' END AS operation,
                before, after,
                CASE WHEN before IS NULL OR after IS NULL THEN after
                    ELSE tidemark.changes(before, after) END AS attributes
            FROM span WHERE before IS DISTINCT FROM after
        )
        """
    }
}
