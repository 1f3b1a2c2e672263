import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// The rows of tables that the zone has dropped, as they were in the file then.
///
/// The app goes on with such a table. The server may make another one under its name, and then the
/// rows that the zone had before are not this device's to create once more: only what differs from
/// them is its work. Rows that are missing by then are not sent as deletions, since a migration of
/// the app may have dropped the table as well.
struct FormerRows {
    let db: Database
    let schema: SyncSchema
    let now: String
    let newID: () -> UUID

    private static let prefix = "tidemark_former_"

    /// The name of the table that keeps the rows of a table.
    static func name(_ table: SyncedTable) -> String { prefix + table.name }

    /// Keeps the rows of a table under the zone's names; `difference` is the one from before the
    /// zone dropped it.
    func keep(_ table: SyncedTable, _ difference: SchemaDifference) throws {
        let unserved = Set(difference.unservedColumns[table.name, default: []].map(\.name))
        let own = table.columns.map(\.name).filter { !unserved.contains($0) }
        let names = difference.wireNames[table.name, default: [:]]
        let former = SQLText.name(Self.name(table))
        // Columns without a type keep each value as it is.
        try db.execute(
            sql: """
                DROP TABLE IF EXISTS main.\(former);
                CREATE TABLE main.\(former) (\(SQLText.names(own.map { names[$0] ?? $0 })));
                INSERT INTO main.\(former)
                SELECT \(SQLText.names(own)) FROM main.\(SQLText.name(table.name));
                """
        )
    }

    /// Captures what was written into a table that is served again; `false` when its former rows
    /// are not kept, or had another key.
    func capture(_ table: SyncedTable) throws -> Bool {
        let columns = try String.fetchSet(
            db,
            sql: "SELECT name FROM pragma_table_info(?)",
            arguments: [Self.name(table)]
        )
        let names = schema.difference.wireNames[table.name, default: [:]]
        guard columns.isSuperset(of: table.key.map { names[$0] ?? $0 }) else { return false }
        try CompareRebuilt(db: db, schema: schema, tables: [table], now: now, newID: newID, former: columns).capture()
        return true
    }

    /// Forgets the rows of tables that the zone has again.
    func forgetOthers() throws {
        let wanted = Set(schema.history.droppedTables.map { Self.prefix + $0 })
        let tables = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_master
                WHERE type = 'table' AND name LIKE 'tidemark~_former~_%' ESCAPE '~'
                """
        )
        for table in tables where !wanted.contains(table) {
            try db.execute(sql: "DROP TABLE main.\(SQLText.name(table))")
        }
    }
}
