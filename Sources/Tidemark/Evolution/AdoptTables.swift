import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Adopts tables that file and zone share for the first time, after a change of either schema.
///
/// The zone's records come from the side table `tidemark_unknown`. Rows that this file had before become records that
/// this device creates. The app chose their integer keys without the server, so they get ids of this device.
struct AdoptTables {
    let db: Database
    let schema: SyncSchema
    let now: String
    let newID: () -> UUID

    // MARK: Keys

    /// Gives the rows of an integer-keyed table ids of this device, and rewrites the references to them.
    ///
    /// `shared` returns the columns of a table that were synced before. There, the new reference is an edit.
    func assignIDs(_ table: SyncedTable, where condition: String = "true", shared: (String) -> Set<String>) throws {
        guard table.keyKind == .integer else { return }
        let key = SQLText.name(table.key[0])
        let rows = """
            SELECT \(SQLText.literal(table.name)) AS tbl, \(key) AS id FROM main.\(SQLText.name(table.name))
            WHERE \(key) >= \(table.lowestID) AND \(condition)
            """
        guard try RenumberRecords(db: db, schema: schema).assign(rows) else { return }
        try RenameRows(db: db, schema: schema).renameKeys(of: table)
        for child in try SchemaIntrospection(db).tables {
            for reference in child.references
            where reference.parent == table.name && reference.parentColumns == table.key {
                try renumberReferences(child, reference, shared: shared(child.name))
            }
        }
    }

    private func renumberReferences(
        _ child: SyncedTable, _ reference: SyncedTable.Reference, shared: Set<String>
    ) throws {
        let column = reference.columns[0]
        let isEdit = shared.contains(column)
        if isEdit { try db.execute(sql: "UPDATE tidemark_state SET applying = 0") }
        try db.execute(
            sql: """
                UPDATE main.\(SQLText.name(child.name)) SET \(SQLText.name(column)) = assigned.permanent
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = ? AND assigned.temporary = \(SQLText.name(column))
                """, arguments: [reference.parent])
        if isEdit { try db.execute(sql: "UPDATE tidemark_state SET applying = 1") }
    }

    // MARK: Rows

    /// Captures the rows that the zone lacks as creations of this device, and parks rows that differ from the zone's.
    func capture(_ table: SyncedTable) throws {
        try parkDifferingRows(table)
        try CaptureRows.captureAsCreated(
            table,
            where: """
                NOT EXISTS (
                    SELECT 1 FROM tidemark_unknown AS unknown
                    WHERE unknown.tbl = \(SQLText.literal(table.name))
                        AND unknown.col = '\(UnknownValues.presenceColumn)'
                        AND unknown.key = \(RowJSON.key(table, alias: "t.")))
                """, in: db)
    }

    private func parkDifferingRows(_ table: SyncedTable) throws {
        try DifferingValues.createTable(in: db)
        for (column, wire) in shared(table) {
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_taken (tbl, key, col, theirs, mine, kind)
                    SELECT :table, app_row.key, :column, unknown.value, app_row.mine, 'both'
                    FROM (
                        SELECT \(RowJSON.key(table)) AS key, \(SQLText.name(column)) AS mine
                        FROM main.\(SQLText.name(table.name))
                    ) AS app_row
                    JOIN tidemark_unknown AS unknown
                        ON unknown.tbl = :table AND unknown.key = app_row.key AND unknown.col = :wire
                    WHERE tidemark_key(unknown.value) IS NOT tidemark_key(app_row.mine)
                    """, arguments: ["column": column, "table": table.name, "wire": wire])
        }
        try DifferingValues.park(
            table, at: now, newID: newID, in: db,
            message: "The file had another record with this key before the table was synced.")
    }

    /// Writes the zone's records, in a rebase.
    func take(_ table: SyncedTable) throws {
        let places = Dictionary(table.columns.enumerated().map { ($1.name, $0) }) { first, _ in first }
        let columns = shared(table).map { ($0.wire, places[$0.own] ?? 0) }
        try WriteRecords(db: db, schema: schema).writeValues(
            .create, of: table, columns: Dictionary(columns, uniquingKeysWith: { first, _ in first }),
            """
            SELECT col, value, key FROM tidemark_unknown AS unknown
            WHERE tbl = \(SQLText.literal(table.name)) AND EXISTS (
                SELECT 1 FROM tidemark_unknown AS record
                WHERE record.tbl = unknown.tbl AND record.key = unknown.key
                    AND record.col = '\(UnknownValues.presenceColumn)')
            ORDER BY key
            """)
    }

    private func shared(_ table: SyncedTable) -> [(own: String, wire: String)] {
        schema.difference.served(table.valueColumns, of: table.name)
    }
}
