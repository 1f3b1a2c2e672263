public import GRDB
import TidemarkCore
import TidemarkSQL

/// Describes for people how a device's tables match its zone's tables.
public struct SchemaReport: Hashable, Sendable, Codable {
    /// A table that syncs.
    public struct Table: Hashable, Sendable, Codable {
        /// The name.
        public let name: String
        /// The columns that sync.
        public let columns: [String]
        /// Columns that only the zone has: their values wait for the app's migration.
        public let unknownColumns: [String]
        /// Columns that only this file has: their values stay here until the zone has them.
        public let unservedColumns: [String]
        /// Columns that have another name in the zone: local name to zone name.
        public let renamed: [String: String]
        /// Whether a new record can get another id at the sync.
        ///
        /// SQLite draws lent ids only where the integer key is declared `AUTOINCREMENT`. Elsewhere it draws the id
        /// after the highest row, which can be another person's record meanwhile.
        public let changesIDs: Bool
    }

    /// The tables that sync, parents first.
    public let tables: [Table]
    /// Tables that only the zone has.
    public let unknownTables: [String]
    /// Tables that only this file has; the app may not want to sync them.
    public let unservedTables: [String]
    /// The zone's views, virtual tables, triggers and local tables that this file lacks, with the reasons.
    public let leftOut: [String: String]
    /// The reasons why the tables cannot sync; empty if they can.
    public let problems: [String]

    /// Reads the report from a device's file.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file has not joined a server.
    public init(_ db: Database) throws {
        let file = try DeviceFile(db)
        let difference = file.schema.difference
        tables = file.schema.tables.map { table in
            let unserved = difference.unservedColumns[table.name, default: []].map(\.name)
            return Table(
                name: table.name, columns: table.columns.map(\.name).filter { !unserved.contains($0) },
                unknownColumns: difference.unknownColumns[table.name, default: []].map(\.name),
                unservedColumns: unserved, renamed: difference.wireNames[table.name, default: [:]],
                changesIDs: table.keyKind == .integer && !table.isAutoincrement && !table.hasRowidKey)
        }
        unknownTables = difference.unknownTables.map(\.name)
        unservedTables = difference.unservedTables.map(\.name).filter { !MigrationTables.isKnown($0) }
        leftOut = try DeviceObjects.leftOut(in: db)
        problems = file.tables.problems.map { "\($0.message) \($0.fix)" }
    }
}
