import GRDB
import TidemarkCore
import TidemarkSQL

/// Replaces temporary ids in the app's rows, which stay in their tables.
///
/// It runs one statement for the references of a table, and one for its keys. Only this file knows a temporary id, so
/// all rows that refer to it have pending changes. The outbox lists these rows, under their former keys.
struct RenameRows {
    let db: Database
    let schema: SyncSchema

    /// Writes the ids of `temp.tidemark_assigned`; throws `DatabaseError` if another row already has an id.
    func run() throws {
        let parents = try String.fetchSet(db, cached: "SELECT DISTINCT tbl FROM temp.tidemark_assigned")
        guard !parents.isEmpty else { return }
        for table in schema.tables { try renameReferences(of: table, to: parents) }
        for table in schema.tables where parents.contains(table.name) { try renameKeys(of: table) }
    }

    private func renameReferences(of table: SyncedTable, to parents: Set<String>) throws {
        var targets: [String: (value: String, isOld: String)] = [:]
        for (column, parent) in schema.integerReferences(of: table)
        where parents.contains(parent) && (table.keyKind != .integer || [column] != table.key) {
            let name = "app_row.\(SQLText.name(column))"
            let ids = "FROM temp.tidemark_assigned WHERE tbl = \(SQLText.literal(parent))"
            targets[column] = (
                "coalesce((SELECT permanent \(ids) AND temporary = \(name)), \(name))",
                "\(name) IN (SELECT temporary \(ids))"
            )
        }
        guard !targets.isEmpty else { return }
        let sorted = targets.sorted { $0.key < $1.key }
        let values = sorted.map { "\(SQLText.name($0.key)) = \($0.value.value)" }
        try db.execute(
            cached: """
                UPDATE \(table.abortClause) main.\(SQLText.name(table.name)) AS app_row
                SET \(values.joined(separator: ", "))
                FROM (SELECT DISTINCT key FROM tidemark_outbox WHERE tbl = ?) AS entry
                WHERE \(KeySQL.match(table, key: "entry.key", alias: "app_row."))
                    AND (\(sorted.map(\.value.isOld).joined(separator: " OR ")))
                """, arguments: [table.name])
    }

    func renameKeys(of table: SyncedTable) throws {
        let key = SQLText.name(table.key[0])
        try db.execute(
            cached: """
                UPDATE \(table.abortClause) main.\(SQLText.name(table.name)) AS app_row
                SET \(key) = assigned.permanent
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = ? AND app_row.\(key) = assigned.temporary
                """, arguments: [table.name])
    }
}
