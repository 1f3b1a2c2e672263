package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Finds broken references of staged records, and of children of deleted records.
package struct ForeignKeyCheck {
    private let db: Database
    private let schema: SyncSchema

    /// Creates a check for a prepared connection.
    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Whether the current transaction has broken references, by SQLite's own counter.
    ///
    /// Needs `PRAGMA foreign_keys = ON` and `PRAGMA defer_foreign_keys = ON`. Reads no rows.
    package var hasUnresolvedReferences: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    /// Makes SQLite forget its count of the transaction's broken references.
    ///
    /// Call this only if a scan has found none but those in which 0 stands for no record. A reference that is
    /// declared DEFERRABLE stays in the count.
    package func forgetUnresolvedReferences() throws {
        try ConnectionFlag.deferForeignKeys.set(false, in: db)
        try ConnectionFlag.deferForeignKeys.set(true, in: db)
    }

    /// Returns the broken references of a table, by a scan of all its rows.
    ///
    /// Call this only after ``hasUnresolvedReferences`` or another check failed.
    package func brokenReferences(in table: SyncedTable, limit: Int = 20) throws -> [BrokenReference] {
        try brokenReferences(of: table, rows: "main.\(SQLText.name(table.name)) AS c", limit: limit)
    }

    /// Returns the broken references of records of a table.
    package func brokenReferences(in table: SyncedTable, keys: [String], limit: Int = 20) throws -> [BrokenReference] {
        try brokenReferences(
            of: table,
            rows: """
                json_each(?) AS k CROSS JOIN main.\(SQLText.name(table.name)) AS c
                    ON \(KeySQL.match(table, key: "k.value", alias: "c."))
                """,
            arguments: [JSONText.array(keys.map(JSONText.quote))],
            limit: limit
        )
    }

    private func brokenReferences(
        of table: SyncedTable,
        rows: String,
        arguments: StatementArguments = [],
        limit: Int
    ) throws -> [BrokenReference] {
        try table.references.filter { $0.columns.count == 1 || !planted(PlantedBug.overlooksCompositeReferences) }
            .flatMap { reference in
                try Row.fetchAll(
                    db.cachedStatement(sql: sql(table, reference: reference, rows: rows) + " LIMIT \(limit)"),
                    arguments: arguments
                ).map {
                    BrokenReference(
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

    /// Returns the broken references of all tables.
    package func all(limit: Int = 20) throws -> [BrokenReference] {
        try schema.tables.flatMap { try brokenReferences(in: $0, limit: limit) }
    }

    private func sql(_ table: SyncedTable, reference: SyncedTable.Reference, rows: String) -> String {
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }
        let isNone = table.allowsZero(in: reference) ? "AND \(columns[0]) IS NOT 0 " : ""
        let match = zip(columns, reference.parentColumns).map { "p.\(SQLText.name($1)) = \($0)" }
        return """
            SELECT \(RowJSON.key(table, alias: "c.")) AS key,
                tidemark_key(\(columns.joined(separator: ", "))) AS parent_key
            FROM \(rows)
            WHERE \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")) \(isNone)AND NOT EXISTS (
                SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS p WHERE \(match.joined(separator: " AND ")))
            """
    }
}
