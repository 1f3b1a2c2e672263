import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Finds the records of a change set that somebody else changed since its base: a query a table,
/// whatever the number of records.
extension PostgresTransaction {
    func contentions(_ ord: Int, base: Int64, seen: [Int64], stamp: Stamp) throws -> [Contention] {
        try CommitTables.clear("contended", in: db)
        for table in try staged.touchedTables(ord) {
            guard let stored = self.table(table.name) else { continue }
            try PostgresText.eachRecords(table, ord, in: db) { records in
                let found = try pg.text(Self.contendedSQL(stored), [zoneName, records, "\(base)", Self.array(seen)])
                if let found { try noteContended(found) }
            }
        }
        guard try staged.hasContended() else { return [] }
        return try staged.contentions(histories(seen), stamp: stamp, isCascade: false)
    }

    private static func contendedSQL(_ table: PostgresTable) -> String {
        """
        SELECT json_agg(json_build_array(rec, tbl, key, operation, base, present::int, image))
        FROM (
            SELECT s.rec, s.tbl, s.key, s.operation, b.base, t.tableoid IS NOT NULL AS present,
                CASE WHEN t.tableoid IS NOT NULL AND s.operation <> 'delete' THEN \(table.rowJSON("t")) END AS image,
                EXISTS (SELECT 1 FROM tidemark.log AS l
                    WHERE l.zone = $1 AND l.tbl = s.tbl AND l.key = s.key AND l.revision > b.base
                    AND (l.merged OR l.revision <> ALL ($4::bigint[]))) AS newer
            FROM \(StagedSet.records(2))
                CROSS JOIN LATERAL (SELECT least(coalesce(s.base, $3::bigint), $3::bigint) AS base) AS b
                LEFT JOIN \(table.name) AS t ON \(table.matches("t"))
        ) AS c WHERE CASE operation WHEN 'create' THEN present ELSE newer OR NOT present END
        """
    }

    private func noteContended(_ found: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_contended (rec, tbl, key, operation, base, present, image)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                    value ->> 6
                FROM json_each(?)
                """
        ).execute(arguments: [found])
    }

    /// What was done to each contended record since its base, oldest first.
    ///
    /// Of what the author has done in the same way many times, in revisions `seen`, the last one
    /// says all.
    private func histories(_ seen: [Int64]) throws -> [StagedRequest.RecordName: StagedRequest.History] {
        let contended = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('tbl', tbl, 'key', key, 'base', base))
                    FROM temp.tidemark_contended
                    """
            )
        )
        let rows = try pg.query(
            """
            SELECT c.tbl, c.key, l.operation, l.columns, max(r.time), max(r.device), o.is_seen
            FROM \(StagedSet.records(2, "c"))
            JOIN tidemark.log AS l ON l.zone = $1 AND l.tbl = c.tbl AND l.key = c.key
                AND l.revision > c.base
            LEFT JOIN tidemark.revision AS r ON r.zone = $1 AND r.revision = l.revision
            CROSS JOIN LATERAL (
                SELECT NOT l.merged AND l.revision = ANY ($3::bigint[]) AS is_seen) AS o
            GROUP BY c.tbl, c.key, l.operation, l.columns, o.is_seen,
                CASE WHEN o.is_seen THEN 0 ELSE l.revision END
            ORDER BY max(l.revision)
            """,
            [zoneName, contended ?? "[]", Self.array(seen)]
        )
        var histories: [StagedRequest.RecordName: StagedRequest.History] = [:]
        for row in rows.map({ $0 }) {
            let change = try StagedRequest.unseen(
                operation: row.text(2),
                columns: row[3],
                stamp: Stamp(time: row.integer(4) ?? 0, device: row[5])
            )
            histories[.init(table: row.text(0), key: row.text(1)), default: []].append(
                (change: change, isSeen: row.isTrue(6))
            )
        }
        return histories
    }

    // MARK: Cascades

    func cascades(_ ord: Int, base: Int64, seen: [Int64]) throws -> [Contention] {
        // What may reach other records is not planned.
        guard let touched = try staged.cascading(ord, base: base) else { return [] }
        try staged.refuseLost(ord) { try lost($0, ord) }
        try CommitTables.clear("contended", in: db)
        let children = schema.tables.filter { !$0.references.isEmpty }.map(\.name)
        let found = try pg.text(
            """
            SELECT json_agg(json_build_array(NULL, c.tbl, c.key,
                CASE WHEN c.gone THEN 'delete' ELSE 'update' END, $3::bigint, 1, NULL))
            FROM (
                SELECT tbl, key, bool_or(after IS NULL) AS gone FROM tidemark.capture
                WHERE zone = $1 AND xid = pg_current_xact_id() AND before IS NOT NULL
                    AND tbl = ANY ($5::text[])
                GROUP BY tbl, key
            ) AS c
            WHERE NOT EXISTS (SELECT 1 FROM \(StagedSet.records(2)) WHERE s.tbl = c.tbl AND s.key = c.key)
                AND EXISTS (SELECT 1 FROM tidemark.log AS l
                    WHERE l.zone = $1 AND l.tbl = c.tbl AND l.key = c.key AND l.revision > $3::bigint
                    AND (l.merged OR l.revision <> ALL ($4::bigint[])))
            """,
            [zoneName, touched.records, "\(touched.base)", Self.array(seen), PostgresArray.quoted(children)]
        )
        if let found { try noteContended(found) }
        guard try staged.hasContended() else { return [] }
        return try staged.contentions(histories(seen), stamp: Stamp(), isCascade: true)
    }
}

extension PostgresTransaction {
    /// A record of a table that the change set wrote and that is not there.
    private func lost(_ table: SyncedTable, _ ord: Int) throws -> String? {
        guard let stored = self.table(table.name) else { return nil }
        return try pg.text(
            """
            SELECT s.key FROM \(StagedSet.records(2))
            LEFT JOIN \(stored.name) AS t ON \(stored.matches("t"))
            WHERE $1::text IS NOT NULL AND s.operation <> 'delete' AND t.tableoid IS NULL LIMIT 1
            """,
            [zoneName, PostgresText.records(table, ord, in: db)]
        )
    }
}
