import GRDB
import TidemarkCore
import TidemarkSQL

/// Copies rows out of the attached snapshot.
enum SnapshotRows {
    /// Copies all rows; after each table, `progress` gets the number of records so far, of how many.
    static func copyAll(_ schema: SyncSchema, in db: Database, progress: (Int, Int) -> Void) throws -> Int {
        let counts = try schema.tables.map { table in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM snapshot.\(SQLText.name(table.name))") ?? 0
        }
        let total = counts.reduce(0, +)
        var records = 0
        for table in schema.tables {
            records += try copy(table, schema.difference, in: db)
            progress(records, total)
        }
        return records
    }

    /// Copies a table's rows, in the columns that the snapshot and the file share; returns their number.
    @discardableResult static func copy(_ table: SyncedTable, _ difference: SchemaDifference, in db: Database) throws
        -> Int
    {
        let shared = difference.served(table.columns, of: table.name)
        let name = SQLText.name(table.name)
        let columns = SQLText.names(shared.map(\.own))
        let wire = SQLText.names(shared.map(\.wire))
        // LIMIT -1 disables SQLite's bulk transfer, which would not count deferred reference violations.
        try db.execute(sql: "INSERT INTO main.\(name) (\(columns)) SELECT \(wire) FROM snapshot.\(name) LIMIT -1")
        return db.changesCount
    }
}
