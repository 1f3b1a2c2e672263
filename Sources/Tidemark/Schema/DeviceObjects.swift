import GRDB
import TidemarkCore
import TidemarkSQL

/// The zone's views, virtual tables, triggers and local tables in a device's file.
///
/// A server's statements are untrusted input: each one is tried out in a scratch database first. One that SQLite does
/// not accept there, or that does not fit this file's tables, is left out and named (`tidemark_left_out`). So is one
/// that calls a function which SQLite does not have, unless the program has registered it, or the file's owner has
/// named it when the file joined (`tidemark_function`). Objects that the program has made itself stay as they are.
struct DeviceObjects {
    /// A moment at which a device creates objects.
    enum Moment {
        /// Before rows arrive: triggers then fill local tables and virtual tables with content of their own.
        case beforeRows
        /// After the rows, because SQLite fills a virtual table faster at once.
        case afterRows
    }

    enum Kind {
        case device
        /// An ordinary SQLite file without bookkeeping.
        case copy
    }

    private let db: Database
    private let kind: Kind
    private let objects: FileObjects
    private let trial: ObjectTrial

    static let tableSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_left_out (
            name TEXT PRIMARY KEY, reason TEXT
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_function (name TEXT PRIMARY KEY) WITHOUT ROWID;
        """

    /// Tries the objects out beside the file's tables; `indexes` are statements of indexes that it gets later.
    init(_ objects: FileObjects, schema: SyncSchema, indexes: [String] = [], as kind: Kind = .device, in db: Database)
        throws
    {
        self.db = db
        self.kind = kind
        self.objects = objects
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, sql FROM main.sqlite_master
                WHERE sql IS NOT NULL AND type <> 'trigger'
                    AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
                    AND tbl_name NOT LIKE 'tidemark~_%' ESCAPE '~' AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                ORDER BY rowid
                """)
        let moduleTables = try SchemaIntrospection.moduleTables(in: db)
        let present = try rows.compactMap { row -> FileObjects.Object? in
            let sql: String = try row.value("sql")
            let name: String = try row.value("name")
            let isVirtual = sql.hasPrefix("CREATE VIRTUAL ")
            guard !moduleTables.contains(name),
                let kind = try isVirtual ? .virtual : FileObjects.Object.Kind(rawValue: row.value("type"))
            else { return nil }
            return FileObjects.Object(kind: kind, name: name, sql: sql)
        }
        let names = Set(present.map { $0.name.lowercased() })
        let permitted = try Self.permittedFunctions(in: db)
        trial = try ObjectTrial(
            present.filter { $0.kind == .view || $0.kind == .virtual }
                + objects.objects.filter { !names.contains($0.name.lowercased()) },
            beside: present.filter { $0.kind == .table || $0.kind == .index }
                + indexes.map { FileObjects.Object(kind: .index, name: "", sql: $0) },
            synced: Set(schema.tables.map(\.name))
        ) { name in
            guard !ProgramFunctions.dangerous.contains(name) else { return false }
            // An ordinary copy is no device's: it keeps what its zone has.
            return kind == .copy || permitted.contains(name) || ProgramFunctions.isRegistered(name, on: db)
        }
    }

    /// Permits the zone's statements to call functions of a program, in a device's file.
    static func permit(_ functions: [String], in db: Database) throws {
        for name in functions {
            try db.execute(sql: "INSERT OR IGNORE INTO tidemark_function VALUES (lower(?))", arguments: [name])
        }
    }

    private static func permittedFunctions(in db: Database) throws -> Set<String> {
        guard try db.tableExists("tidemark_function") else { return [] }
        return try String.fetchSet(db, sql: "SELECT name FROM tidemark_function")
    }

    /// Refuses a server's tables that call functions which its objects may not call.
    func requireOrdinaryTables() throws {
        guard let (table, functions) = trial.forbiddenCalls.min(by: { $0.key < $1.key }) else { return }
        let names = functions.sorted().joined(separator: ", ")
        throw SnapshotCheck.unusable("a table calls \(names), which SQLite does not have.", table: table)
    }

    /// Returns the reasons why a device's file lacks objects of the zone's file, by name.
    static func leftOut(in db: Database) throws -> [String: String] {
        guard try db.tableExists("tidemark_left_out") else { return [:] }
        return try Row.fetchAll(db, sql: "SELECT name, reason FROM tidemark_left_out").reduce(into: [:]) {
            try $0[$1.value("name")] = $1.value("reason") ?? "waits for all rows, which the next sync brings"
        }
    }

    // MARK: Creation

    /// Creates all objects in a new file: call it before and after its rows are written.
    func create(_ moment: Moment) throws { try create(objects.objects, moment) }

    /// Follows the zone in a file that has rows: former objects go, unless the program has made them anew.
    static func follow(_ schema: SyncSchema, from old: FileObjects, sharesAllColumns: Bool, in db: Database) throws {
        let new = schema.objects
        for object in old.objects.reversed() where !new.objects.contains(object) { try drop(object, in: db) }
        let leftOut = try String.fetchSet(db, sql: "SELECT name FROM tidemark_left_out")
        try db.execute(sql: "DELETE FROM tidemark_left_out")
        let file = try DeviceObjects(new, schema: schema, in: db)
        let list = new.objects.filter { !old.objects.contains($0) || leftOut.contains($0.name) }
        // Only all rows once more fill these; the next snapshot brings them.
        let waiting = list.filter { file.trial.accepted.contains($0) && file.isFilledByRows($0) }
        if !waiting.isEmpty { try db.execute(sql: "UPDATE tidemark_device SET stale = 1") }
        for object in waiting { try file.leaveOut(object, because: nil) }
        let others = list.filter { !waiting.contains($0) }
        try file.create(others, .beforeRows)
        try file.create(others, .afterRows)
        guard sharesAllColumns else { return }
        try file.followVersions(from: old)
        let migrations = FollowMigrations(db: db, schema: schema, old: old.migrationTables)
        for table in new.migrationTables {
            // Another table of the program's own is no business of the server's.
            let object = new.objects.first { $0.kind == .table && $0.name == table.name }
            let isNoted = try MigrationTables.isKnown(table.name) || object?.sql == present(table.name, in: db)
            if isNoted { try migrations.follow(table) }
        }
    }

    /// Creates the objects that wait for a snapshot; the caller has deleted the rows and writes them next.
    static func createWaiting(_ schema: SyncSchema, in db: Database) throws {
        let names = try String.fetchSet(db, sql: "SELECT name FROM tidemark_left_out WHERE reason IS NULL")
        guard !names.isEmpty else { return }
        try db.execute(sql: "DELETE FROM tidemark_left_out WHERE reason IS NULL")
        let all = try DeviceObjects(schema.objects, schema: schema, in: db)
        try all.create(schema.objects.objects.filter { names.contains($0.name) }, .beforeRows)
    }

    private func create(_ list: [FileObjects.Object], _ moment: Moment) throws {
        for kind in FileObjects.Object.Kind.allCases {
            for object in list where object.kind == kind && self.moment(of: object) == moment {
                if trial.accepted.contains(object) {
                    try create(object)
                } else if let reason = trial.reasons[object.name] {
                    try leaveOut(object, because: reason)
                }
            }
        }
    }

    private func create(_ object: FileObjects.Object) throws {
        do {
            try db.inSavepoint {
                let sql = try rendered(object)
                if let present = try Self.present(object.name, in: db) {
                    // The program's own trigger with the zone's text gets the condition, too.
                    guard object.kind == .trigger, present == object.sql, sql != present else { return .commit }
                    try db.execute(sql: "DROP TRIGGER main.\(SQLText.name(object.name))")
                }
                try db.execute(sql: sql)
                if Self.hasForeignContent(object) {
                    let name = SQLText.name(object.name)
                    try db.execute(sql: "INSERT INTO main.\(name) (\(name)) VALUES ('rebuild')")
                }
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            try leaveOut(object, because: error.message ?? "SQLite does not accept it")
        }
    }

    private func leaveOut(_ object: FileObjects.Object, because reason: String?) throws {
        guard kind == .device else { return }
        try db.execute(sql: "INSERT OR REPLACE INTO tidemark_left_out VALUES (?, ?)", arguments: [object.name, reason])
    }

    private static func drop(_ object: FileObjects.Object, in db: Database) throws {
        guard object.kind != .table, let sql = try present(object.name, in: db),
            [object.sql, TriggerGuard.guarded(object.sql), TriggerGuard.asleep(object.sql)].contains(sql)
        else { return }
        let kind = object.kind == .virtual ? "table" : object.kind.rawValue
        try db.execute(sql: "DROP \(kind) main.\(SQLText.name(object.name))")
    }

    private static func present(_ name: String, in db: Database) throws -> String? {
        try String.fetchOne(
            db, sql: "SELECT sql FROM main.sqlite_master WHERE name = ? COLLATE NOCASE", arguments: [name])
    }

    // MARK: Rules

    /// The statement on this device: a trigger runs for the server's rows only if it maintains local tables.
    ///
    /// One that runs at the server never runs here, but has its name, so that the program does not make it.
    /// One that calls the program's own functions does not: another process may write those rows.
    private func rendered(_ object: FileObjects.Object) throws -> String {
        guard kind == .device, object.kind == .trigger, let effects = trial.effects[object.name] else {
            return object.sql
        }
        let isAsleep = object.runsAtDevice == false
        let runsAlways = effects.feedsLocalTables && effects.unknownFunctions.isEmpty || isView(effects.target)
        guard isAsleep || !runsAlways else { return object.sql }
        guard let guarded = isAsleep ? TriggerGuard.asleep(object.sql) : TriggerGuard.guarded(object.sql) else {
            throw DatabaseError(message: "its text has no place for a condition")
        }
        return guarded
    }

    private func moment(of object: FileObjects.Object) -> Moment {
        switch object.kind {
        case .table, .index, .view: .beforeRows
        case .virtual, .trigger: isFilledByRows(object) ? .beforeRows : .afterRows
        }
    }

    /// Whether an object is, or maintains, a table that only the arrival of rows fills.
    private func isFilledByRows(_ object: FileObjects.Object) -> Bool {
        if object.kind == .virtual { return !Self.hasForeignContent(object) }
        guard object.kind == .trigger, object.runsAtDevice != false, let effects = trial.effects[object.name]
        else { return false }
        let filled = trial.accepted.filter(Self.hasForeignContent).map { $0.name.lowercased() }
        return effects.feedsLocalTables && effects.unknownFunctions.isEmpty && !isView(effects.target)
            && !effects.written.isSubset(of: filled)
    }

    private func isView(_ name: String) -> Bool {
        trial.accepted.contains { $0.kind == .view && $0.name.lowercased() == name.lowercased() }
    }

    /// Whether an object is a full-text index over another table, which `rebuild` fills.
    private static func hasForeignContent(_ object: FileObjects.Object) -> Bool {
        object.kind == .virtual
            && object.sql.contains(
                /(?i)using\s+fts[45].*\bcontent\s*=\s*(?:"[^"]+"|'[^']+'|[^\s,'")]+)/.dotMatchesNewlines())
    }

    // MARK: Versions

    /// Gives a new file the numbers and the notes about migrations of the zone's file, whose objects it has.
    func setVersions(_ schema: SyncSchema) throws {
        try db.execute(sql: "PRAGMA main.user_version = \(objects.userVersion)")
        try db.execute(sql: "PRAGMA main.application_id = \(objects.applicationID)")
        try MigrationTables.write(objects.migrationTables, besides: schema, in: db)
    }

    /// Takes the zone's new numbers, unless this file's program has set its own meanwhile.
    ///
    /// A higher version of the zone counts in any case: its file has all columns of that version.
    private func followVersions(from old: FileObjects) throws {
        let version = try Int64.fetchOne(db, sql: "PRAGMA main.user_version") ?? 0
        if objects.userVersion != old.userVersion, version == old.userVersion || version < objects.userVersion {
            try db.execute(sql: "PRAGMA main.user_version = \(objects.userVersion)")
        }
        let application = try Int64.fetchOne(db, sql: "PRAGMA main.application_id") ?? 0
        if objects.applicationID != old.applicationID, application == old.applicationID {
            try db.execute(sql: "PRAGMA main.application_id = \(objects.applicationID)")
        }
    }
}
