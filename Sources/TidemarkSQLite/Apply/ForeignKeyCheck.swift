package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Finds references of staged records that point at nothing, and children left behind by staged
/// deletions.
package struct ForeignKeyCheck {
    /// A reference that points at nothing.
    package struct Broken: Hashable {
        /// The table of the child.
        package let table: String
        /// The child's key in canonical JSON.
        package let key: String
        /// The first column of the reference.
        package let column: String
        /// The table pointed at.
        package let parent: String
        /// The key or unique values pointed at, in canonical JSON.
        package let parentKey: String
        /// Whether the reference is to the parent's primary key, so that `parentKey` is its key.
        package let isToKey: Bool

        /// Names a reference.
        package init(table: String, key: String, column: String, parent: String, parentKey: String, isToKey: Bool) {
            self.table = table
            self.key = key
            self.column = column
            self.parent = parent
            self.parentKey = parentKey
            self.isToKey = isToKey
        }
    }

    private let db: Database
    private let schema: SyncSchema

    /// Makes a check for a prepared connection.
    package init(_ db: Database, schema: SyncSchema) { (self.db, self.schema) = (db, schema) }

    /// Whether the current transaction leaves references that point at nothing, told by SQLite's
    /// own counter.
    ///
    /// Needs `PRAGMA foreign_keys = ON` and `PRAGMA defer_foreign_keys = ON`. Costs nothing.
    package var hasUnresolved: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    /// The broken references of a table, found by looking at all its rows.
    ///
    /// For the path on which something is known to be wrong.
    package func broken(in table: SyncedTable, limit: Int = 20) throws -> [Broken] {
        try broken(of: table, rows: "main.\(SQLText.name(table.name)) AS c", limit: limit)
    }

    /// The broken references of those records of a table that `temp.tidemark_reduced` has, found by
    /// their keys.
    package func brokenAmongReduced(in table: SyncedTable, limit: Int = 20) throws -> [Broken] {
        try broken(
            of: table,
            rows: """
                temp.tidemark_reduced AS k CROSS JOIN main.\(SQLText.name(table.name)) AS c
                    ON k.tbl = \(SQLText.literal(table.name)) AND k.operation <> 'delete'
                        AND \(KeySQL.match(table, key: "k.key", alias: "c."))
                """,
            limit: limit
        )
    }

    private func broken(of table: SyncedTable, rows: String, limit: Int) throws -> [Broken] {
        try table.references.filter { $0.columns.count == 1 || !planted(PlantedBug.overlooksCompositeReferences) }
            .flatMap { reference in
                try Row.fetchAll(db.cachedStatement(sql: sql(table, reference, rows) + " LIMIT \(limit)")).map {
                    Broken(
                        table: table.name,
                        key: try $0.value("key"),
                        column: reference.columns[0],
                        parent: reference.parent,
                        parentKey: try $0.value("parent_key"),
                        isToKey: schema.byName[reference.parent]?.key == reference.parentColumns
                    )
                }
            }
    }

    /// The broken references of every table.
    package func all(limit: Int = 20) throws -> [Broken] {
        try schema.tables.flatMap { try broken(in: $0, limit: limit) }
    }

    private func sql(_ table: SyncedTable, _ reference: SyncedTable.Reference, _ rows: String) -> String {
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }
        let match = zip(columns, reference.parentColumns).map { "p.\(SQLText.name($1)) = \($0)" }
        return """
            SELECT \(RowJSON.key(table, alias: "c.")) AS key, tidemark_key(\(columns.joined(separator: ", "))) AS parent_key
            FROM \(rows)
            WHERE \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")) AND NOT EXISTS (
                SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS p WHERE \(match.joined(separator: " AND ")))
            """
    }
}
