import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// What a transaction did, as one change a record: the first row before against the last row after.
///
/// Updates merge, a record created and deleted in between vanishes, and so does an update that
/// changed nothing. The result goes into `temp.tidemark_reduced` of the SQLite connection, from
/// which the change set is written; what was captured is forgotten.
extension PostgresTransaction {
    /// Whose captured rows are reduced.
    enum Author {
        /// This transaction's own.
        case own
        /// Another program's, which has committed.
        case outside(xid: String)

        var sql: String {
            switch self {
            case .own: "pg_current_xact_id()"
            case .outside: "$2::xid8"
            }
        }
    }

    /// Reduces what a transaction captured.
    ///
    /// - Returns: Whether anything is left.
    /// - Throws: ``Overtaken`` when another program committed changes of the same records, in a
    ///   revision that is still to come.
    func reduce(_ author: Author) throws -> Bool {
        var parameters: [String?] = [zoneName]
        if case .outside(let xid) = author { parameters.append(xid) }
        var isAny = false
        var isOvertaken = false
        try load(nil)
        try pg.each(Self.reduceSQL(author), parameters) { row in
            isOvertaken = isOvertaken || row.isTrue(1)
            guard let changes = row[0] else { return }
            isAny = true
            try add(changes)
        }
        if isOvertaken { throw Overtaken() }
        return isAny
    }

    /// Puts reduced changes, a JSON array, into `temp.tidemark_reduced`, and nothing else.
    func load(_ changes: String?) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        if let changes { try add(changes) }
    }

    private func add(_ changes: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_reduced (tbl, key, operation, before, attributes, after, base)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, 0
                FROM json_each(?)
                """
        ).executeLettingGo(arguments: [changes])
    }

    /// How many records come in a row.
    private static let recordsPerRow = 1_000

    private static func reduceSQL(_ author: Author) -> String {
        // What others captured earlier and nobody has taken in yet comes before; of the own, it may
        // be about the same records.
        let overtaken =
            if case .own = author {
                """
                (SELECT bool_or((o.tbl, o.key) IN (SELECT m.tbl, m.key FROM tidemark.capture AS m
                        WHERE m.zone = $1 AND m.xid = pg_current_xact_id()))
                    FROM tidemark.capture AS o WHERE o.zone = $1 AND o.xid <> pg_current_xact_id())
                """
            } else { "false" }
        return """
            \(reducedSQL(author.sql))
            SELECT NULL, \(overtaken)
            UNION ALL
            SELECT json_agg(json_build_array(tbl, key, operation, before, attributes, after)), false
            FROM (
                SELECT *, row_number() OVER (ORDER BY tbl, length(key), key) / \(recordsPerRow) AS part
                FROM reduced WHERE operation <> 'update' OR attributes <> '{}'
            ) AS r GROUP BY part
            """
    }

    /// What this transaction captured, whoever else has captured anything.
    static let reducedNowSQL = """
        \(reducedSQL("pg_current_xact_id()"))
        SELECT json_agg(json_build_array(tbl, key, operation, before, attributes, after))
        FROM reduced WHERE operation <> 'update' OR attributes <> '{}'
        """

    /// A derived table `reduced` of what a transaction captured, which is forgotten.
    ///
    /// Of a record that was changed more than once, the first and the last state are found as the
    /// reduction of a device does it, whatever the order in which triggers ran.
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
