import GRDB
import TidemarkCore
import TidemarkSQLite

/// Whether what an answer wrote leaves every reference whole.
///
/// The server has judged them, and a device applies with `foreign_keys` off; this is the second
/// look that keeps a broken or hostile answer out. Only what was written is looked at, through the
/// keys.
struct AnswerReferences {
    let db: Database
    let schema: SyncSchema

    /// Checks the records staged as `ord`, when they have been written and no edit of the device's
    /// own is in the tables.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `invalidResponse`.
    func check(ord: Int) throws {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, max(operation <> 'delete') AS written,
                        max(operation = 'delete') AS deleted
                    FROM temp.tidemark_staged WHERE ord = ? GROUP BY tbl
                    """
            ),
            arguments: [ord]
        )
        let written = try Set(rows.filter { try $0.value("written") }.map { try $0.value("tbl") as String })
        let deleted = try Set(rows.filter { try $0.value("deleted") }.map { try $0.value("tbl") as String })
        for table in schema.tables {
            for reference in table.references {
                guard let parent = schema.byName[reference.parent] else { continue }
                if written.contains(table.name) { try refuse(table, in: writtenSQL(table, reference), ord) }
                if deleted.contains(parent.name), Set(reference.parentColumns).isSubset(of: parent.key) {
                    try refuse(table, in: deletedSQL(table, reference), ord)
                }
            }
        }
    }

    /// The written records that refer to nothing.
    private func writtenSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String {
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }
        let parents = zip(reference.parentColumns, columns).map { "p.\(SQLText.name($0)) = \($1)" }
        return """
            SELECT s.key FROM temp.tidemark_staged AS s JOIN main.\(SQLText.name(table.name)) AS c
                ON \(KeySQL.match(table, key: "s.key", alias: "c."))
            WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name)) AND s.operation <> 'delete'
                AND \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                AND NOT EXISTS (SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS p
                    WHERE \(parents.joined(separator: " AND "))) LIMIT 1
            """
    }

    /// The records that refer to a deleted one.
    private func deletedSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String {
        let indices = reference.columns.indices
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }.joined(separator: ", ")
        let values = indices.map { "k\($0).value" }.joined(separator: ", ")
        let cells = indices.map {
            """
            JOIN temp.tidemark_staged_cell AS k\($0)
                ON k\($0).rec = \(StagingTables.cells(of: "s")) AND k\($0).col = \(SQLText.literal(reference.parentColumns[$0]))
            """
        }
        return """
            SELECT NULL AS key FROM main.\(SQLText.name(table.name)) AS c
            WHERE \(indices.count == 1 ? columns : "(\(columns))") IN (
                SELECT \(values) FROM temp.tidemark_staged AS s \(cells.joined(separator: " "))
                WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(reference.parent)) AND s.operation = 'delete'
            ) LIMIT 1
            """
    }

    private func refuse(_ table: SyncedTable, in sql: String, _ ord: Int) throws {
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [ord]) else { return }
        throw AnswerCheck.inapplicable(
            "A record would refer to one that is not there.",
            place: try .init(table: table.name, key: row.value("key"))
        )
    }
}
