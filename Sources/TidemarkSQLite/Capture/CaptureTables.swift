public import GRDB
public import TidemarkCore

/// Capture: every change of a synced table is written down by the transaction that makes it.
///
/// **The life of one `UPDATE cities SET name = 'Kiel' WHERE id = 7`, by whatever program:**
///
/// 1. The `BEFORE` trigger notes rows that a `REPLACE` may be about to evict: SQLite removes those
///    without firing delete triggers unless `recursive_triggers` is on, which no other program's
///    connection promises. A noted row that is gone, and whose deletion was not captured, was
///    evicted; the `AFTER` trigger captures it then.
/// 2. SQLite updates the row; foreign key actions on children fire the children's own triggers.
/// 3. The `AFTER` trigger takes the next number of `tidemark_capture`, with the revision that the
///    file was at, and writes the whole row, old and new, into `tidemark_capture_cities`. Its
///    columns have no type, so each value stays what it is: no JSON yet, hence no trouble with
///    blobs, doubles or NUL characters.
/// 4. COMMIT makes the edit and its capture durable together; ROLLBACK, or a crash, takes back
///    both.
/// 5. Later the engine reduces what was captured: first old row against last new row of each
///    record.
///
/// While the engine itself applies changes it sets `tidemark_state.applying`, and the triggers stay
/// silent. The SQL uses no functions of ours, so the sqlite3 shell or Python is captured like the
/// app.
public enum CaptureTables {
    /// The tables of capture that exist once a file.
    package static let commonSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_state (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            applying INTEGER NOT NULL,
            revision INTEGER NOT NULL
        );
        INSERT OR IGNORE INTO tidemark_state VALUES (1, 0, 0);
        CREATE TABLE IF NOT EXISTS tidemark_capture (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            tbl TEXT NOT NULL,
            base INTEGER NOT NULL
        );
        """

    /// Makes the tables and triggers that capture the changes of `schema`, where they are not there
    /// already, and removes the triggers of tables that are not in it.
    ///
    /// With `guardsNewIds`, new integer ids must be temporary, as on a device.
    public static func install(_ schema: SyncSchema, guardsNewIds: Bool, in db: Database) throws {
        try db.execute(sql: commonSQL)
        let names = try String.fetchSet(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'trigger'")
        let wanted = try schema.tables.flatMap { try install($0, guardsNewIds: guardsNewIds, in: db) }
        for name in names.subtracting(wanted).sorted() where labels.contains(where: { name.hasPrefix($0) }) {
            try db.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(name))")
        }
    }

    /// The names of captured tables whose triggers have vanished: somebody rebuilt the tables, and
    /// what was written since then was not captured.
    ///
    /// The triggers of a table that was renamed are still there, and on that one.
    package static func rebuilt(_ schema: SyncSchema, in db: Database) throws -> [String] {
        let names = try String.fetchSet(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table'")
        let triggers = try Row.fetchAll(db, sql: "SELECT name, tbl_name FROM main.sqlite_master WHERE type = 'trigger'")
        let captured = try Dictionary(
            triggers.map { try ($0.value("name") as String, $0.value("tbl_name") as String) },
            uniquingKeysWith: { first, _ in first }
        )
        return schema.tables.filter {
            names.contains(shadow($0)) && captured["tidemark_after_update_\($0.name)"] != $0.name
        }.map(\.name)
    }

    /// What the names of the triggers begin with.
    private static let labels = [
        "before_insert", "before_update", "after_insert", "after_update", "after_delete", "evicted_insert",
        "evicted_update", "evicted_delete", "guard_key",
    ].map { "tidemark_\($0)_" }

    /// Makes the tables and triggers of a table.
    ///
    /// A trigger that is on another table, which had this one's name before, is made anew here.
    ///
    /// - Returns: The names of the triggers that it has.
    private static func install(_ table: SyncedTable, guardsNewIds: Bool, in db: Database) throws -> [String] {
        try install(shadow(table), "seq INTEGER PRIMARY KEY, kind", shadowColumns(table), in: db)
        let capture = try triggers(of: table, guardsNewIds: guardsNewIds, in: db)
        let notes = capture.noteNames.map { "old_" + $0 }
        try install(evicted(table), "row INTEGER PRIMARY KEY", notes, in: db)
        try installIndexes(capture, of: table, in: db)
        let triggers = capture.all
        let present = try Row.fetchAll(db, sql: "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger'")
        let byName = try Dictionary(
            present.map { try ($0.value("name") as String, $0.value("sql") as String) },
            uniquingKeysWith: { first, _ in first }
        )
        let changed = triggers.filter { byName[$0.name] != $0.sql }
        for trigger in changed {
            try db.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(trigger.name))")
            try db.execute(sql: trigger.sql)
        }
        // Without the triggers, notes did not follow their rows.
        if !changed.isEmpty { try db.execute(sql: "DELETE FROM \(SQLText.name(evicted(table)))") }
        return triggers.map(\.name)
    }

    private static func triggers(of table: SyncedTable, guardsNewIds: Bool = false, in db: Database) throws
        -> CaptureTriggers
    {
        let indexes = try uniqueIndexes(of: table, in: db)
        let isKey = { (index: CaptureTriggers.UniqueIndex) in
            !index.isPartial && Set(index.columns.map(\.name)) == Set(table.key)
        }
        let key = CaptureTriggers.UniqueIndex(columns: table.key.map { ($0, "BINARY") }, isPartial: false)
        return CaptureTriggers(
            table: table,
            uniqueIndexes: indexes.filter { !isKey($0) },
            key: table.keyKind == .integer ? key : indexes.first(where: isKey) ?? key,
            guardsNewIds: guardsNewIds
        )
    }

    /// Makes the indexes by which notes are found, and removes others.
    private static func installIndexes(_ capture: CaptureTriggers, of table: SyncedTable, in db: Database) throws {
        let notes = evicted(table)
        let wanted = capture.noteIndexes.enumerated().map { number, columns in
            let list = columns.map { "\(SQLText.name($0.name)) COLLATE \(SQLText.name($0.collation))" }
            return "CREATE INDEX \(SQLText.name("tidemark_noted_\(number)_\(table.name)")) "
                + "ON \(SQLText.name(notes)) (\(list.joined(separator: ", ")))"
        }
        let present = try Row.fetchAll(
            db,
            sql: "SELECT name, sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ?",
            arguments: [notes]
        )
        var standing: Set<String> = []
        for index in present {
            let sql: String = try index.value("sql") ?? ""
            if wanted.contains(sql) {
                standing.insert(sql)
            } else {
                try db.execute(sql: "DROP INDEX \(SQLText.name(index.value("name") as String))")
            }
        }
        for sql in wanted where !standing.contains(sql) { try db.execute(sql: sql) }
    }

    /// Captures the rows that were evicted by writes which did not come to their end: their own
    /// row went with what they evicted.
    ///
    /// Called while no other statement runs, by who is about to reduce what was captured.
    package static func captureLeftOver(_ schema: SyncSchema, in db: Database) throws {
        for table in try captured(schema, in: db) {
            let hasNotes = try Bool.fetchOne(
                db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM \(SQLText.name(evicted(table))))")
            )
            guard hasNotes == true else { continue }
            try db.execute(sql: triggers(of: table, in: db).captureAllEvicted)
            try db.execute(sql: "DELETE FROM \(SQLText.name(evicted(table)))")
        }
    }

    /// The tables of which something was captured.
    private static func captured(_ schema: SyncSchema, in db: Database) throws -> [SyncedTable] {
        try String.fetchAll(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM tidemark_capture ORDER BY tbl"))
            .compactMap { schema.byName[$0] }
    }

    /// Forgets all notes: rows are about to change, or have changed, without being captured.
    package static func forgetNotes(in db: Database) throws {
        let tables = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT name FROM main.sqlite_master
                    WHERE type = 'table' AND name LIKE 'tidemark~_evicted~_%' ESCAPE '~'
                    """
            )
        )
        for table in tables { try db.cachedStatement(sql: "DELETE FROM \(SQLText.name(table))").execute() }
    }

    /// The unique indexes of a table, apart from those on expressions alone.
    private static func uniqueIndexes(of table: SyncedTable, in db: Database) throws -> [CaptureTriggers.UniqueIndex] {
        let indexes = try Row.fetchAll(
            db,
            sql: "SELECT name, partial FROM pragma_index_list(?) WHERE \"unique\" ORDER BY name",
            arguments: [table.name]
        )
        return try indexes.compactMap { index in
            let columns = try Row.fetchAll(
                db,
                sql: """
                    SELECT name, coll FROM pragma_index_xinfo(?)
                    WHERE key AND name IS NOT NULL ORDER BY seqno
                    """,
                arguments: try [index.value("name") as String]
            ).map { try (name: $0.value("name") as String, collation: $0.value("coll") as String) }
            guard !columns.isEmpty else { return nil }
            return try CaptureTriggers.UniqueIndex(columns: columns, isPartial: index.value("partial"))
        }
    }

    /// Makes a table of captured rows, or gives it the columns that the synced table has gained.
    ///
    /// What it holds stays: it is the outbox of edits that were not drained yet.
    private static func install(_ table: String, _ head: String, _ columns: [String], in db: Database) throws {
        let name = SQLText.name(table)
        try db.execute(sql: "CREATE TABLE IF NOT EXISTS \(name) (\(head), \(SQLText.names(columns)))")
        let present = try String.fetchSet(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table])
        let missing = columns.filter { !present.contains($0) }
        for column in missing { try db.execute(sql: "ALTER TABLE \(name) ADD COLUMN \(SQLText.name(column))") }
    }

    /// Follows columns that were renamed, by former name: SQLite has rewritten the triggers, which
    /// still write under the old names.
    ///
    /// What was captured stays.
    package static func rename(_ columns: [String: String], of table: SyncedTable, in db: Database) throws {
        let rows = [(shadow(table), ["old_", "new_"]), (evicted(table), ["old_"])]
        for (name, sides) in rows {
            var present = try String.fetchSet(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [name])
            for (old, new) in columns.sorted(by: { $0.key < $1.key }) {
                for side in sides where present.contains(side + old) && !present.contains(side + new) {
                    try db.execute(
                        sql: """
                            ALTER TABLE \(SQLText.name(name))
                            RENAME COLUMN \(SQLText.name(side + old)) TO \(SQLText.name(side + new))
                            """
                    )
                    present.remove(side + old)
                    present.insert(side + new)
                }
            }
        }
    }

    /// Gives the rows that wait in a shadow the value of a column which it has only now.
    package static func fill(_ column: String, _ value: String, of table: SyncedTable, in db: Database) throws {
        for (side, kind) in [("old_", "insert"), ("new_", "delete")] {
            try db.execute(
                sql: """
                    UPDATE \(SQLText.name(shadow(table)))
                    SET \(SQLText.name(side + column)) = tidemark_decode(?) WHERE kind <> '\(kind)'
                    """,
                arguments: [value]
            )
        }
    }

    /// Removes what a table has no triggers for any more.
    package static func forget(_ table: String, in db: Database) throws {
        for prefix in ["tidemark_capture_", "tidemark_evicted_"] {
            try db.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(prefix + table))")
        }
    }

    /// The names of the columns that hold the old and the new row.
    static func shadowColumns(_ table: SyncedTable) -> [String] {
        ["old_", "new_"].flatMap { side in table.columns.map { side + $0.name } }
    }

    /// The name of the table that keeps the captured rows of a table.
    package static func shadow(_ table: SyncedTable) -> String { "tidemark_capture_\(table.name)" }

    /// The name of the table that keeps rows which a `REPLACE` may be about to evict.
    static func evicted(_ table: SyncedTable) -> String { "tidemark_evicted_\(table.name)" }
}
