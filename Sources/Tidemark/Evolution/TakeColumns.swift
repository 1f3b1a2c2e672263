import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Merges newly shared columns of a table, after a change of either schema.
///
/// For each row the device compares its own value with the zone's. The zone's value is in the side
/// table, or is the column's fill.
///
/// | here | zone | effect |
/// | --- | --- | --- |
/// | the zone's value | | none |
/// | the column's default | another value | the row gets the zone's value |
/// | another value | the fill | the triggers capture the value as an edit of this device |
/// | another value | another value | the row gets the zone's value, and the device parks its own |
///
/// The last row is rule 1: a device does not overwrite unseen values.
struct TakeColumns {
    let db: Database
    let schema: SyncSchema
    let table: SyncedTable
    let columns: [SyncedTable.Column]
    let now: String
    let newID: () -> UUID

    /// Lists the differing values, captures and parks this device's; the rows stay as they are.
    func compare() throws {
        for column in columns { try compare(column) }
        try DifferingValues.park(
            table, at: now, newID: newID, in: db,
            message: "The app's migration wrote a value that differs from the zone's.")
        try capture()
    }

    private func compare(_ column: SyncedTable.Column) throws {
        let wire = schema.difference.wireNames[table.name]?[column.name] ?? column.name
        let fill = schema.history.fills[table.name]?[column.name] ?? "null"
        let older = try valueOfOlderRows(column, fill)
        let standard = try DefaultValue.json(column, in: db)
        let mine = planted(PlantedBug.fillsOverOwnValues) ? "theirs" : "mine"
        let both = planted(PlantedBug.sendsOverUnseenValues) ? "mine" : "both"
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_taken (tbl, key, col, theirs, mine, kind)
                SELECT :table, key, :column, theirs, mine, CASE
                    WHEN tidemark_key(mine) = :standard THEN 'theirs'
                    WHEN filled THEN '\(mine)'
                    ELSE '\(both)' END
                FROM (
                    SELECT app_row.key, app_row.mine,
                        unknown.key IS NULL OR tidemark_key(unknown.value) = :fill AS filled,
                        CASE WHEN unknown.key IS NULL THEN tidemark_decode(:older) ELSE unknown.value END AS theirs
                    FROM (
                        SELECT \(RowJSON.key(table)) AS key, \(SQLText.name(column.name)) AS mine
                        FROM main.\(SQLText.name(table.name))
                    ) AS app_row
                    LEFT JOIN tidemark_unknown AS unknown
                        ON unknown.tbl = :table AND unknown.key = app_row.key AND unknown.col = :wire
                )
                WHERE tidemark_key(theirs) IS NOT tidemark_key(mine)
                """,
            arguments: [
                "column": column.name, "wire": wire, "fill": fill, "older": older, "standard": standard,
                "table": table.name,
            ])
    }

    /// Returns the zone's value of older rows; of a required column without one, the value of most rows here.
    private func valueOfOlderRows(_ column: SyncedTable.Column, _ fill: String) throws -> String {
        guard fill == "null", column.isNotNull else { return fill }
        let values = "SELECT tidemark_key(\(SQLText.name(column.name))) AS value FROM main.\(SQLText.name(table.name))"
        return try String.fetchOne(db, sql: "\(values) GROUP BY value ORDER BY count(*) DESC, value LIMIT 1") ?? fill
    }

    /// Writes the zone's values of the listed rows, in a rebase.
    func take() throws {
        let places = Dictionary(table.columns.enumerated().map { ($1.name, $0) }) { first, _ in first }
        try WriteRecords(db: db, schema: schema).writeValues(
            .update, of: table, columns: places,
            """
            SELECT col, theirs, key FROM temp.tidemark_taken
            WHERE tbl = \(SQLText.literal(table.name)) AND kind IN ('theirs', 'both')
            ORDER BY key
            """)
    }

    private func capture() throws {
        let key = RowJSON.key(table, alias: "t.")
        let before = columns.map { column -> (String, String) in
            let ownValue = """
                FROM \(DifferingValues.mine(table)) AND differing.key = \(key)
                    AND differing.col = \(SQLText.literal(column.name))
                """
            return (
                column.name,
                """
                CASE WHEN EXISTS (SELECT 1 \(ownValue)) THEN (SELECT theirs \(ownValue))
                ELSE t.\(SQLText.name(column.name)) END
                """
            )
        }
        try CaptureAddedColumns(
            table, before: Dictionary(uniqueKeysWithValues: before),
            where: "\(key) IN (SELECT key FROM \(DifferingValues.mine(table)))"
        ).run(db)
    }
}

/// The values that differ between file and zone, in `temp.tidemark_taken`.
///
/// The kind tells which side prevails: `theirs`, `mine`, or `both` if the device parks its own value.
enum DifferingValues {
    static func createTable(in db: Database) throws {
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_taken (
                    tbl TEXT, key TEXT, col TEXT, theirs, mine, kind TEXT, PRIMARY KEY (tbl, key, col)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_taken;
                """)
    }

    /// Returns the SQL of a table's values as `differing`, with a condition at its end.
    static func all(_ table: SyncedTable) -> String {
        "temp.tidemark_taken AS differing WHERE differing.tbl = \(SQLText.literal(table.name))"
    }

    static func mine(_ table: SyncedTable) -> String { "\(all(table)) AND differing.kind = 'mine'" }

    /// Parks the values of kind `both` in `temp.tidemark_taken` as one conflict, if there are some.
    static func park(_ table: SyncedTable, at now: String, newID: () -> UUID, in db: Database, message: String) throws {
        let differs = "SELECT EXISTS (SELECT 1 FROM temp.tidemark_taken WHERE tbl = ? AND kind = 'both')"
        guard try Bool.fetchOne(db, sql: differs, arguments: [table.name]) == true else { return }
        let id = newID().uuidString.lowercased()
        let reason = Conflict.Reason(
            table: table.name, key: nil, columns: [], rule: ConflictRule.changed.rawValue, message: message)
        try db.execute(
            sql: "INSERT INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
            arguments: [id, now, "[\(reason.json)]"])
        let object = { (value: String) in
            "tidemark_object(group_concat(tidemark_members(\(MemberSQL.member(column: "col")), \(value))) FILTER (WHERE col <> ''))"
        }
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, ?2, key, 'update', NULL, \(object("mine")), \(object("theirs"))
                FROM temp.tidemark_taken
                WHERE tbl = ?2 AND kind = 'both'
                GROUP BY key
                """, arguments: [id, table.name])
    }
}
