package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Change capture: triggers record every change of a synced table within the transaction that makes it.
///
/// **The steps of one `UPDATE cities SET name = 'Kiel' WHERE id = 7`, run by any program:**
///
/// 1. The `BEFORE` trigger copies the rows that a `REPLACE` may evict. SQLite deletes them without
///    firing delete triggers unless `recursive_triggers` is on, which other programs do not
///    guarantee. If a copied row is gone afterwards and no trigger captured its deletion, the
///    `REPLACE` evicted it, and the `AFTER` trigger captures the deletion.
/// 2. SQLite updates the row; foreign key actions on children fire the children's own triggers.
/// 3. The `AFTER` trigger inserts into `tidemark_capture`, which assigns the next sequence number
///    and stores the file's revision, and writes the whole old and new row into
///    `tidemark_capture_cities`. The columns of that table have no type, so each value keeps its
///    own: there is no JSON yet, hence no loss with blobs, doubles or NUL characters.
/// 4. COMMIT makes the edit and its capture durable together; ROLLBACK or a crash undoes both.
/// 5. Later the engine coalesces the captured changes: it compares the first old row of each
///    record with its last new row.
///
/// While a device applies changes, it sets `tidemark_state.applying` to 1, and the triggers capture
/// nothing. While a server writes a device's change set, it may be 2 (``TriggerGuard``). The triggers use
/// no custom SQL functions, so they capture writes of the sqlite3 shell or Python like those of the app.
package enum CaptureTables {
    /// Creates the capture tables that exist once per file.
    package static let commonSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_state (
            id INTEGER PRIMARY KEY CHECK (id = 1), applying INTEGER NOT NULL, revision INTEGER NOT NULL
        );
        INSERT OR IGNORE INTO tidemark_state VALUES (1, 0, 0);
        CREATE TABLE IF NOT EXISTS tidemark_capture (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, tbl TEXT NOT NULL, base INTEGER NOT NULL
        );
        """

    /// Creates the table of ids in the reserved region that statements have named, on a device.
    package static let namedSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_named (
            tbl TEXT NOT NULL, id INTEGER NOT NULL, drawn INTEGER NOT NULL, PRIMARY KEY (tbl, id)
        ) WITHOUT ROWID;
        """

    /// Creates missing capture tables and triggers, and drops other tables' triggers; `guardsNewIds` is for devices.
    package static func install(_ schema: SyncSchema, guardsNewIds: Bool, in db: Database) throws {
        try db.execute(sql: guardsNewIds ? commonSQL + namedSQL : commonSQL)
        let present = try Present(db)
        let names = try schema.tables.flatMap { try install($0, guardsNewIds: guardsNewIds, over: present, in: db) }
        for name in Set(present.triggers.keys).subtracting(names).sorted()
        where prefixes.contains(where: { name.hasPrefix($0) }) {
            try db.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(name))")
        }
    }

    /// The triggers and indexes of a file, read once for all tables.
    private struct Present {
        let triggers: [String: String]
        /// The names of the triggers in lower case, in which SQLite compares them.
        let triggerNames: Set<String>
        /// The name and the statement of each index, by table.
        private(set) var indexes: [String: [(name: String, sql: String)]] = [:]

        init(_ db: Database) throws {
            let rows = try Row.fetchAll(
                db, sql: "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE type IN ('trigger', 'index')")
            var triggers: [String: String] = [:]
            for row in rows {
                let name: String = try row.value("name")
                let sql = try row.value("sql") as String? ?? ""
                if try row.value("type") == "trigger" {
                    triggers[name] = sql
                } else {
                    try indexes[row.value("tbl_name"), default: []].append((name, sql))
                }
            }
            self.triggers = triggers
            triggerNames = Set(triggers.keys.map { $0.lowercased() })
        }
    }

    /// Returns the captured tables without triggers, which missed writes since a program dropped and recreated them.
    package static func rebuiltTables(of schema: SyncSchema, in db: Database) throws -> [String] {
        let names = try String.fetchSet(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table'")
        let triggers = try Row.fetchAll(db, sql: "SELECT name, tbl_name FROM main.sqlite_master WHERE type = 'trigger'")
        let tableByTrigger = try Dictionary(
            triggers.map { try ($0.value("name") as String, $0.value("tbl_name") as String) },
            uniquingKeysWith: { first, _ in first })
        return schema.tables.filter {
            names.contains(shadow($0)) && tableByTrigger["tidemark_after_update_\($0.name)"] != $0.name
        }.map(\.name)
    }

    private static let prefixes = [
        "before_insert", "before_update", "after_insert", "after_update", "after_delete", "evicted_insert",
        "evicted_update", "evicted_delete", "guard_key", "named_insert",
    ].map { "tidemark_\($0)_" }

    /// Creates the capture tables and triggers of one table, also after a rename; returns the names of its triggers.
    private static func install(_ table: SyncedTable, guardsNewIds: Bool, over present: Present, in db: Database)
        throws -> [String]
    {
        try install(shadow(table), head: "seq INTEGER PRIMARY KEY, kind", columns: shadowColumns(table), in: db)
        try KeyIndex.install(table, in: db)
        let capture = try triggers(of: table, guardsNewIds: guardsNewIds, in: db)
        let noteColumns = capture.noteNames.map { "old_" + $0 }
        try install(evicted(table), head: "row INTEGER PRIMARY KEY", columns: noteColumns, in: db)
        try installIndexes(capture, of: table, over: present, in: db)
        let triggers = capture.all
        let changed = triggers.filter { present.triggers[$0.name] != $0.sql }
        for trigger in changed {
            if present.triggerNames.contains(trigger.name.lowercased()) {
                try db.execute(sql: "DROP TRIGGER IF EXISTS \(SQLText.name(trigger.name))")
            }
            try db.execute(sql: trigger.sql)
        }
        // Without the triggers, the copied rows missed updates: they are stale.
        if !changed.isEmpty { try db.execute(sql: "DELETE FROM \(SQLText.name(evicted(table)))") }
        return triggers.map(\.name)
    }

    static func triggers(of table: SyncedTable, guardsNewIds: Bool = false, in db: Database) throws
        -> CaptureTriggers
    {
        let indexes = try uniqueIndexes(of: table, in: db)
        let isKey = { (index: CaptureTriggers.UniqueIndex) in
            !index.isPartial && Set(index.columns.map(\.name)) == Set(table.key)
        }
        let key = CaptureTriggers.UniqueIndex(columns: table.key.map { ($0, "BINARY") }, isPartial: false)
        return CaptureTriggers(
            table: table, uniqueIndexes: indexes.filter { !isKey($0) },
            key: table.keyKind == .integer ? key : indexes.first(where: isKey) ?? key, guardsNewIds: guardsNewIds)
    }

    /// Creates the indexes for looking up copied rows, and drops all others.
    private static func installIndexes(
        _ capture: CaptureTriggers, of table: SyncedTable, over present: Present, in db: Database
    ) throws {
        let notes = evicted(table)
        let statements = capture.noteIndexes.enumerated().map { number, columns in
            let list = columns.map { "\(SQLText.name($0.name)) COLLATE \(SQLText.name($0.collation))" }
            return "CREATE INDEX \(SQLText.name("tidemark_noted_\(number)_\(table.name)")) "
                + "ON \(SQLText.name(notes)) (\(list.joined(separator: ", ")))"
        }
        var currentStatements: Set<String> = []
        for index in present.indexes[notes] ?? [] {
            if statements.contains(index.sql) {
                currentStatements.insert(index.sql)
            } else {
                try db.execute(sql: "DROP INDEX \(SQLText.name(index.name))")
            }
        }
        for sql in statements where !currentStatements.contains(sql) { try db.execute(sql: sql) }
    }

    /// Deletes all copies of rows that a `REPLACE` may evict, because rows change without capture.
    package static func forgetNotes(in db: Database) throws {
        let tables = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT name FROM main.sqlite_master
                    WHERE type = 'table' AND name LIKE 'tidemark~_evicted~_%' ESCAPE '~'
                    """)
        )
        for table in tables { try db.cachedStatement(sql: "DELETE FROM \(SQLText.name(table))").execute() }
    }

    /// Reads the unique indexes of a table, except those on expressions only.
    private static func uniqueIndexes(of table: SyncedTable, in db: Database) throws -> [CaptureTriggers.UniqueIndex] {
        let indexes = try Row.fetchAll(
            db, sql: "SELECT name, partial FROM pragma_index_list(?) WHERE \"unique\" ORDER BY name",
            arguments: [table.name])
        return try indexes.compactMap { index in
            let columns = try Row.fetchAll(
                db,
                sql: """
                    SELECT name, coll FROM pragma_index_xinfo(?)
                    WHERE key AND name IS NOT NULL
                    ORDER BY seqno
                    """,
                arguments: try [index.value("name") as String]
            ).map { try (name: $0.value("name") as String, collation: $0.value("coll") as String) }
            guard !columns.isEmpty else { return nil }
            return try CaptureTriggers.UniqueIndex(columns: columns, isPartial: index.value("partial"))
        }
    }

    /// Creates a table of captured rows, or adds new columns to it; its rows stay, as edits before the outbox.
    private static func install(_ table: String, head: String, columns: [String], in db: Database) throws {
        let name = SQLText.name(table)
        try db.execute(sql: "CREATE TABLE IF NOT EXISTS \(name) (\(head), \(SQLText.names(columns)))")
        let names = try String.fetchSet(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table])
        let newColumns = columns.filter { !names.contains($0) }
        for column in newColumns { try db.execute(sql: "ALTER TABLE \(name) ADD COLUMN \(SQLText.name(column))") }
    }

    /// Renames capture columns, by old name, because SQLite's rename leaves triggers that write to the old ones.
    package static func rename(_ columns: [String: String], of table: SyncedTable, in db: Database) throws {
        let rows = [(shadow(table), ["old_", "new_"]), (evicted(table), ["old_"])]
        for (name, sides) in rows {
            var names = try String.fetchSet(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [name])
            for (old, new) in columns.sorted(by: { $0.key < $1.key }) {
                for side in sides where names.contains(side + old) && !names.contains(side + new) {
                    try db.execute(
                        sql: """
                            ALTER TABLE \(SQLText.name(name))
                            RENAME COLUMN \(SQLText.name(side + old)) TO \(SQLText.name(side + new))
                            """)
                    names.remove(side + old)
                    names.insert(side + new)
                }
            }
        }
    }

    /// Backfills a new column in the captured rows of a table; `value` is canonical JSON.
    package static func fill(_ column: String, _ value: String, of table: SyncedTable, in db: Database) throws {
        for (side, kind) in [("old_", "insert"), ("new_", "delete")] {
            try db.execute(
                sql: """
                    UPDATE \(SQLText.name(shadow(table)))
                    SET \(SQLText.name(side + column)) = tidemark_decode(?)
                    WHERE kind <> '\(kind)'
                    """,
                arguments: [value])
        }
    }

    package static func forget(_ table: String, in db: Database) throws {
        for prefix in ["tidemark_capture_", "tidemark_evicted_"] {
            try db.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(prefix + table))")
        }
    }

    /// Gives a table's captured rows since a number the permanent ids of `temp.tidemark_assigned`.
    package static func renumber(_ table: SyncedTable, since first: Int64 = .min, in db: Database) throws {
        for side in ["old_", "new_"] {
            let column = SQLText.name(side + table.key[0])
            try db.cachedStatement(
                sql: """
                    UPDATE \(SQLText.name(shadow(table))) AS captured
                    SET \(column) = assigned.permanent
                    FROM temp.tidemark_assigned AS assigned
                    WHERE assigned.tbl = ? AND captured.seq >= ? AND captured.\(column) = assigned.temporary
                    """
            ).execute(arguments: [table.name, first])
        }
    }

    /// Returns the names of the columns for the old and the new row.
    static func shadowColumns(_ table: SyncedTable) -> [String] {
        ["old_", "new_"].flatMap { side in table.columns.map { side + $0.name } }
    }
}
