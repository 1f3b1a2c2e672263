import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Copies of the rows of tables that the zone has dropped.
///
/// The app may continue to use such a table, and the server may serve a table with its name again. Then the device must
/// not create the zone's former rows again; it captures only the differences from them. It sends no deletions for
/// missing rows, because a migration of the app may have dropped the table, too.
struct FormerRows {
    let db: Database
    let schema: SyncSchema
    let now: String
    let newID: () -> UUID
    private static let prefix = "tidemark_former_"

    static func name(_ table: SyncedTable) -> String { prefix + table.name }

    /// Copies a table's rows under the zone's names; `difference` is that before the zone dropped the table.
    func keep(_ table: SyncedTable, _ difference: SchemaDifference) throws {
        let shared = difference.served(table.columns, of: table.name)
        let former = SQLText.name(Self.name(table))
        // Columns without a type store each value unchanged.
        try db.execute(
            sql: """
                DROP TABLE IF EXISTS main.\(former);
                CREATE TABLE main.\(former) (\(SQLText.names(shared.map(\.wire))));
                INSERT INTO main.\(former)
                SELECT \(SQLText.names(shared.map(\.own))) FROM main.\(SQLText.name(table.name));
                """)
    }

    /// Captures the differences from the former rows; false if there are none, or if they had another key.
    func capture(_ table: SyncedTable) throws -> Bool {
        let columns = try String.fetchSet(
            db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [Self.name(table)])
        let names = schema.difference.wireNames[table.name, default: [:]]
        guard columns.isSuperset(of: table.key.map { names[$0] ?? $0 }) else { return false }
        try CompareRebuilt(
            db: db, schema: schema, tables: [table], now: now, newID: newID, source: .former(columns: columns)
        ).capture()
        return true
    }

    func dropUnneeded() throws {
        let neededTables = Set(schema.history.droppedTables.map { Self.prefix + $0 })
        let tables = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_master
                WHERE type = 'table' AND name LIKE 'tidemark~_former~_%' ESCAPE '~'
                """)
        for table in tables where !neededTables.contains(table) {
            try db.execute(sql: "DROP TABLE main.\(SQLText.name(table))")
        }
    }
}
