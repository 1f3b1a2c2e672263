import GRDB
import TidemarkCore
import TidemarkSQL

/// Saves and restores columns that only this file has.
///
/// Rewind, apply and replay write rows again without these columns. So the device saves their values
/// first, and restores them at the end, under the rows' new ids.
struct UnservedColumns {
    let db: Database
    let schema: SyncSchema

    private var tables: [(SyncedTable, [String])] {
        schema.tables.compactMap { table in
            schema.difference.unservedColumns[table.name].map { (table, $0.map(\.name)) }
        }
    }

    /// Saves the columns of all records, or of those with pending changes.
    func save(all: Bool) throws {
        guard !tables.isEmpty else { return }
        try db.execute(cached: "DELETE FROM temp.tidemark_held")
        for (table, columns) in tables {
            let match = KeySQL.match(table, key: "base.key", alias: "app_row.")
            let filter = all ? "" : "JOIN tidemark_base AS base ON base.tbl = ?1 AND \(match)"
            for column in columns {
                try db.execute(
                    sql: """
                        INSERT INTO temp.tidemark_held
                        SELECT ?1, \(RowJSON.key(table, alias: "app_row.")), ?2, app_row.\(SQLText.name(column))
                        FROM main.\(SQLText.name(table.name)) AS app_row \(filter)
                        """, arguments: [table.name, column])
            }
        }
    }

    func restore() throws {
        guard !tables.isEmpty, !planted(PlantedBug.losesOwnColumns) else { return }
        for (table, columns) in tables {
            let places = table.columns.enumerated().filter { columns.contains($1.name) }.map { ($1.name, $0) }
            try WriteRecords(db: db, schema: schema).writeValues(
                .update, of: table, columns: Dictionary(places, uniquingKeysWith: { first, _ in first }),
                "SELECT col, value, key FROM temp.tidemark_held WHERE tbl = \(SQLText.literal(table.name)) ORDER BY key"
            )
        }
    }
}

extension SchemaDifference {
    /// Returns those of a table's columns that file and zone share, with the zone's names.
    func served(_ columns: [SyncedTable.Column], of table: String) -> [(own: String, wire: String)] {
        let unserved = Set(unservedColumns[table, default: []].map(\.name))
        let names = wireNames[table, default: [:]]
        return columns.map(\.name).filter { !unserved.contains($0) }.map { ($0, names[$0] ?? $0) }
    }
}
