import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// The truth for a refused change set, from which a device repairs itself without an undo log.
///
/// Every record that the change set touched comes as it is now: whole in `update`, or in `delete`
/// when there is none. With a refused deletion come the records that refer to it, and those that
/// refer to them, because the device's own cascade may have taken them along; with a refused unique
/// value comes its holder.
extension ZoneTransaction {
    package func refuse(_ envelope: SyncRequest.Envelope, device: String?, reasons: [ConflictReason], relatedMax: Int)
        throws -> String
    {
        let reasons = try staged.beginTruth(envelope.ord, reasons) { try holders($0, $1, envelope.ord) }
        try addChildren(relatedMax)
        try noteTruth()
        let body = try staged.renderTruth(AnswerEnvelope(id: envelope.id, reasons: reasons))
        try keep(envelope, device: device, refusal: body)
        if planted(PlantedBug.skipsRevision) { try db.execute(sql: "UPDATE tidemark_zone SET revision = revision + 1") }
        return body
    }

    /// Notes the records that the truth is about as they are now.
    func noteTruth() throws {
        for table in schema.tables {
            let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_truth AS w SET image = (
                            SELECT \(object) FROM main.\(SQLText.name(table.name)) AS t
                            WHERE \(KeySQL.match(table, key: "w.key", alias: "t."))),
                        revision = coalesce(
                            (SELECT max(revision) FROM tidemark_log AS l WHERE l.tbl = w.tbl AND l.key = w.key),
                            (SELECT adopted FROM tidemark_zone))
                    WHERE w.tbl = ?
                    """
            ).execute(arguments: [table.name])
        }
    }

    /// Adds the children of refused deletions, level by level.
    private func addChildren(_ relatedMax: Int) throws {
        guard relatedMax > 0 else { return }
        if planted(PlantedBug.leavesChildrenOutOfTruth) { return }
        var added = 1
        while added > 0 {
            added = 0
            for parent in schema.tables {
                for (child, reference) in schema.references(to: parent.name) {
                    let columns = zip(reference.columns, reference.parentColumns).map {
                        "c.\(SQLText.name($0)) = p.\(SQLText.name($1))"
                    }
                    try db.cachedStatement(
                        sql: """
                            INSERT INTO temp.tidemark_truth (tbl, key, follows)
                            SELECT \(SQLText.literal(child.name)), \(RowJSON.key(child, alias: "c.")), 1
                            FROM temp.tidemark_truth AS w
                            JOIN main.\(SQLText.name(parent.name)) AS p ON \(KeySQL.match(parent, key: "w.key", alias: "p."))
                            JOIN main.\(SQLText.name(child.name)) AS c ON \(columns.joined(separator: " AND "))
                            WHERE w.tbl = \(SQLText.literal(parent.name)) AND w.follows LIMIT \(relatedMax)
                            \(StagedRequest.followingToo)
                            """
                    ).execute()
                    added += db.changesCount
                }
            }
            let total = try Int.fetchOne(db.cachedStatement(sql: "SELECT count(*) FROM temp.tidemark_truth")) ?? 0
            if total > relatedMax { return }
        }
    }

    /// The records that hold the unique values which staged records wanted.
    ///
    /// A staged record that sets only a part of the columns wants its own row's values in the
    /// others. One that the same change set deletes, or gives other values, holds nothing.
    private func holders(_ table: SyncedTable, _ columns: [String], _ ord: Int) throws -> [String] {
        try String.fetchAll(db.cachedStatement(sql: holdersSQL(table, columns)), arguments: [ord])
    }

    private func holdersSQL(_ table: SyncedTable, _ columns: [String]) -> String {
        let name = "main.\(SQLText.name(table.name))"
        let literals = columns.map { SQLText.literal($0) }
        let cells = literals.indices.map {
            """
            LEFT JOIN temp.tidemark_staged_cell AS c\($0)
                ON c\($0).rec = s.rec AND c\($0).col = \(literals[$0])
            """
        }
        let wanted = columns.indices.map { index in
            let column = SQLText.name(columns[index])
            let missing = table.columns.first { $0.name == columns[index] }?.defaultSQL ?? "NULL"
            return """
                t.\(column) = CASE WHEN c\(index).rec IS NOT NULL THEN c\(index).value
                    WHEN s.operation = 'create' THEN (\(missing)) ELSE own.\(column) END
                """
        }
        return """
            SELECT DISTINCT \(RowJSON.key(table, alias: "t.")) AS holder
            FROM temp.tidemark_staged AS s \(cells.joined(separator: " "))
            LEFT JOIN \(name) AS own ON \(KeySQL.match(table, key: "s.key", alias: "own."))
            JOIN \(name) AS t ON \(wanted.joined(separator: " AND "))
            WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name)) AND s.operation <> 'delete'
                AND holder <> s.key
                AND NOT EXISTS (SELECT 1 FROM temp.tidemark_staged AS h
                    LEFT JOIN temp.tidemark_staged_cell AS m
                        ON m.rec = h.rec AND m.col IN (\(literals.joined(separator: ", ")))
                    WHERE h.ord = ?1 AND h.tbl = s.tbl AND h.key = holder
                        AND (h.operation = 'delete' OR h.operation = 'update' AND m.rec IS NOT NULL))
            ORDER BY length(holder), holder
            """
    }
}
