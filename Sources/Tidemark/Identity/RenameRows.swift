import GRDB
import TidemarkCore
import TidemarkSQLite

/// Permanent ids for the rows themselves, where they stay in the tables: one statement a table for
/// its references, one for its keys.
///
/// A temporary id is known to this file alone, so whatever refers to it was written here and waits:
/// the outbox names the rows to look at, under the keys that it still has.
struct RenameRows {
    let db: Database
    let schema: SyncSchema

    /// Puts the ids that `temp.tidemark_assigned` lists in the place of the old ones.
    ///
    /// - Throws: `DatabaseError` when an id is another row's already.
    func run() throws {
        let parents = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_assigned"))
        guard !parents.isEmpty else { return }
        for table in schema.tables { try renameReferences(of: table, to: parents) }
        for table in schema.tables where parents.contains(table.name) { try renameKeys(of: table) }
    }

    private func renameReferences(of table: SyncedTable, to parents: Set<String>) throws {
        var targets: [String: (value: String, isOld: String)] = [:]
        for (column, parent) in Catalog.integerReferences(of: table, in: schema)
        where parents.contains(parent) && (table.keyKind != .integer || [column] != table.key) {
            let name = "t.\(SQLText.name(column))"
            let ids = "FROM temp.tidemark_assigned WHERE tbl = \(SQLText.literal(parent))"
            targets[column] = (
                "coalesce((SELECT permanent \(ids) AND temporary = \(name)), \(name))",
                "\(name) IN (SELECT temporary \(ids))"
            )
        }
        guard !targets.isEmpty else { return }
        let sorted = targets.sorted { $0.key < $1.key }
        let values = sorted.map { "\(SQLText.name($0.key)) = \($0.value.value)" }
        try db.cachedStatement(
            sql: """
                UPDATE OR ABORT main.\(SQLText.name(table.name)) AS t SET \(values.joined(separator: ", "))
                FROM (SELECT DISTINCT key FROM tidemark_outbox WHERE tbl = ?) AS o
                WHERE \(KeySQL.match(table, key: "o.key", alias: "t."))
                    AND (\(sorted.map(\.value.isOld).joined(separator: " OR ")))
                """
        ).execute(arguments: [table.name])
    }

    private func renameKeys(of table: SyncedTable) throws {
        let key = SQLText.name(table.key[0])
        try db.cachedStatement(
            sql: """
                UPDATE OR ABORT main.\(SQLText.name(table.name)) AS t SET \(key) = m.permanent
                FROM temp.tidemark_assigned AS m WHERE m.tbl = ? AND t.\(key) = m.temporary
                """
        ).execute(arguments: [table.name])
    }
}
