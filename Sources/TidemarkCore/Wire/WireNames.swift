/// The names by which a schema's tables and columns stand on the wire.
///
/// A table or column has its own name, escaped where the protocol has a member of that name. A renamed column has its
/// former names, too, and a device ignores the columns and tables that the zone has dropped.
package final class WireNames: Sendable {
    package struct Table: Sendable {
        package let name: String
        package let keyKind: SyncedTable.KeyKind
        /// The number of the key's columns.
        package let keyParts: Int
        package fileprivate(set) var columnsByPlace: [Column] = []
        /// The columns by the members that stand for them.
        fileprivate(set) var columns: [String: Column] = [:]
        /// Whether a column has two members, so that a record could have both.
        fileprivate(set) var hasFormerNames = false
        /// The members of columns that the zone has dropped.
        fileprivate(set) var dropped: Set<String> = []
    }

    package struct Column: Hashable, Sendable {
        package let name: String
        /// Its place among the table's columns.
        package let place: Int
        /// Whether it is part of the key, so that attributes do not have it.
        package let isKey: Bool
        package let adds: Bool
    }

    /// The tables, also those that only the zone has.
    package let tables: [Table]
    /// The places of the tables by the members that stand for them.
    package let places: [String: Int]
    package let dropped: Set<String>
    package let hasAddingColumns: Bool

    init(of schema: SyncSchema) {
        tables = (schema.tables + schema.difference.unknownTables).map { Self.names(of: $0, in: schema) }
        var places: [String: Int] = [:]
        for (place, table) in tables.enumerated() { places[WireName.member(table: table.name)] = place }
        self.places = places
        dropped = Set(schema.history.droppedTables)
        hasAddingColumns = tables.contains { $0.columns.values.contains(where: \.adds) }
    }

    private static func names(of table: SyncedTable, in schema: SyncSchema) -> Table {
        let unknown = schema.difference.unknownColumns[table.name, default: []]
        let adding = schema.addingColumns(of: table.name)
        let columns = (table.columns + unknown).enumerated().map { place, column in
            Column(
                name: column.name, place: place, isKey: table.key.contains(column.name),
                adds: adding.contains(column.name))
        }
        let byName = Dictionary(columns.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        var names = Table(name: table.name, keyKind: table.keyKind, keyParts: table.key.count, columnsByPlace: columns)
        for column in columns { names.columns[WireName.member(column: column.name)] = column }
        let unknownNames = Set(unknown.map(\.name))
        for (former, present) in schema.history.renames[table.name, default: [:]] {
            if planted(PlantedBug.refusesFormerNames), unknownNames.contains(present) { continue }
            names.columns[WireName.member(column: former)] = byName[present]
            names.hasFormerNames = true
        }
        names.dropped = Set(schema.history.droppedColumns[table.name, default: []].map(WireName.member(column:)))
        return names
    }
}
