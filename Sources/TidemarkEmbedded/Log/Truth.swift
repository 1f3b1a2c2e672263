import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// The truth for a refused change set: a device repairs itself with it and needs no undo log.
///
/// It has every record that the change set touched: whole in `update`, or in `delete` if the server
/// has no such record. A refused deletion adds the records that refer to it, directly or through
/// others, because the device's cascade may have deleted them. A refused unique value adds the record
/// that holds it.
extension ZoneTransaction {
    package func refuse(
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
        try runPlanted(PlantedBug.skipsRevision, in: db)
        return body
    }

    /// Adds the current row and revision to each record of the truth.
    func noteTruth() throws {
        for table in schema.tables {
            let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "current_row.")
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_truth AS truth
                    SET image = (
                            SELECT \(object)
                            FROM main.\(SQLText.name(table.name)) AS current_row
                            WHERE \(KeySQL.match(table, key: "truth.key", alias: "current_row."))),
                        revision = coalesce(
                            (SELECT max(revision)
                            FROM tidemark_log AS log_entry
                            WHERE log_entry.tbl = truth.tbl AND log_entry.key = truth.key),
                            (SELECT adopted FROM tidemark_zone))
                    WHERE truth.tbl = ?
                    """
            ).execute(arguments: [table.name])
        }
    }

    /// Adds the children of refused deletions, level by level.
    private func addChildren(_ relatedMax: Int) throws {
        guard relatedMax > 0 else { return }
        if planted(PlantedBug.leavesChildrenOutOfTruth) { return }
        var addedCount = 1
        while addedCount > 0 {
            addedCount = 0
            for parent in schema.tables {
                for (child, reference) in schema.references(to: parent.name) {
                    let columns = zip(reference.columns, reference.parentColumns).map {
                        "child_row.\(SQLText.name($0)) = parent_row.\(SQLText.name($1))"
                    }
                    try db.cachedStatement(
                        sql: """
                            INSERT INTO temp.tidemark_truth (tbl, key, follows)
                            SELECT \(SQLText.literal(child.name)), \(RowJSON.key(child, alias: "child_row.")), 1
                            FROM temp.tidemark_truth AS truth
                            JOIN main.\(SQLText.name(parent.name)) AS parent_row
                                ON \(KeySQL.match(parent, key: "truth.key", alias: "parent_row."))
                            JOIN main.\(SQLText.name(child.name)) AS child_row
                                ON \(columns.joined(separator: " AND "))
                            WHERE truth.tbl = \(SQLText.literal(parent.name)) AND truth.follows
                            LIMIT \(relatedMax)
                            \(StagedRequest.followingToo)
                            """
                    ).execute()
                    addedCount += db.changesCount
                }
            }
            let total = try Int.fetchOne(db.cachedStatement(sql: "SELECT count(*) FROM temp.tidemark_truth")) ?? 0
            if total > relatedMax { return }
        }
    }

    /// Returns the keys of the records that hold the unique values of staged records.
    ///
    /// A staged record that sets only some columns keeps its row's values in the others. A record
    /// that the same change set deletes, or gives other values, does not count as a holder.
    private func holders(_ table: SyncedTable, columns: [String], ord: Int) throws -> [String] {
        try String.fetchAll(db.cachedStatement(sql: holdersSQL(table, columns)), arguments: [ord])
    }

    private func holdersSQL(_ table: SyncedTable, _ columns: [String]) -> String {
        let name = "main.\(SQLText.name(table.name))"
        let literals = columns.map { SQLText.literal($0) }
        let cells = literals.indices.map {
            """
            LEFT JOIN temp.tidemark_staged_cell AS cell\($0)
                ON cell\($0).rec = staged.rec AND cell\($0).col = \(literals[$0])
            """
        }
        let matches = columns.indices.map { index in
            let column = SQLText.name(columns[index])
            let defaultSQL = table.columns.first { $0.name == columns[index] }?.defaultSQL ?? "NULL"
            return """
                holder_row.\(column) = CASE
                    WHEN cell\(index).rec IS NOT NULL THEN cell\(index).value
                    WHEN staged.operation = 'create' THEN (\(defaultSQL))
                    ELSE own_row.\(column) END
                """
        }
        return """
            SELECT DISTINCT \(RowJSON.key(table, alias: "holder_row.")) AS tidemark_holder
            FROM temp.tidemark_staged AS staged
            \(cells.joined(separator: " "))
            LEFT JOIN \(name) AS own_row ON \(KeySQL.match(table, key: "staged.key", alias: "own_row."))
            JOIN \(name) AS holder_row ON \(matches.joined(separator: " AND "))
            WHERE staged.ord = ?1
                AND staged.tbl = \(SQLText.literal(table.name))
                AND staged.operation <> 'delete'
                AND tidemark_holder <> staged.key
                AND NOT EXISTS (
                    SELECT 1
                    FROM temp.tidemark_staged AS staged_holder
                    LEFT JOIN temp.tidemark_staged_cell AS new_cell
                        ON new_cell.rec = staged_holder.rec
                            AND new_cell.col IN (\(literals.joined(separator: ", ")))
                    WHERE staged_holder.ord = ?1
                        AND staged_holder.tbl = staged.tbl
                        AND staged_holder.key = tidemark_holder
                        AND (staged_holder.operation = 'delete'
                            OR staged_holder.operation = 'update' AND new_cell.rec IS NOT NULL))
            ORDER BY length(tidemark_holder), tidemark_holder
            """
    }
}
