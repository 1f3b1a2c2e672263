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

    /// Creates the table of ids in the reserved region that statements have named, on a device.
    package static let namedSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_named (
            tbl TEXT NOT NULL,
            id INTEGER NOT NULL,
            drawn INTEGER NOT NULL,
            PRIMARY KEY (tbl, id)
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

    private static func triggers(of table: SyncedTable, guardsNewIds: Bool = false, in db: Database) throws
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

    /// Captures evicted rows of writes that did not finish; call it before coalescing, while no other statement runs.
    package static func captureLeftoverEvictions(_ schema: SyncSchema, in db: Database) throws {
        try captureLeftoverEvictions(of: tablesWithCaptures(schema, in: db), in: db)
    }

    /// Captures the evicted rows of tables with captured changes; returns whether there may have been any.
    @discardableResult static func captureLeftoverEvictions(of tables: [SyncedTable], in db: Database) throws -> Bool {
        let notes = tables.map { "EXISTS (SELECT 1 FROM \(SQLText.name(evicted($0))))" }
        let hasAny = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT \((["false"] + notes).joined(separator: " OR "))"))
        guard hasAny == true else { return false }
        for table in tables {
            let hasNotes = try Bool.fetchOne(
                db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM \(SQLText.name(evicted(table))))"))
            guard hasNotes == true else { continue }
            try db.execute(sql: triggers(of: table, in: db).captureAllEvicted)
            try db.execute(sql: "DELETE FROM \(SQLText.name(evicted(table)))")
        }
        return true
    }

    private static func tablesWithCaptures(_ schema: SyncSchema, in db: Database) throws -> [SyncedTable] {
        try String.fetchAll(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM tidemark_capture ORDER BY tbl"))
            .compactMap { schema.byName[$0] }
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

    /// Drops the capture tables of a table without triggers.
    package static func forget(_ table: String, in db: Database) throws {
        for prefix in ["tidemark_capture_", "tidemark_evicted_"] {
            try db.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(prefix + table))")
        }
    }

    /// Gives a table's captured rows since a number other integer keys; `mapping` is a table with a row for each key.
    package static func renumber(
        _ table: SyncedTable, by mapping: String, from former: String, to new: String, since first: Int64 = .min,
        in db: Database
    ) throws {
        for side in ["old_", "new_"] {
            let column = SQLText.name(side + table.key[0])
            try db.cachedStatement(
                sql: """
                    UPDATE \(SQLText.name(shadow(table))) AS captured
                    SET \(column) = renumbered.\(new)
                    FROM \(mapping) AS renumbered
                    WHERE captured.seq >= ? AND captured.\(column) = renumbered.\(former)
                    """
            ).execute(arguments: [first])
        }
    }

    /// Returns the names of the columns for the old and the new row.
    static func shadowColumns(_ table: SyncedTable) -> [String] {
        ["old_", "new_"].flatMap { side in table.columns.map { side + $0.name } }
    }

    /// Returns the name of the table with the captured rows of a table.
    package static func shadow(_ table: SyncedTable) -> String { "tidemark_capture_\(table.name)" }
    /// Returns the name of the table with copies of rows that a `REPLACE` may evict.
    static func evicted(_ table: SyncedTable) -> String { "tidemark_evicted_\(table.name)" }
}

/// A zone's captured changes, each record's reduced by ``TidemarkCore/CapturedPath``; a changed key is two effects.
package struct CapturedEffects {
    private let db: Database
    private let schema: SyncSchema
    private let found = Found()

    /// The tables in which the last reading found captured changes.
    private final class Found { var tables: [SyncedTable] = [] }

    /// Makes them of a prepared connection, on which no other statement runs.
    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Passes on each record's effect, by the schema's tables, records that changed once first; false without any.
    @discardableResult package func read(_ body: (Effect) throws -> Void) throws -> Bool {
        found.tables = []
        guard let counts = try counts() else { return false }
        found.tables = schema.tables.filter { counts[$0.name] != nil }
        for (place, table) in schema.tables.enumerated() {
            guard let count = counts[table.name], count > 0 else { continue }
            try read(place, count: count, body)
        }
        return true
    }

    /// Deletes the captured changes that the last ``read(_:)`` has found; nothing may be captured in between.
    package func delete() throws {
        for table in found.tables {
            try db.cachedStatement(sql: "DELETE FROM \(SQLText.name(CaptureTables.shadow(table)))").execute()
        }
        try db.cachedStatement(sql: "DELETE FROM tidemark_capture").execute()
    }

    /// Counts the captured changes by table, also of rows that were evicted without a trigger; nil without any.
    private func counts() throws -> [String: Int]? {
        guard let counts = try countsByTable() else { return nil }
        let tables = counts.keys.compactMap { schema.byName[$0] }
        return try CaptureTables.captureLeftoverEvictions(of: tables, in: db) ? try countsByTable() : counts
    }

    private func countsByTable() throws -> [String: Int]? {
        var counts: [String: Int] = [:]
        try RowValues.read("SELECT tbl, count(*) FROM tidemark_capture GROUP BY tbl", in: db) { values in
            guard case .text(let table) = values[0], case .integer(let count) = values[1] else {
                throw TidemarkError.unreadable("The list of captured changes")
            }
            counts[table] = Int(count)
        }
        return counts.isEmpty ? nil : counts
    }

    // MARK: One table

    private func read(_ place: Int, count: Int, _ body: (Effect) throws -> Void) throws {
        let table = schema.tables[place]
        let layout = schema.layouts[place]
        let columns = ["old_", "new_"].flatMap { side in table.columns.map { SQLText.name(side + $0.name) } }
        // Most records change once, and pass on without staying in memory.
        let repeated = count > 1 ? try repeatedKeys(of: place) : []
        var paths: [RecordID: CapturedPath] = [:]
        var order: [RecordID] = []
        try RowValues.read(
            """
            SELECT kind, \(columns.joined(separator: ", "))
            FROM \(SQLText.name(CaptureTables.shadow(table)))
            ORDER BY seq
            """,
            in: db
        ) { row in
            let (old, new) = try Self.sides(row, of: table)
            for (key, step) in Self.steps(from: old, to: new, layout) {
                let name = RecordID(table: place, key: key)
                guard repeated.contains(name.key.utf8.hashed) else {
                    if let effect = CapturedPath(from: step.old, to: step.new).effect(on: name) { try body(effect) }
                    continue
                }
                if paths[name] == nil { order.append(name) }
                paths[name, default: CapturedPath()].add(from: step.old, to: step.new)
            }
        }
        for name in order { if let effect = paths[name]?.effect(on: name) { try body(effect) } }
    }

    /// Divides a captured row into the old and the new one.
    private static func sides(_ values: [Value], of table: SyncedTable) throws -> (old: [Value]?, new: [Value]?) {
        let count = table.columns.count
        let old = Array(values[1...count])
        let new = Array(values[(count + 1)...])
        switch values[0] {
        case .text("insert"): return (nil, new)
        case .text("update"): return (old, new)
        case .text("delete"): return (old, nil)
        default: throw TidemarkError.unreadable("A captured change")
        }
    }

    /// A captured change: the states that it leaves and enters.
    private typealias Step = (old: [Value]?, new: [Value]?)

    /// Returns the steps of each key; an update that changes the key is a deletion and a creation.
    private static func steps(from old: [Value]?, to new: [Value]?, _ layout: RowLayout) -> [(key: String, step: Step)]
    {
        let oldKey = old.map(layout.key)
        let newKey = new.map(layout.key)
        if let oldKey, let newKey, !oldKey.utf8.elementsEqual(newKey.utf8) {
            return [(oldKey, (old, nil)), (newKey, (nil, new))]
        }
        return (oldKey ?? newKey).map { [($0, (old, new))] } ?? []
    }

    /// Returns the hashes of keys that captured changes name more than once; keys of one hash harmlessly count as one.
    private func repeatedKeys(of place: Int) throws -> Set<Int> {
        let table = schema.tables[place]
        let layout = schema.layouts[place]
        let columns = ["old_", "new_"].flatMap { side in
            layout.keyPlaces.map { SQLText.name(side + table.columns[$0].name) }
        }
        var seen: Set<Int> = []
        var repeated: Set<Int> = []
        let count = table.key.count
        try RowValues.read(
            "SELECT kind, \(columns.joined(separator: ", ")) FROM \(SQLText.name(CaptureTables.shadow(table)))", in: db
        ) { values in
            let old = values[0] == .text("insert") ? nil : Value.key(ofParts: Array(values[1...count]))
            let new = values[0] == .text("delete") ? nil : Value.key(ofParts: Array(values[(count + 1)...]))
            let isMoved = old != nil && new != nil && !(old ?? "").utf8.elementsEqual((new ?? "").utf8)
            for key in isMoved ? [old, new] : [old ?? new] {
                guard let key else { continue }
                let hash = key.utf8.hashed
                if !seen.insert(hash).inserted { repeated.insert(hash) }
            }
        }
        return repeated
    }
}

extension String.UTF8View {
    fileprivate var hashed: Int {
        var hasher = Hasher()
        for byte in self { hasher.combine(byte) }
        return hasher.finalize()
    }
}
