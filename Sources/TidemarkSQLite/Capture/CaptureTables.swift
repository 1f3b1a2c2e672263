public import GRDB
public import TidemarkCore

/// Capture: every change of a synced table is written down by the transaction that makes it.
///
/// **The life of one `UPDATE cities SET name = 'Kiel' WHERE id = 7`, by whatever program:**
///
/// 1. The `BEFORE` trigger notes rows that a `REPLACE` may be about to evict: SQLite removes those without firing
///    delete triggers unless `recursive_triggers` is on, which no other program's connection promises.
/// 2. SQLite updates the row; foreign key actions on children fire the children's own triggers.
/// 3. The `AFTER` trigger takes the next number of `tidemark_capture`, with the revision that the file was at,
///    and writes the whole row, old and new, into `tidemark_capture_cities`. Its columns have no type, so each
///    value stays what it is: no JSON yet, hence no trouble with blobs, doubles or NUL characters.
/// 4. COMMIT makes the edit and its capture durable together; ROLLBACK, or a crash, takes back both.
/// 5. Later the engine reduces what was captured: first old row against last new row of each record.
///
/// While the engine itself applies changes it sets `tidemark_state.applying`, and the triggers stay silent.
/// The SQL uses no functions of ours, so the sqlite3 shell or Python is captured like the app.
public enum CaptureTables {
    /// The tables of capture that exist once a file.
    static let commonSQL = """
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

    /// Makes the tables and triggers that capture the changes of `schema`, where they are not there already.
    ///
    /// - Parameter guardsNewIds: Whether new integer ids must be temporary, as on a device.
    public static func install(_ schema: SyncSchema, guardsNewIds: Bool, in db: Database) throws {
        try db.execute(sql: commonSQL)
        for table in schema.tables {
            try install(table, guardsNewIds: guardsNewIds, in: db)
        }
    }

    private static func install(
        _ table: SyncedTable, guardsNewIds: Bool, in db: Database
    ) throws {
        try installShadow(table, in: db)
        try db.execute(sql: evictedSQL(table))
        let triggers = CaptureTriggers(table: table, guardsNewIds: guardsNewIds).all
        let present = try Row.fetchAll(
            db, sql: "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger'")
        let byName = Dictionary(
            uniqueKeysWithValues: present.map { ($0["name"] as String, $0["sql"] as String) })
        for trigger in triggers where byName[trigger.name] != trigger.sql {
            try db.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(trigger.name))")
            try db.execute(sql: trigger.sql)
        }
    }

    /// Makes the table of captured rows, or gives it the columns that the table has gained. What it holds stays:
    /// it is the outbox of edits that were not drained yet.
    private static func installShadow(_ table: SyncedTable, in db: Database) throws {
        let name = SQLText.name(shadow(table))
        let columns = shadowColumns(table)
        try db.execute(
            sql: "CREATE TABLE IF NOT EXISTS \(name) (seq INTEGER PRIMARY KEY, kind, \(SQLText.names(columns)))")
        let present = try String.fetchSet(
            db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [shadow(table)])
        for column in columns where !present.contains(column) {
            try db.execute(sql: "ALTER TABLE \(name) ADD COLUMN \(SQLText.name(column))")
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

    private static func evictedSQL(_ table: SyncedTable) -> String {
        let columns = SQLText.names(table.columns.map(\.name))
        let name = SQLText.name(evicted(table))
        return "DROP TABLE IF EXISTS \(name); CREATE TABLE \(name) (\(columns))"
    }
}
