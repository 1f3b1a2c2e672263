import GRDB
import TidemarkCore
import TidemarkSQL

/// The side table `tidemark_unknown`: the zone's values of columns and tables that this file lacks.
///
/// Each row is one value. A record of an unknown table has one more row, under the empty column name,
/// so that it exists even without value columns. The values are confirmed, at the file's revision.
/// The device moves them to the app's rows after a migration adds the columns or tables.
struct UnknownValues {
    let db: Database
    let schema: SyncSchema
    /// The column name that stands for the record itself.
    static let presenceColumn = ""

    /// Stores the values of columns and tables that only the zone has, of a change set of the zone.
    func store(_ changeSet: PendingChangeSet) throws {
        guard schema.difference.hasUnknown else { return }
        let remove = "DELETE FROM tidemark_unknown WHERE tbl = ? AND key = ?"
        let insert = try BoundStatement(
            "INSERT OR REPLACE INTO tidemark_unknown (tbl, key, col, value) VALUES (?, ?, ?, ?)", in: db)
        for record in changeSet.records {
            let names = changeSet.changeSet.names.tables[record.table]
            let isUnknown = record.table >= schema.tables.count
            let own = isUnknown ? 0 : schema.tables[record.table].columns.count
            guard isUnknown || own < names.columnsByPlace.count else { continue }
            // A creation replaces the whole record.
            if record.operation != .update { try db.execute(cached: remove, arguments: [names.name, record.key]) }
            guard record.operation != .delete else { continue }
            let store = { (column: String, value: Value) in
                try insert.run { row in
                    row.bind(names.name, at: 1)
                    row.bind(record.key, at: 2)
                    row.bind(column, at: 3)
                    row.bind(value, at: 4)
                }
            }
            if isUnknown { try store(Self.presenceColumn, .null) }
            for (place, column) in changeSet.columns(of: record) where column.place >= own {
                try store(column.name, changeSet.value(at: place))
            }
        }
    }

    func replaceFromSnapshot() throws {
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

    /// Renames columns; `names` has the zone's new names, by table and former name.
    static func rename(_ names: [String: [String: String]], in db: Database) throws {
        if planted(PlantedBug.forgetsRenamedValues) { return }
        for (table, columns) in names.sorted(by: { $0.key < $1.key }) {
            for (old, new) in columns.sorted(by: { $0.key < $1.key }) {
                try db.execute(
                    sql: "UPDATE OR IGNORE tidemark_unknown SET col = ? WHERE tbl = ? AND col = ?",
                    arguments: [new, table, old])
            }
        }
    }

    private func copy(_ table: String, key: String, _ column: String?) throws {
        try db.execute(
            sql: """
                INSERT INTO tidemark_unknown (tbl, key, col, value)
                SELECT \(SQLText.literal(table)), \(key), \(SQLText.literal(column ?? Self.presenceColumn)),
                    \(column.map(SQLText.name) ?? "NULL")
                FROM snapshot.\(SQLText.name(table))
                """)
    }

    /// Deletes values of columns that are no longer unknown, or that the zone no longer has.
    func deleteUnneeded() throws {
        try db.execute(
            sql: """
                DELETE FROM tidemark_unknown
                WHERE (tbl, col) NOT IN (\(columns)) AND NOT (col = '\(Self.presenceColumn)' AND tbl IN (\(tables)))
                """)
    }

    // MARK: SQL lists

    private var columns: String {
        let columnNames = schema.difference.unknownColumns.sorted { $0.key < $1.key }.flatMap { table, columns in
            columns.map { (table, $0.name) }
        }
        let tableColumnNames = schema.difference.unknownTables.flatMap { table in
            table.valueColumns.map { (table.name, $0.name) }
        }
        let rows = (columnNames + tableColumnNames).map { "(\(SQLText.literal($0)), \(SQLText.literal($1)))" }
        return rows.isEmpty ? "SELECT NULL, NULL WHERE false" : "VALUES \(rows.joined(separator: ", "))"
    }

    private var tables: String {
        schema.difference.unknownTables.map { SQLText.literal($0.name) }.joined(separator: ", ")
    }
}
