import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Finds records of a change set that another author changed after its base.
///
/// It takes one query per table, for any number of records.
extension PostgresTransaction {
    func contentions(_ ord: Int, base: Int64, seenRevisions: [Int64], stamp: Stamp) throws -> [Contention] {
        try CommitTables.clear("contended", in: db)
        for table in try staged.touchedTables(ord) {
            guard let stored = self.table(table.name) else { continue }
            try PostgresText.eachRecords(table, ord: ord, in: db) { records in
                let contended = try pg.text(
                    Self.contendedSQL(stored),
                    [zoneName, records, "\(base)", Self.array(seenRevisions)]
                )
                if let contended { try stageContended(contended) }
            }
            try spellContendedValues(ord, of: stored, seenRevisions: seenRevisions)
        }
        guard try staged.hasContended() else { return [] }
        return try staged.contentions(histories(seenRevisions), stamp: stamp, isCascade: false)
    }

    private static func contendedSQL(_ table: PostgresTable) -> String {
        // No author edits a generated column: its first values arrive when it is added.
        let generated = SQLText.literal(
            "[\(table.generated.sorted().map(ChangeSetJSON.quote).joined(separator: ","))]"
        )
        let isEdit =
            table.generated.isEmpty
            ? "" : " AND (log_entry.operation <> 'update' OR NOT log_entry.columns::jsonb <@ \(generated)::jsonb)"
        return """
            SELECT json_agg(json_build_array(rec, tbl, key, operation, base, present::int, image))
            FROM (
                SELECT staged.rec, staged.tbl, staged.key, staged.operation, since.base,
                    app_row.tableoid IS NOT NULL AS present,
                    CASE WHEN app_row.tableoid IS NOT NULL AND staged.operation <> 'delete'
                        THEN \(table.rowJSON("app_row")) END AS image,
                    EXISTS (SELECT 1 FROM tidemark.log AS log_entry
                        WHERE log_entry.zone = $1 AND log_entry.tbl = staged.tbl AND log_entry.key = staged.key
                            AND log_entry.revision > since.base\(isEdit)
                            AND (log_entry.merged OR log_entry.revision <> ALL ($4::bigint[]))) AS newer
                FROM \(StagedSet.records(2))
                CROSS JOIN LATERAL (SELECT least(coalesce(staged.base, $3::bigint), $3::bigint) AS base) AS since
                LEFT JOIN \(table.name) AS app_row ON \(table.matches("app_row"))
            ) AS compared
            WHERE CASE operation WHEN 'create' THEN present ELSE newer OR NOT present END
            """
    }

    private func stageContended(_ contended: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_contended (rec, tbl, key, operation, base, present, image)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                    value ->> 6
                FROM json_each(?)
                """
        ).execute(arguments: [contended])
    }

    /// Reads the changes of each contended record after its base, oldest first.
    ///
    /// Equal changes of the author, in revisions `seenRevisions`, count once, at the last revision.
    private func histories(_ seenRevisions: [Int64]) throws -> [StagedRequest.RecordName: StagedRequest.History] {
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
            SELECT contended.tbl, contended.key, log_entry.operation, log_entry.columns,
                max(origin.time), max(origin.device), author.is_seen
            FROM \(StagedSet.records(2, "contended"))
            JOIN tidemark.log AS log_entry
                ON log_entry.zone = $1 AND log_entry.tbl = contended.tbl AND log_entry.key = contended.key
                AND log_entry.revision > contended.base
            LEFT JOIN tidemark.revision AS origin
                ON origin.zone = $1 AND origin.revision = log_entry.revision
            CROSS JOIN LATERAL (
                SELECT NOT log_entry.merged AND log_entry.revision = ANY ($3::bigint[]) AS is_seen) AS author
            GROUP BY contended.tbl, contended.key, log_entry.operation, log_entry.columns, author.is_seen,
                CASE WHEN author.is_seen THEN 0 ELSE log_entry.revision END
            ORDER BY max(log_entry.revision)
            """,
            [zoneName, contended ?? "[]", Self.array(seenRevisions)]
        )
        var histories: [StagedRequest.RecordName: StagedRequest.History] = [:]
        for row in rows.map({ $0 }) {
            let change = try StagedRequest.unseen(
                operation: row.text(2),
                columns: row[3],
                stamp: Stamp(time: row.integer(4) ?? 0, device: row[5])
            )
            let generated = tables[row.text(0)]?.generated ?? []
            guard change.operation != .update || generated.isEmpty || !change.columns.isSubset(of: generated) else {
                continue
            }
            histories[.init(table: row.text(0), key: row.text(1)), default: []].append(
                (change: change, isSeen: row.isTrue(6))
            )
        }
        return histories
    }

    // MARK: Cascades

    func cascades(_ ord: Int, base: Int64, seenRevisions: [Int64]) throws -> [Contention] {
        guard let sources = try staged.cascadeSources(ord, base: base) else { return [] }
        try staged.refuseLost(ord) { try findLost($0, ord) }
        try CommitTables.clear("contended", in: db)
        let children = schema.tables.filter { !$0.references.isEmpty }.map(\.name)
        let contended = try pg.text(
            """
            SELECT json_agg(json_build_array(NULL, effect.tbl, effect.key,
                CASE WHEN effect.is_deletion THEN 'delete' ELSE 'update' END, $3::bigint, 1, NULL))
            FROM (
                SELECT tbl, key, bool_or(after IS NULL) AS is_deletion
                FROM tidemark.capture
                WHERE zone = $1 AND xid = pg_current_xact_id() AND before IS NOT NULL
                    AND tbl = ANY ($5::text[])
                GROUP BY tbl, key
            ) AS effect
            WHERE (effect.tbl, effect.key) NOT IN (SELECT staged.tbl, staged.key FROM \(StagedSet.records(2)))
                AND EXISTS (SELECT 1 FROM tidemark.log AS log_entry
                    WHERE log_entry.zone = $1 AND log_entry.tbl = effect.tbl AND log_entry.key = effect.key
                        AND log_entry.revision > $3::bigint
                        AND (log_entry.merged OR log_entry.revision <> ALL ($4::bigint[])))
            """,
            [zoneName, sources.records, "\(sources.base)", Self.array(seenRevisions), PostgresArray.quoted(children)]
        )
        if let contended { try stageContended(contended) }
        guard try staged.hasContended() else { return [] }
        return try staged.contentions(histories(seenRevisions), stamp: Stamp(), isCascade: true)
    }
}

extension PostgresTransaction {
    /// Finds a record that the change set wrote and that is missing.
    private func findLost(_ table: SyncedTable, _ ord: Int) throws -> String? {
        guard let stored = self.table(table.name) else { return nil }
        return try pg.text(
            """
            SELECT staged.key
            FROM \(StagedSet.records(2))
            LEFT JOIN \(stored.name) AS app_row ON \(stored.matches("app_row"))
            WHERE $1::text IS NOT NULL
                AND staged.operation <> 'delete' AND app_row.tableoid IS NULL
            LIMIT 1
            """,
            [zoneName, PostgresText.records(table, ord, in: db)]
        )
    }
}
