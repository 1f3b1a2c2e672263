import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Collects the truth for a refused change set, so that devices need no undo log.
///
/// It has the current row of each record in the change set. A refused deletion adds the referring
/// records, level by level. A refused unique value adds the record that holds the value.
extension PostgresTransaction {
    func refuse(
        _ envelope: SyncRequest.Envelope,
        of request: SyncRequest,
        reasons: [ConflictReason],
        relatedMax: Int
    ) throws -> String {
        let reasons = try staged.beginTruth(envelope.ord, reasons) { try holders($0, columns: $1, ord: envelope.ord) }
        try addChildren(relatedMax)
        try noteTruth()
        let body = try staged.renderTruth(AnswerEnvelope(id: envelope.id, reasons: reasons))
        try keep(envelope, device: request.device, refusal: body)
        try keepSent(envelope, base: request.maxRevision)
        return body
    }

    /// Adds the current row and revision of each record in the truth.
    ///
    /// - Throws: ``Overtaken`` if another program committed an unabsorbed change of one of them,
    ///   because the row would not match the revision.
    func noteTruth() throws {
        for (table, keys) in try truthKeys(follows: nil) {
            let result = try pg.query(
                """
                SELECT json_agg(json_build_array(
                        wanted.key,
                        CASE WHEN app_row.tableoid IS NOT NULL THEN \(table.rowJSON("app_row")) END,
                        coalesce((SELECT max(revision) FROM tidemark.log AS log_entry
                            WHERE log_entry.zone = $1 AND log_entry.tbl = $3 AND log_entry.key = wanted.key),
                            $4::bigint))),
                    (SELECT bool_or(other.key IN (SELECT jsonb_array_elements_text($2::jsonb)))
                        FROM tidemark.capture AS other
                        WHERE other.zone = $1 AND other.xid <> pg_current_xact_id() AND other.tbl = $3)
                FROM \(KeySet.keys(2))
                LEFT JOIN \(table.name) AS app_row ON \(KeySet.match(table, "app_row"))
                """,
                [zoneName, keys, table.table.name, "\(adopted)"]
            )[0]
            if result.isTrue(1) { throw Overtaken() }
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_truth (tbl, key, follows, image, revision)
                    SELECT ?1, value ->> 0, 0, value ->> 1, value ->> 2
                    FROM json_each(?2)
                    WHERE true
                    ON CONFLICT (tbl, key) DO UPDATE SET image = excluded.image, revision = excluded.revision
                    """
            ).execute(arguments: [table.table.name, result[0] ?? "[]"])
        }
    }

    /// Returns the keys of the truth by table, a JSON array each.
    private func truthKeys(follows: Bool?) throws -> [(PostgresTable, String)] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, json_group_array(key) AS keys
                    FROM temp.tidemark_truth
                    WHERE follows = coalesce(?, follows)
                    GROUP BY tbl
                    """
            ),
            arguments: [follows]
        ).compactMap { row in table(row["tbl"]).map { ($0, row["keys"]) } }
    }

    /// Adds the children of refused deletions, level by level.
    private func addChildren(_ relatedMax: Int) throws {
        guard relatedMax > 0 else { return }
        var added = 1
        while added > 0 {
            added = 0
            for parent in schema.tables.compactMap({ table($0.name) }) {
                for (child, reference) in schema.references(to: parent.table.name) {
                    added += try addChildren(child, reference: reference, of: parent, relatedMax: relatedMax)
                }
            }
            let total = try Int.fetchOne(db.cachedStatement(sql: "SELECT count(*) FROM temp.tidemark_truth")) ?? 0
            if total > relatedMax { return }
        }
    }

    private func addChildren(
        _ child: SyncedTable,
        reference: SyncedTable.Reference,
        of parent: PostgresTable,
        relatedMax: Int
    ) throws -> Int {
        guard let child = table(child.name), let keys = try truthKeys(follows: true).first(where: { $0.0 == parent })?.1
        else { return 0 }
        let match = zip(reference.columns, reference.parentColumns).map {
            "\(child.column($0, "child_row")) = \(parent.column($1, "parent_row"))"
        }
        let childKeys = try pg.query(
            """
            SELECT \(child.keyJSON("child_row"))
            FROM \(KeySet.keys(2))
            JOIN \(parent.name) AS parent_row ON \(KeySet.match(parent, "parent_row"))
            JOIN \(child.name) AS child_row ON \(([child.inZone("child_row")] + match).joined(separator: " AND "))
            WHERE $1::text IS NOT NULL
            LIMIT $3::int
            """,
            [zoneName, keys, "\(relatedMax)"]
        ).map { $0.text(0) }
        return try staged.addToTruth(child.table.name, childKeys, follows: true)
    }

    // MARK: Unique values

    /// Finds the records that hold the unique values of staged records.
    private func holders(_ table: SyncedTable, columns: [String], ord: Int) throws -> [String] {
        guard let table = self.table(table.name) else { return [] }
        let sameValues = columns.map { column in
            let missing = table.defaults[column].map { "(\($0))::\(table.type(column))" } ?? "NULL"
            return """
                \(table.column(column, "app_row")) = CASE
                    WHEN staged.v ? \(SQLText.literal(column)) THEN \(table.comparable(column))
                    WHEN staged.operation = 'create' THEN \(missing)
                    ELSE \(table.column(column, "own")) END
                """
        }
        let keys = try pg.query(
            """
            SELECT DISTINCT \(table.keyJSON("app_row"))
            FROM \(StagedSet.records(2))
            LEFT JOIN \(table.name) AS own ON \(table.matches("own"))
            JOIN \(table.name) AS app_row
                ON \(([table.inZone("app_row")] + sameValues).joined(separator: " AND "))
            WHERE $1::text IS NOT NULL
                AND staged.operation <> 'delete' AND \(table.keyJSON("app_row")) <> staged.key
            """,
            [zoneName, try PostgresText.records(table.table, ord, in: db)]
        ).map { $0.text(0) }
        return try withoutReleasing(keys, table: table.table.name, columns: columns, ord: ord)
    }

    /// Removes records whose values the same change set releases, by a deletion or an update.
    private func withoutReleasing(_ keys: [String], table: String, columns: [String], ord: Int) throws -> [String] {
        let list = { (texts: [String]) in "[" + texts.map(ChangeSetJSON.quote).joined(separator: ",") + "]" }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT value
                    FROM json_each(?1)
                    WHERE NOT EXISTS (
                        SELECT 1
                        FROM temp.tidemark_staged AS holder
                        LEFT JOIN temp.tidemark_staged_cell AS cell
                            ON cell.rec = holder.rec AND cell.col IN (SELECT value FROM json_each(?2))
                        WHERE holder.ord = ?3 AND holder.tbl = ?4 AND holder.key = json_each.value
                            AND (holder.operation = 'delete'
                                OR holder.operation = 'update' AND cell.rec IS NOT NULL))
                    ORDER BY length(value), value
                    """
            ),
            arguments: [list(keys), list(columns), ord, table]
        )
    }
}
