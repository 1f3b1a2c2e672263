import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Columns of a table that both sides have only now: because the app's migration made them, or
/// because the server learned them.
///
/// For each row there is the zone's value, from the side table or else the column's fill, and the
/// one that the row has here:
///
/// | here | at the zone | then |
/// | --- | --- | --- |
/// | the same | | nothing |
/// | the column's default | anything | the zone's goes into the row |
/// | something else | the fill | an edit of this device: it is captured and sent |
/// | something else | something else | the zone's goes into the row, this one into the conflicts |
///
/// The last is rule 1: nobody overwrites what they have not seen.
struct TakeColumns {
    let db: Database
    let schema: SyncSchema
    let table: SyncedTable
    let columns: [SyncedTable.Column]
    let now: String
    let newID: () -> UUID

    private static let ord = -7

    /// Does so, with capture switched off.
    func take() throws {
        try Taken.make(in: db)
        for column in columns { try compare(column) }
        let writesZone = try Taken.has("'theirs', 'both'", in: db)
        if try Taken.has("'both'", in: db) {
            try ParkedRows(db: db, now: now).park(
                table,
                id: newID().uuidString.lowercased(),
                message: "The app's migration wrote another value than the zone has."
            )
        }
        if writesZone { try write() }
        if try Taken.has("'mine'", in: db) { try capture() }
    }

    private func compare(_ column: SyncedTable.Column) throws {
        let wire = schema.difference.wireNames[table.name]?[column.name] ?? column.name
        let fill = schema.history.fills[table.name]?[column.name] ?? "null"
        let standard = try DefaultValue.json(column, in: db)
        let mine = planted(PlantedBug.fillsOverOwnValues) ? "theirs" : "mine"
        let both = planted(PlantedBug.sendsOverUnseenValues) ? "mine" : "both"
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_taken (key, col, theirs, mine, kind)
                SELECT key, :column, theirs, mine, CASE WHEN tidemark_key(mine) = :standard THEN 'theirs'
                    WHEN filled THEN '\(mine)' ELSE '\(both)' END
                FROM (
                    SELECT t.key, t.mine, u.key IS NULL OR tidemark_key(u.value) = :fill AS filled,
                        CASE WHEN u.key IS NULL THEN tidemark_decode(:fill) ELSE u.value END AS theirs
                    FROM (SELECT \(RowJSON.key(table)) AS key, \(SQLText.name(column.name)) AS mine
                        FROM main.\(SQLText.name(table.name))) AS t
                    LEFT JOIN tidemark_unknown AS u ON u.tbl = :table AND u.key = t.key AND u.col = :wire
                ) WHERE tidemark_key(theirs) IS NOT tidemark_key(mine)
                """,
            arguments: ["column": column.name, "wire": wire, "fill": fill, "standard": standard, "table": table.name]
        )
    }

    /// Puts the zone's values into the rows.
    private func write() throws {
        try StagingTables.clear(in: db)
        try Taken.stage("update", table, kinds: "'theirs', 'both'", ord: Self.ord, in: db)
        do {
            try db.inSavepoint {
                try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: Self.ord)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // Rows of this device hold unique values that the zone's rows have: a snapshot tells
            // them apart from edits.
            try db.execute(sql: "UPDATE tidemark_device SET stale = 1")
        }
    }

    /// Captures this device's values as edits.
    private func capture() throws {
        let key = RowJSON.key(table, alias: "t.")
        let before = columns.map { column -> (String, String) in
            let taken = """
                FROM temp.tidemark_taken AS k WHERE k.key = \(key)
                AND k.col = \(SQLText.literal(column.name)) AND k.kind = 'mine'
                """
            return (
                column.name,
                """
                CASE WHEN EXISTS (SELECT 1 \(taken)) THEN (SELECT theirs \(taken))
                ELSE t.\(SQLText.name(column.name)) END
                """
            )
        }
        try CaptureAddedColumns(
            table,
            before: Dictionary(uniqueKeysWithValues: before),
            where: "\(key) IN (SELECT key FROM temp.tidemark_taken WHERE kind = 'mine')"
        ).run(db)
    }
}

/// Values that differ here and at the zone, while it is decided whose stays.
enum Taken {
    static func make(in db: Database) throws {
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_taken (
                    key TEXT, col TEXT, theirs, mine, kind TEXT, PRIMARY KEY (key, col)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_taken;
                """
        )
    }

    static func has(_ kinds: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_taken WHERE kind IN (\(kinds)))")
            ?? false
    }

    /// Stages the zone's values of some kinds.
    static func stage(_ operation: String, _ table: SyncedTable, kinds: String, ord: Int, in db: Database) throws {
        try StagedImages.stage(
            """
            SELECT DISTINCT \(SQLText.literal(table.name)) AS tbl, key, '\(operation)' AS operation,
                NULL AS attributes FROM temp.tidemark_taken WHERE kind IN (\(kinds))
            """,
            ord: ord,
            in: db
        )
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_staged_cell (rec, col, value)
                SELECT s.rec, k.col, k.theirs FROM temp.tidemark_taken AS k
                JOIN temp.tidemark_staged AS s ON s.ord = ? AND s.tbl = ? AND s.key = k.key
                WHERE k.kind IN (\(kinds)) AND k.col <> ''
                """,
            arguments: [ord, table.name]
        )
    }
}

/// Puts this device's side of rows on which both sides differ into the conflicts, where the app
/// finds it.
struct ParkedRows {
    let db: Database
    let now: String

    /// Parks what `temp.tidemark_taken` has under `both`, as one conflict.
    func park(_ table: SyncedTable, id: String, message: String) throws {
        let reason = Conflict.Reason(
            table: table.name,
            key: nil,
            columns: [],
            rule: ConflictRule.changed.rawValue,
            message: message
        )
        try db.execute(
            sql: "INSERT INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
            arguments: [id, now, "[\(reason.json)]"]
        )
        let object = { (value: String) in
            "tidemark_object(group_concat(tidemark_members(col, \(value))) FILTER (WHERE col <> ''))"
        }
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, ?2, key, 'update', NULL, \(object("mine")), \(object("theirs"))
                FROM temp.tidemark_taken WHERE kind = 'both' GROUP BY key
                """,
            arguments: [id, table.name]
        )
    }
}
