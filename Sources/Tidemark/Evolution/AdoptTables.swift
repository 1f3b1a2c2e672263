import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Tables that both sides have only now: because the app's migration made them, or because the
/// server learned them.
///
/// The zone's records come out of the side table. What was written here before becomes records that
/// this device creates; integer keys were drawn without the server, so these rows get temporary
/// ones.
struct AdoptTables {
    let db: Database
    let schema: SyncSchema
    let now: String
    let newID: () -> UUID

    private static let ord = -8

    // MARK: Keys

    /// Gives the rows of an integer-keyed table temporary ids, and rewrites what refers to them.
    ///
    /// `shared` are the columns of a table that were synced before: there the new value is an edit.
    func giveTemporaryIds(_ table: SyncedTable, where condition: String = "true", shared: (String) -> Set<String>)
        throws
    {
        guard table.keyKind == .integer else { return }
        let name = SQLText.name(table.name)
        let key = SQLText.name(table.key[0])
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_renumbered (old INTEGER PRIMARY KEY, fresh INTEGER);
                DELETE FROM temp.tidemark_renumbered;
                INSERT INTO temp.tidemark_renumbered
                SELECT \(key), min((SELECT next FROM tidemark_temporary), (SELECT coalesce(min(\(key)), 0) - 1 FROM main.\(name)))
                    - row_number() OVER (ORDER BY \(key)) + 1
                FROM main.\(name) WHERE \(key) >= 0 AND \(condition);
                UPDATE tidemark_temporary SET next = min(next, (
                    SELECT coalesce(min(\(key)), 0) - 1 FROM main.\(name)),
                    (SELECT coalesce(min(fresh), 0) - 1 FROM temp.tidemark_renumbered));
                UPDATE main.\(name) SET \(key) = r.fresh
                FROM temp.tidemark_renumbered AS r WHERE r.old = main.\(name).\(key);
                """
        )
        for child in try SchemaIntrospection(db).tables {
            for reference in child.references
            where reference.parent == table.name && reference.parentColumns == table.key {
                try renumber(child, reference.columns[0], shared: shared(child.name))
            }
        }
    }

    private func renumber(_ child: SyncedTable, _ column: String, shared: Set<String>) throws {
        let isEdit = shared.contains(column)
        if isEdit { try db.execute(sql: "UPDATE tidemark_state SET applying = 0") }
        try db.execute(
            sql: """
                UPDATE main.\(SQLText.name(child.name)) SET \(SQLText.name(column)) = r.fresh
                FROM temp.tidemark_renumbered AS r WHERE r.old = \(SQLText.name(column))
                """
        )
        if isEdit { try db.execute(sql: "UPDATE tidemark_state SET applying = 1") }
    }

    // MARK: Rows

    /// Takes the zone's records in, and captures the others as created here.
    func adopt(_ table: SyncedTable) throws {
        let isZone = """
            SELECT 1 FROM tidemark_unknown AS u WHERE u.tbl = \(SQLText.literal(table.name))
            AND u.col = '\(UnknownValues.presence)' AND u.key
            """
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_adopted (key TEXT PRIMARY KEY) WITHOUT ROWID;
                DELETE FROM temp.tidemark_adopted;
                INSERT INTO temp.tidemark_adopted
                SELECT key FROM (SELECT \(RowJSON.key(table)) AS key FROM main.\(SQLText.name(table.name))) AS t
                WHERE NOT EXISTS (\(isZone) = t.key);
                """
        )
        try parkDifferent(table)
        try writeZone(table)
        try CaptureRows.created(
            table,
            where: "\(RowJSON.key(table, alias: "t.")) IN (SELECT key FROM temp.tidemark_adopted)",
            in: db
        )
    }

    /// Rows under a key that the zone has as well: the zone's stays, this one can be restored.
    private func parkDifferent(_ table: SyncedTable) throws {
        try Taken.make(in: db)
        for column in shared(table) {
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_taken (key, col, theirs, mine, kind)
                    SELECT t.key, :column, u.value, t.mine, 'both'
                    FROM (SELECT \(RowJSON.key(table)) AS key, \(SQLText.name(column)) AS mine
                        FROM main.\(SQLText.name(table.name))) AS t
                    JOIN tidemark_unknown AS u ON u.tbl = :table AND u.key = t.key AND u.col = :wire
                    WHERE tidemark_key(u.value) IS NOT tidemark_key(t.mine)
                    """,
                arguments: ["column": column, "table": table.name, "wire": wire(column, of: table)]
            )
        }
        guard try Taken.has("'both'", in: db) else { return }
        try ParkedRows(db: db, now: now).park(
            table,
            id: newID().uuidString.lowercased(),
            message: "The file had a record under this key before the table was synced."
        )
    }

    private func writeZone(_ table: SyncedTable) throws {
        try StagingTables.clear(in: db)
        let literal = SQLText.literal(table.name)
        try StagedImages.stage(
            """
            SELECT tbl, key, 'create' AS operation, NULL AS attributes FROM tidemark_unknown
            WHERE tbl = \(literal) AND col = '\(UnknownValues.presence)'
            """,
            ord: Self.ord,
            in: db
        )
        for column in shared(table) {
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_staged_cell (rec, col, value)
                    SELECT s.rec, ?, u.value FROM temp.tidemark_staged AS s
                    JOIN tidemark_unknown AS u ON u.tbl = s.tbl AND u.key = s.key AND u.col = ?
                    WHERE s.ord = ? AND s.tbl = ?
                    """,
                arguments: [column, wire(column, of: table), Self.ord, table.name]
            )
        }
        do {
            try db.inSavepoint {
                try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: Self.ord)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // A row of this device holds a unique value of one of the zone's: a snapshot puts the
            // zone's in, and the edit on top as far as it fits.
            try db.execute(sql: "UPDATE tidemark_device SET stale = 1")
        }
    }

    private func shared(_ table: SyncedTable) -> [String] {
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        return table.valueColumns.map(\.name).filter { !unserved.contains($0) }
    }

    private func wire(_ column: String, of table: SyncedTable) -> String {
        schema.difference.wireNames[table.name]?[column] ?? column
    }
}
