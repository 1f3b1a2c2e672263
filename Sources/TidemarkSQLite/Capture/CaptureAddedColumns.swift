import GRDB
import TidemarkCore

/// Captures what was written into a new column before its triggers knew it.
///
/// An app's migration adds a column and often fills it at once; the triggers are renewed only when
/// the engine opens the file again. Rows whose new column is not at its default were changed in
/// between, so they are captured then, as updates from the default.
struct CaptureAddedColumns {
    let table: SyncedTable
    let added: [SyncedTable.Column]

    func run(_ db: Database) throws {
        let name = SQLText.name(table.name)
        let changed = added.map { "t.\(SQLText.name($0.name)) IS NOT \(defaultSQL($0))" }
            .joined(separator: " OR ")
        try db.execute(
            sql: """
                INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), s.revision
                FROM tidemark_state AS s, main.\(name) AS t WHERE \(changed)
                """
        )
        let columns = SQLText.names(["seq", "kind"] + CaptureTables.shadowColumns(table))
        let before = table.columns.map { column in
            added.contains(column) ? defaultSQL(column) : "t.\(SQLText.name(column.name))"
        }
        let after = table.columns.map { "t.\(SQLText.name($0.name))" }
        try db.execute(
            sql: """
                INSERT INTO \(SQLText.name(CaptureTables.shadow(table))) (\(columns))
                SELECT (SELECT max(seq) FROM tidemark_capture) - count(*) OVER () + row_number() OVER (),
                    'update', \((before + after).joined(separator: ", "))
                FROM main.\(name) AS t WHERE \(changed)
                """
        )
    }

    private func defaultSQL(_ column: SyncedTable.Column) -> String {
        column.defaultSQL.map { "(\($0))" } ?? "NULL"
    }
}
