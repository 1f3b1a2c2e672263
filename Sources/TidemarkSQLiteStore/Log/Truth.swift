import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// The truth for a refused change set, from which a device repairs itself without an undo log.
///
/// Every record that the change set touched comes as it is now: whole in `update`, or in `delete`
/// when there is none. With a refused deletion come the records that refer to it, and those that
/// refer to them, because the device's own cascade may have taken them along; with a refused unique
/// value comes its holder.
extension ZoneTransaction {
    package func refuse(
        _ envelope: SyncRequest.Envelope,
        device: String?,
        reasons: [ConflictReason]
    ) throws -> String {
        try CommitTables.clear("truth", in: db)
        try nameKnownIdentities(envelope.ord)
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_truth
                SELECT tbl, key, operation = 'delete' FROM temp.tidemark_staged WHERE ord = ?
                """
        ).execute(arguments: [envelope.ord])
        for reason in reasons where !reason.key.isEmpty {
            try add(reason.table, reason.key)
        }
        let reasons = try reasons.flatMap { reason in
            reason.rule == ConflictRule.unique.rawValue && reason.key.isEmpty
                ? try holders(reason, envelope.ord) : [reason]
        }
        try addChildren()
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_truth")
        )
        let sources = schema.tables.filter { names.contains($0.name) }.map {
            ChangeSetJSON.Source(truth: $0)
        }
        let body = try ChangeSetJSON.render(
            envelope: AnswerEnvelope(id: envelope.id, reasons: reasons).members,
            sources,
            in: db
        )
        try keep(envelope, device: device, revision: nil, body: body)
        if planted(PlantedBug.skipsRevision) {
            try db.execute(sql: "UPDATE tidemark_zone SET revision = revision + 1")
        }
        return body
    }

    private func add(_ table: String, _ key: String) throws {
        try db.cachedStatement(sql: "INSERT OR IGNORE INTO temp.tidemark_truth VALUES (?, ?, 0)")
            .execute(
                arguments: [table, key])
    }

    /// Adds the children of refused deletions, level by level.
    private func addChildren() throws {
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
                            INSERT OR IGNORE INTO temp.tidemark_truth
                            SELECT \(SQLText.literal(child.name)), \(RowJSON.key(child, alias: "c.")), 1
                            FROM temp.tidemark_truth AS w
                            JOIN main.\(SQLText.name(parent.name)) AS p ON \(KeySQL.match(parent, key: "w.key", alias: "p."))
                            JOIN main.\(SQLText.name(child.name)) AS c ON \(columns.joined(separator: " AND "))
                            WHERE w.tbl = \(SQLText.literal(parent.name)) AND w.follows LIMIT \(Limits.standard.relatedRecordsMax)
                            """
                    ).execute()
                    added += db.changesCount
                }
            }
            let total =
                try Int.fetchOne(
                    db.cachedStatement(sql: "SELECT count(*) FROM temp.tidemark_truth")
                ) ?? 0
            if total > Limits.standard.relatedRecordsMax { return }
        }
    }

    /// Adds the records that hold the unique values which staged records wanted, and names them in
    /// the reason.
    ///
    /// Where a staged record sets only a part of the values, its holder is not looked for.
    private func holders(_ reason: ConflictReason, _ ord: Int) throws -> [ConflictReason] {
        guard let table = schema.byName[reason.table], !reason.columns.isEmpty else {
            return [reason]
        }
        let cells = reason.columns.indices.map {
            """
            JOIN temp.tidemark_staged_cell AS c\($0)
                ON c\($0).rec = s.rec AND c\($0).col = \(SQLText.literal(reason.columns[$0]))
            """
        }
        let match = reason.columns.indices.map {
            "t.\(SQLText.name(reason.columns[$0])) = c\($0).value"
        }
        let keys = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT \(RowJSON.key(table, alias: "t.")) AS holder
                    FROM temp.tidemark_staged AS s \(cells.joined(separator: " "))
                    JOIN main.\(SQLText.name(table.name)) AS t ON \(match.joined(separator: " AND "))
                    WHERE s.ord = ? AND s.tbl = \(SQLText.literal(table.name)) AND holder <> s.key
                    """
            ),
            arguments: [ord]
        )
        for key in keys { try add(table.name, key) }
        guard !keys.isEmpty else { return [reason] }
        return keys.map {
            ConflictReason(table: table.name, key: $0, columns: reason.columns, rule: .unique)
        }
    }
}
