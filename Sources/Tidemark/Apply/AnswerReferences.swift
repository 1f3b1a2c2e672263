import GRDB
import TidemarkCore
import TidemarkSQL

/// Checks that an answer broke no reference.
///
/// The server has judged the references, and the device applies with `foreign_keys` off. This second
/// check keeps a broken or hostile answer out. It looks only at the staged records, by key.
struct AnswerReferences {
    let db: Database
    let schema: SyncSchema

    /// Checks the records staged as `ord`, after they are written and before edits are replayed.
    func check(ord: Int) throws {
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT tbl, max(operation <> 'delete') AS written, max(operation = 'delete') AS deleted
                FROM temp.tidemark_staged
                WHERE ord = ?
                GROUP BY tbl
                """, arguments: [ord])
        let writtenTables = try Set(rows.filter { try $0.value("written") }.map { try $0.value("tbl") as String })
        let deletedTables = try Set(rows.filter { try $0.value("deleted") }.map { try $0.value("tbl") as String })
        for table in schema.tables {
            for reference in table.references {
                guard let parent = schema.byName[reference.parent] else { continue }
                if writtenTables.contains(table.name) { try refuse(table, in: orphanSQL(table, reference), ord) }
                if deletedTables.contains(parent.name), Set(reference.parentColumns).isSubset(of: parent.key) {
                    try refuse(table, in: abandonedSQL(table, reference), ord)
                }
            }
        }
    }

    /// Selects written records with a reference to a missing record.
    private func orphanSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String {
        let columns = reference.columns.map { "child_row.\(SQLText.name($0))" }
        let parents = zip(reference.parentColumns, columns).map { "parent_row.\(SQLText.name($0)) = \($1)" }
        return """
            SELECT staged.key
            FROM temp.tidemark_staged AS staged
            JOIN main.\(SQLText.name(table.name)) AS child_row
                ON \(KeySQL.match(table, key: "staged.key", alias: "child_row."))
            WHERE staged.ord = ?1 AND staged.tbl = \(SQLText.literal(table.name)) AND staged.operation <> 'delete'
                AND \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                AND \(table.allowsZero(in: reference) ? "\(columns[0]) IS NOT 0" : "true")
                AND NOT EXISTS (
                    SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS parent_row
                    WHERE \(parents.joined(separator: " AND ")))
            LIMIT 1
            """
    }

    /// Selects records that refer to a deleted record.
    private func abandonedSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String {
        let indices = reference.columns.indices
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }.joined(separator: ", ")
        let values = indices.map { "cell\($0).value" }.joined(separator: ", ")
        let cells = indices.map {
            """
            JOIN temp.tidemark_staged_cell AS cell\($0)
                ON cell\($0).rec = \(StagingTables.cells(of: "staged"))
                AND cell\($0).col = \(SQLText.literal(reference.parentColumns[$0]))
            """
        }
        return """
            SELECT NULL AS key FROM main.\(SQLText.name(table.name)) AS c
            WHERE \(table.allowsZero(in: reference) ? "\(columns) <> 0 AND " : "")\
            \(indices.count == 1 ? columns : "(\(columns))") IN (
                SELECT \(values)
                FROM temp.tidemark_staged AS staged \(cells.joined(separator: " "))
                WHERE staged.ord = ?1 AND staged.tbl = \(SQLText.literal(reference.parent))
                    AND staged.operation = 'delete'
            )
            LIMIT 1
            """
    }

    private func refuse(_ table: SyncedTable, in sql: String, _ ord: Int) throws {
        guard let row = try Row.fetchOne(db, cached: sql, arguments: [ord]) else { return }
        throw AnswerCheck.inapplicable(
            "A record would refer to a missing record.", place: try .init(table: table.name, key: row.value("key")))
    }
}
