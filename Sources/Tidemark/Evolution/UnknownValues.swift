import GRDB
import TidemarkCore
import TidemarkSQLite

/// The side table: what the zone has in columns and tables that this file does not have.
///
/// A row is a value. A record of an unknown table has one more under the empty name, so that it is
/// there even if it is all key. The values are the zone's, confirmed, at the file's revision; they
/// go into the rows when the app's migration has made a place for them.
struct UnknownValues {
    let db: Database
    let schema: SyncSchema

    /// Stands for the record itself.
    static let presence = ""

    /// Takes the values out of the staged change set `ord`.
    func take(ord: Int) throws {
        guard schema.difference.hasUnknown else { return }
        // A creation stands for the whole record.
        try db.execute(
            sql: """
                DELETE FROM tidemark_unknown WHERE EXISTS (
                    SELECT 1 FROM temp.tidemark_staged AS s
                    WHERE s.ord = ? AND s.tbl = tidemark_unknown.tbl AND s.key = tidemark_unknown.key
                        AND s.operation <> 'update')
                """,
            arguments: [ord]
        )
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO tidemark_unknown (tbl, key, col, value)
                SELECT s.tbl, s.key, c.col, c.value
                FROM temp.tidemark_staged AS s
                JOIN temp.tidemark_staged_cell AS c ON c.rec = \(StagingTables.cells(of: "s"))
                WHERE s.ord = ? AND s.operation <> 'delete' AND (s.tbl, c.col) IN (\(columns))
                UNION ALL
                SELECT tbl, key, '\(Self.presence)', NULL FROM temp.tidemark_staged
                WHERE ord = ?1 AND operation <> 'delete' AND tbl IN (\(tables))
                """,
            arguments: [ord]
        )
    }

    /// Replaces everything by what the attached snapshot has.
    func takeSnapshot() throws {
        try db.execute(sql: "DELETE FROM tidemark_unknown")
        for table in schema.tables {
            let names = schema.difference.wireNames[table.name, default: [:]]
            let key = table.key.map { SQLText.name(names[$0] ?? $0) }.joined(separator: ", ")
            for column in schema.difference.unknownColumns[table.name, default: []] {
                try copy(table.name, key: "tidemark_key(\(key))", column.name)
            }
        }
        for table in schema.difference.unknownTables {
            let key = RowJSON.key(table)
            try copy(table.name, key: key, nil)
            for column in table.valueColumns { try copy(table.name, key: key, column.name) }
        }
    }

    /// Lets the values follow columns that the zone has renamed, given by table and former name.
    static func rename(_ names: [String: [String: String]], in db: Database) throws {
        if planted(PlantedBug.forgetsRenamedValues) { return }
        for (table, columns) in names.sorted(by: { $0.key < $1.key }) {
            for (old, new) in columns.sorted(by: { $0.key < $1.key }) {
                try db.execute(
                    sql: "UPDATE OR IGNORE tidemark_unknown SET col = ? WHERE tbl = ? AND col = ?",
                    arguments: [new, table, old]
                )
            }
        }
    }

    private func copy(_ table: String, key: String, _ column: String?) throws {
        try db.execute(
            sql: """
                INSERT INTO tidemark_unknown (tbl, key, col, value)
                SELECT \(SQLText.literal(table)), \(key), \(SQLText.literal(column ?? Self.presence)),
                    \(column.map(SQLText.name) ?? "NULL")
                FROM snapshot.\(SQLText.name(table))
                """
        )
    }

    /// Removes values that the file has a place for by now, and those that the zone has no longer.
    func forgetOthers() throws {
        try db.execute(
            sql: """
                DELETE FROM tidemark_unknown
                WHERE (tbl, col) NOT IN (\(columns)) AND NOT (col = '\(Self.presence)' AND tbl IN (\(tables)))
                """
        )
    }

    // MARK: Lists

    private var columns: String {
        let known = schema.difference.unknownColumns.sorted { $0.key < $1.key }.flatMap { table, columns in
            columns.map { (table, $0.name) }
        }
        let others = schema.difference.unknownTables.flatMap { table in table.valueColumns.map { (table.name, $0.name) }
        }
        let rows = (known + others).map { "(\(SQLText.literal($0)), \(SQLText.literal($1)))" }
        return rows.isEmpty ? "SELECT NULL, NULL WHERE false" : "VALUES \(rows.joined(separator: ", "))"
    }

    private var tables: String {
        schema.difference.unknownTables.map { SQLText.literal($0.name) }.joined(separator: ", ")
    }
}
