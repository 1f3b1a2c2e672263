import GRDB
import TidemarkCore
import TidemarkSQL

/// The views, virtual tables, triggers and local tables of a zone's file, and what devices get of them.
///
/// A trigger of the program runs once for each write; `Docs/SCHEMA.md` says where.
struct ServedObjects {
    /// What travels to devices.
    private(set) var objects = FileObjects()
    /// Why the server cannot write some tables as the program does.
    private(set) var problems: [SchemaProblem] = []
    /// What travels and calls functions that only the program has, such as `view meta (concat, sortconcat)`.
    private(set) var programCalls: [String] = []

    private let db: Database
    private let schema: SyncSchema
    private let trial: ObjectTrial
    private let statements: [FileObjects.Object]
    /// The original statements of the triggers that run at devices, by name.
    private var deviceTriggers: [String: String]

    /// Reads the file's objects and tries them out.
    init(_ db: Database, schema: SyncSchema) throws {
        self.db = db
        self.schema = schema
        deviceTriggers = try Self.readDeviceTriggers(db)
        statements = try Self.readStatements(db, beside: schema, deviceTriggers: deviceTriggers)
        trial = try ObjectTrial(statements, beside: schema.tableStatements, synced: Set(schema.tables.map(\.name)))
    }

    /// Whether SQLite misses a column in some statements, which may be a string in double quotes.
    var hasUnknownColumns: Bool { trial.reasons.values.contains { $0.contains("no such column") } }

    /// Follows the operator's declarations, whether a trigger runs at devices, and decides what travels.
    mutating func settle(triggers: [String: Bool], collations: [String: String]) throws {
        try follow(triggers)
        findProblems(collations)
        try findBrokenTriggers()
        try keepGuards()
        objects.userVersion = try Int64.fetchOne(db, sql: "PRAGMA main.user_version") ?? 0
        objects.applicationID = try Int64.fetchOne(db, sql: "PRAGMA main.application_id") ?? 0
        objects.migrationTables = try MigrationTables.read(in: db)
        objects.objects = trial.accepted.map(travelling)
        programCalls = trial.accepted.compactMap { object in
            trial.unknownCalls[object.name].map { functions in
                "\(object.kind.rawValue) \(object.name) (\(functions.sorted().joined(separator: ", ")))"
            }
        }
        objects.functions = trial.unknownFunctions.sorted()
        objects.collations = collations
        ProgramFunctions.addStandIns(objects, to: db)
    }

    /// Creates the tables with the operator's declarations.
    static let tableSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_device_trigger (
            name TEXT PRIMARY KEY, sql TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_collation (
            name TEXT PRIMARY KEY, stand_in TEXT NOT NULL
        ) WITHOUT ROWID;
        """

    // MARK: Reading

    private static func readDeviceTriggers(_ db: Database) throws -> [String: String] {
        try Row.fetchAll(db, sql: "SELECT name, sql FROM tidemark_device_trigger").reduce(into: [:]) {
            try $0[$1.value("name")] = $1.value("sql")
        }
    }

    /// Reads the program's statements, except those of synced tables.
    private static func readStatements(_ db: Database, beside schema: SyncSchema, deviceTriggers: [String: String])
        throws -> [FileObjects.Object]
    {
        let synced = Set(schema.tables.map(\.name))
        let ownTables = try SchemaIntrospection.moduleTables(in: db)
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, tbl_name, sql FROM main.sqlite_master
                WHERE sql IS NOT NULL
                    AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
                    AND tbl_name NOT LIKE 'tidemark~_%' ESCAPE '~' AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                ORDER BY rowid
                """)
        return try rows.compactMap { row in
            let name: String = try row.value("name")
            let table: String = try row.value("tbl_name")
            let sql: String = try row.value("sql")
            let type: String = try row.value("type")
            guard !ownTables.contains(table), type == "trigger" || !synced.contains(table) else { return nil }
            let isVirtual = type == "table" && sql.hasPrefix("CREATE VIRTUAL ")
            guard let kind = isVirtual ? .virtual : FileObjects.Object.Kind(rawValue: type) else { return nil }
            return FileObjects.Object(kind: kind, name: name, sql: original(sql, of: deviceTriggers[name]))
        }
    }

    /// Returns a trigger's statement without the guard.
    private static func original(_ sql: String, of own: String?) -> String {
        guard let own, TriggerGuard.guarded(own) == sql else { return sql }
        return own
    }

    // MARK: Declarations

    private mutating func follow(_ triggers: [String: Bool]) throws {
        for (name, isAtDevice) in triggers.sorted(by: { $0.key < $1.key }) {
            guard let trigger = statements.first(where: { $0.kind == .trigger && $0.name == name }) else {
                throw TidemarkError(
                    .invalidArgument, "The file has no trigger \(name).",
                    fix: "Check the name; `sqlite3 FILE .schema` lists the triggers.")
            }
            if isAtDevice {
                deviceTriggers[name] = trigger.sql
                try db.execute(
                    sql: "INSERT OR REPLACE INTO tidemark_device_trigger VALUES (?, ?)", arguments: [name, trigger.sql])
            } else if deviceTriggers.removeValue(forKey: name) != nil {
                try replace(trigger, by: trigger.sql)
                try db.execute(sql: "DELETE FROM tidemark_device_trigger WHERE name = ?", arguments: [name])
            }
        }
    }

    /// Gives the triggers that run at devices their guards, also after a program has made them again.
    private mutating func keepGuards() throws {
        for trigger in statements where trigger.kind == .trigger && deviceTriggers[trigger.name] != nil {
            guard let guarded = TriggerGuard.guarded(trigger.sql) else {
                throw TidemarkError(
                    .invalidArgument,
                    "The trigger \(trigger.name) cannot get the condition under which it runs at devices.",
                    fix: "Write its statement with quoted names, or leave it at the server.",
                    place: .init(table: trial.effects[trigger.name]?.target))
            }
            let present = try String.fetchOne(
                db, sql: "SELECT sql FROM main.sqlite_master WHERE type = 'trigger' AND name = ?",
                arguments: [trigger.name])
            if present != guarded { try replace(trigger, by: guarded) }
            guard deviceTriggers[trigger.name] != trigger.sql else { continue }
            try db.execute(
                sql: "UPDATE tidemark_device_trigger SET sql = ? WHERE name = ?",
                arguments: [trigger.sql, trigger.name])
        }
    }

    private func replace(_ trigger: FileObjects.Object, by sql: String) throws {
        try db.execute(sql: "DROP TRIGGER \(SQLText.name(trigger.name))")
        try db.execute(sql: sql)
    }

    // MARK: Decisions

    private func travelling(_ object: FileObjects.Object) -> FileObjects.Object {
        guard object.kind == .trigger, let effects = trial.effects[object.name] else { return object }
        let runsAtDevice: Bool? =
            deviceTriggers[object.name] != nil
            ? true : effects.writesSynced && schema.byName[effects.target] != nil ? false : nil
        return FileObjects.Object(kind: .trigger, name: object.name, sql: object.sql, runsAtDevice: runsAtDevice)
    }

    /// Finds triggers that SQLite cannot compile, for instance because a module or a table is missing.
    private mutating func findBrokenTriggers() throws {
        for trigger in statements where trigger.kind == .trigger && trial.reasons[trigger.name] != nil {
            let target = try String.fetchOne(
                db, sql: "SELECT tbl_name FROM main.sqlite_master WHERE type = 'trigger' AND name = ?",
                arguments: [trigger.name])
            guard let table = target.flatMap({ schema.byName[$0] }) else { continue }
            for sql in ScratchSchema.writes(to: table.name, table.columns.map(\.name)) {
                do { _ = try db.makeStatement(sql: sql) } catch let error as DatabaseError {
                    let reason = error.message ?? trial.reasons[trigger.name] ?? "SQLite gives no reason"
                    problems.append(.brokenTrigger(trigger.name, of: table.name, because: reason))
                    break
                }
            }
        }
    }

    private mutating func findProblems(_ collations: [String: String]) {
        for table in schema.tables {
            let sql = ([table.sql] + table.indexSQL).joined(separator: "\n").lowercased()
            for name in trial.tableFunctions.sorted() where sql.contains(name) {
                problems.append(.unknownFunction(name, in: table.name))
            }
            for name in trial.unknownCollations.sorted()
            where sql.contains(name.lowercased()) && collations[name] == nil {
                problems.append(.unknownCollation(name, in: table.name))
            }
        }
        for (name, effects) in trial.effects.sorted(by: { $0.key < $1.key })
        where !effects.unknownFunctions.isEmpty && schema.byName[effects.target] != nil && deviceTriggers[name] == nil {
            problems.append(.unknownFunctions(effects.unknownFunctions.sorted(), ofTrigger: name, in: effects.target))
        }
    }
}

extension SchemaProblem {
    fileprivate static func unknownFunction(_ name: String, in table: String) -> Self {
        SchemaProblem(
            table: table,
            reason: """
                calls the function \(name) in a constraint, a default, an index or a generated column, and only the \
                program has that function
                """,
            cure: "-- remove the call, or leave the table local with --exclude \(table)")
    }

    fileprivate static func unknownFunctions(_ names: [String], ofTrigger trigger: String, in table: String) -> Self {
        let functions = (names.count == 1 ? "the function " : "the functions ") + names.joined(separator: ", ")
        return SchemaProblem(
            table: table,
            reason: """
                has the trigger \(trigger), which calls \(functions), and only the program has \
                \(names.count == 1 ? "it" : "them")
                """,
            cure: """
                -- serve with --trigger \(trigger)=device: then it runs where the program writes, not at the server; or
                DROP TRIGGER \(SQLText.name(trigger));
                """)
    }

    fileprivate static func brokenTrigger(_ trigger: String, of table: String, because reason: String) -> Self {
        SchemaProblem(
            table: table,
            reason: "has the trigger \(trigger), which cannot run here: \(reason)",
            cure: """
                -- change the trigger so that it compiles (strings stand in 'single quotes'), or
                -- leave the table local with --exclude \(table)
                """)
    }

    fileprivate static func unknownCollation(_ name: String, in table: String) -> Self {
        SchemaProblem(
            table: table,
            reason: "uses the collation \(name), which only the program has",
            cure: """
                -- serve with --collation \(name)=BINARY, NOCASE or RTRIM: one that orders the values as \(name) does
                """)
    }
}
