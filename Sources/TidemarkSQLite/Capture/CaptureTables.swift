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
        let triggers = CaptureTriggers(table: table, guardsNewIds: guardsNewIds).all
        let wanted = [shadowSQL(table), evictedSQL(table)] + triggers.map(\.sql)
        let names = [shadow(table), evicted(table)] + triggers.map(\.name)
        let present = try Row.fetchAll(db, sql: "SELECT name, sql FROM main.sqlite_master")
        let byName = Dictionary(uniqueKeysWithValues: present.map { ($0["name"] as String, $0["sql"] as String?) })
        guard zip(names, wanted).contains(where: { byName[$0] != $1 }) else { return }
        for trigger in triggers {
            try db.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(trigger.name))")
        }
        for name in [shadow(table), evicted(table)] {
            try db.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(name))")
        }
        for sql in wanted { try db.execute(sql: sql) }
    }

    /// The name of the table that keeps the captured rows of a table.
    static func shadow(_ table: SyncedTable) -> String { "tidemark_capture_\(table.name)" }

    /// The name of the table that keeps rows which a `REPLACE` may be about to evict.
    static func evicted(_ table: SyncedTable) -> String { "tidemark_evicted_\(table.name)" }

    private static func shadowSQL(_ table: SyncedTable) -> String {
        let columns = ["old_", "new_"].flatMap { side in
            table.columns.map { SQLText.name(side + $0.name) }
        }
        return "CREATE TABLE \(SQLText.name(shadow(table))) "
            + "(seq INTEGER PRIMARY KEY, kind, \(columns.joined(separator: ", ")))"
    }

    private static func evictedSQL(_ table: SyncedTable) -> String {
        let columns = SQLText.names(table.columns.map(\.name))
        return "CREATE TABLE \(SQLText.name(evicted(table))) (\(columns))"
    }
}
