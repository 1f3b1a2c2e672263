import GRDB
import TidemarkCore
import TidemarkSQL

/// Copies rows out of the attached snapshot.
enum SnapshotRows {
    /// Copies all rows of a table, in the columns that the snapshot and the file share.
    ///
    /// - Returns: The number of rows.
    @discardableResult static func copy(_ table: SyncedTable, _ difference: SchemaDifference, in db: Database) throws
        -> Int
    {
        let unserved = Set(difference.unservedColumns[table.name, default: []].map(\.name))
        let own = table.columns.map(\.name).filter { !unserved.contains($0) }
        let names = difference.wireNames[table.name, default: [:]]
        let name = SQLText.name(table.name)
        let columns = SQLText.names(own)
        let wire = SQLText.names(own.map { names[$0] ?? $0 })
        // LIMIT -1 disables SQLite's bulk transfer, which would not count deferred reference violations.
        try db.execute(sql: "INSERT INTO main.\(name) (\(columns)) SELECT \(wire) FROM snapshot.\(name) LIMIT -1")
        return db.changesCount
    }
}
