import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// The truth for a refused change set, from which a device repairs itself without an undo log.
///
/// Every record that the change set touched comes as it is now; with a refused deletion the records
/// that refer to it, and those that refer to them; with a refused unique value its holder.
extension PostgresTransaction {
    func refuse(_ envelope: SyncRequest.Envelope, device: String?, reasons: [ConflictReason], relatedMax: Int) throws
        -> String
    {
        let reasons = try staged.beginTruth(envelope.ord, reasons) { try holders($0, $1, envelope.ord) }
        try addChildren(relatedMax)
        try noteTruth()
        let body = try staged.renderTruth(AnswerEnvelope(id: envelope.id, reasons: reasons))
        try keep(envelope, device: device, refusal: body)
        return body
    }

    /// Notes the records that the truth is about as they are now.
    ///
    /// - Throws: ``Overtaken`` when another program has committed a change of one of them that is
    ///   in no revision yet: whoever is told a row is told its revision.
    func noteTruth() throws {
        for (table, keys) in try truthKeys(follows: nil) {
            let found = try pg.query(
                """
                SELECT json_agg(json_build_array(k.key, CASE WHEN t.tableoid IS NOT NULL THEN \(table.rowJSON("t")) END,
                    coalesce((SELECT max(revision) FROM tidemark.log AS l
                        WHERE l.zone = $1 AND l.tbl = $3 AND l.key = k.key), $4::bigint))),
                    bool_or(EXISTS (SELECT 1 FROM tidemark.capture AS c WHERE c.zone = $1
                        AND c.xid <> pg_current_xact_id() AND c.tbl = $3 AND c.key = k.key))
                FROM \(KeySet.keys(2)) LEFT JOIN \(table.name) AS t ON \(KeySet.match(table, "t"))
                """,
                [zoneName, keys, table.table.name, "\(adopted)"]
            )[0]
            if found.isTrue(1) { throw Overtaken() }
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_truth AS w SET image = j.value ->> 1, revision = j.value ->> 2
                    FROM json_each(?2) AS j WHERE w.tbl = ?1 AND w.key = j.value ->> 0
                    """
            ).execute(arguments: [table.table.name, found[0] ?? "[]"])
        }
    }

    /// The keys of the truth by table, a JSON array each.
    private func truthKeys(follows: Bool?) throws -> [(PostgresTable, String)] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, json_group_array(key) AS keys FROM temp.tidemark_truth
                    WHERE follows = coalesce(?, follows) GROUP BY tbl
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
                    added += try addChildren(child, reference, of: parent, relatedMax)
                }
            }
            let total = try Int.fetchOne(db.cachedStatement(sql: "SELECT count(*) FROM temp.tidemark_truth")) ?? 0
            if total > relatedMax { return }
        }
    }

    private func addChildren(
        _ child: SyncedTable,
        _ reference: SyncedTable.Reference,
        of parent: PostgresTable,
        _ relatedMax: Int
    ) throws -> Int {
        guard let child = table(child.name), let keys = try truthKeys(follows: true).first(where: { $0.0 == parent })?.1
        else { return 0 }
        let match = zip(reference.columns, reference.parentColumns).map {
            "\(child.column($0, "c")) = \(parent.column($1, "p"))"
        }
        let found = try pg.query(
            """
            SELECT \(child.keyJSON("c")) FROM \(KeySet.keys(2))
            JOIN \(parent.name) AS p ON \(KeySet.match(parent, "p"))
            JOIN \(child.name) AS c ON \(([child.inZone("c")] + match).joined(separator: " AND "))
            WHERE $1::text IS NOT NULL LIMIT $3::int
            """,
            [zoneName, keys, "\(relatedMax)"]
        ).map { $0.text(0) }
        return try staged.addToTruth(child.table.name, found, follows: true)
    }

    // MARK: Unique values

    /// The records that hold the unique values which staged records wanted.
    private func holders(_ table: SyncedTable, _ columns: [String], _ ord: Int) throws -> [String] {
        guard let table = self.table(table.name) else { return [] }
        let wanted = columns.map { column in
            let missing = table.defaults[column].map { "(\($0))::\(table.type(column))" } ?? "NULL"
            return """
                \(table.column(column, "t")) = CASE WHEN s.v ? \(SQLText.literal(column)) THEN \(table.staged(column))
                    WHEN s.operation = 'create' THEN \(missing) ELSE \(table.column(column, "own")) END
                """
        }
        let found = try pg.query(
            """
            SELECT DISTINCT \(table.keyJSON("t")) FROM \(StagedSet.records(2))
            LEFT JOIN \(table.name) AS own ON \(table.matches("own"))
            JOIN \(table.name) AS t ON \(([table.inZone("t")] + wanted).joined(separator: " AND "))
            WHERE $1::text IS NOT NULL AND s.operation <> 'delete' AND \(table.keyJSON("t")) <> s.key
            """,
            [zoneName, try PostgresText.records(table.table, ord, in: db)]
        ).map { $0.text(0) }
        return try withoutLeaving(found, table.table.name, columns, ord)
    }

    /// A record that the same change set deletes, or gives other values, holds nothing.
    private func withoutLeaving(_ keys: [String], _ table: String, _ columns: [String], _ ord: Int) throws -> [String] {
        let list = { (texts: [String]) in "[" + texts.map(ChangeSetJSON.quote).joined(separator: ",") + "]" }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT value FROM json_each(?1) WHERE NOT EXISTS (
                        SELECT 1 FROM temp.tidemark_staged AS h
                        LEFT JOIN temp.tidemark_staged_cell AS m
                            ON m.rec = h.rec AND m.col IN (SELECT value FROM json_each(?2))
                        WHERE h.ord = ?3 AND h.tbl = ?4 AND h.key = json_each.value
                            AND (h.operation = 'delete' OR h.operation = 'update' AND m.rec IS NOT NULL))
                    ORDER BY length(value), value
                    """
            ),
            arguments: [list(keys), list(columns), ord, table]
        )
    }
}
