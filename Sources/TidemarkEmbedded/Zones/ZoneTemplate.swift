import GRDB
import TidemarkCore
import TidemarkSQL

/// The tables of the main zone's file, from which the files of other zones are made.
///
/// All zones of a server have the program's own objects and the operator's declarations of the main
/// zone. They have none of its rows but those about the program's migrations, which its tables had.
struct ZoneTemplate: Hashable, Sendable {
    /// A table, index, view or trigger of the program.
    struct Object: Hashable, Sendable {
        let type: String
        let name: String
        let sql: String

        /// Whether two statements make the same object.
        func isSame(as other: Self) -> Bool { sql == other.sql || StatementTokens(sql) == StatementTokens(other.sql) }

        /// Renames a column as this statement spells it: SQLite keeps the quotes, and devices compare statements.
        func renameColumn(_ old: String, to new: String, in db: Database) throws {
            let spelling = StatementTokens(sql).spelling(of: new) ?? SQLText.name(new)
            try db.execute(
                sql: "ALTER TABLE main.\(SQLText.name(name)) RENAME COLUMN \(SQLText.name(old)) TO \(spelling)")
        }
    }

    struct Column: Hashable, Sendable {
        let name: String
        let affinity: String
        let isGenerated: Bool
        /// Whether a row that exists has no value for it: it is NOT NULL and without a default.
        let needsValue: Bool
    }

    /// The program's objects: tables first, then what needs them.
    let objects: [Object]
    let localTables: Set<String>
    /// The columns by table, in table order.
    let columns: [String: [Column]]
    /// The columns that the operator has renamed, each with its present name.
    let renames: [ColumnRename]
    private let settings: [String: Int64]
    private let migrationTables: [FileObjects.MigrationTable]
    private let declarations: [String: [[DatabaseValue]]]

    /// The file's settings that belong to the program.
    private static let settingNames = ["user_version", "application_id"]
    /// The bookkeeping with the operator's declarations, and its column count.
    private static let declarationTables = [
        "tidemark_trait": 4, "tidemark_policy": 2, "tidemark_device_trigger": 2, "tidemark_collation": 2,
        "tidemark_migration_table": 1,
    ]

    init(_ db: Database) throws {
        objects = try Self.objects(in: db)
        localTables = try SchemaIntrospection.localTables(in: db)
        let columns = try objects.filter { $0.type == "table" }.reduce(into: [String: [Column]]()) { columns, table in
            columns[table.name] = try Self.columns(of: table.name, in: db)
        }
        self.columns = columns
        renames = try ServedColumns.renames(in: db).filter { rename in
            columns[rename.table]?.contains { $0.name == rename.new } == true
        }
        settings = try Self.settingNames.reduce(into: [:]) { settings, name in
            settings[name] = try Int64.fetchOne(db, sql: "PRAGMA main.\(name)")
        }
        migrationTables = try MigrationTables.read(in: db)
        declarations = try Self.declarationTables.keys.reduce(into: [:]) { declarations, table in
            guard try db.tableExists(table) else { return }
            declarations[table] = try Row.fetchAll(db, sql: "SELECT * FROM \(table)").map { Array($0.databaseValues) }
        }
    }

    /// Returns the program's objects in a file, without those that SQLite makes itself.
    static func objects(in db: Database) throws -> [Object] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, sql
                FROM main.sqlite_master AS object
                WHERE sql IS NOT NULL
                    AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                    AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
                    AND name NOT IN (SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow')
                ORDER BY type = 'trigger', type = 'view', type = 'index', object.rowid
                """
        ).map { try Object(type: $0.value("type"), name: $0.value("name"), sql: $0.value("sql")) }
    }

    static func columns(of table: String, in db: Database) throws -> [Column] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT name, type, hidden,
                    "notnull" AND pk = 0 AND hidden = 0 AND upper(ifnull(dflt_value, 'NULL')) = 'NULL' AS needsValue
                FROM pragma_table_xinfo(?)
                ORDER BY cid
                """,
            arguments: [table]
        ).map { row in
            let column = SyncedTable.Column(
                name: try row.value("name"), type: try row.value("type"), isNotNull: false, defaultSQL: nil)
            return Column(
                name: column.name, affinity: column.affinity, isGenerated: try row.value("hidden") > 1,
                needsValue: try row.value("needsValue"))
        }
    }

    /// The declared keys of tables that a zone does not serve yet, by table.
    func keys(missingIn db: Database) throws -> [String: [String]] {
        let served = try ServedColumns.tables(in: db)
        return try (declarations[TraitTable.name] ?? []).reduce(into: [:]) { keys, values in
            guard let table = String.fromDatabaseValue(values[0]), !served.contains(table) else { return }
            keys[table] = try TraitTable.names(String.fromDatabaseValue(values[1]))
        }
    }

    /// Makes the tables in an empty file, in the caller's transaction.
    func make(in db: Database) throws {
        for object in objects { try db.execute(sql: object.sql) }
        for (name, value) in settings { try db.execute(sql: "PRAGMA main.\(name) = \(value)") }
        try MigrationTables.write(migrationTables, in: db)
        try db.execute(sql: TraitTable.sql)
        for row in declarations[TraitTable.name] ?? [] { try insert(row, into: TraitTable.name, in: db) }
        try declare(in: db)
    }

    /// Replaces policies and declarations by the main zone's, in tables made anew: their `schema_version` tells others.
    func declare(in db: Database) throws {
        let tables = Self.declarationTables.keys.filter { $0 != TraitTable.name }.sorted()
        for table in tables {
            let rows = declarations[table] ?? []
            let present = try db.tableExists(table) ? Row.fetchAll(db, sql: "SELECT * FROM \(table)") : []
            guard Set(present.map { Array($0.databaseValues) }) != Set(rows) else { continue }
            let made = [ZonePolicies.tableSQL, ServedObjects.tableSQL, MigrationTables.tableSQL].joined()
            try db.execute(sql: "DROP TABLE IF EXISTS \(table); \(made)")
            for row in rows { try insert(row, into: table, in: db) }
        }
        ProgramFunctions.addStandIns(declaredIn: db)
    }

    private func insert(_ row: [DatabaseValue], into table: String, in db: Database) throws {
        let marks = Array(repeating: "?", count: Self.declarationTables[table] ?? 0).joined(separator: ", ")
        try db.execute(sql: "INSERT INTO \(table) VALUES (\(marks))", arguments: StatementArguments(row))
    }

    /// Raises a zone's settings and noted migrations to the main zone's, because its tables have had these changes.
    func raiseSettings(in db: Database) throws {
        for (name, value) in settings where value > (try Int64.fetchOne(db, sql: "PRAGMA main.\(name)") ?? 0) {
            try db.execute(sql: "PRAGMA main.\(name) = \(value)")
        }
        // Rows that the main zone does not have may be a program's data, so they stay as they are.
        for table in migrationTables where try MigrationTables.isLocal(table.name, nil, in: db) {
            let present = try MigrationTables.rows(of: table.name, in: db)
            if Set(present).isStrictSubset(of: table.rows) { try MigrationTables.write([table], in: db) }
        }
    }
}

/// The table `tidemark_served_column`: the columns of each synced table, and their former names.
enum ServedColumns {
    /// Returns the tables that a zone serves; none in a file without bookkeeping.
    static func tables(in db: Database) throws -> Set<String> {
        guard try db.tableExists("tidemark_served_column") else { return [] }
        return try String.fetchSet(db, sql: "SELECT tbl FROM tidemark_served_column WHERE now IS NULL")
    }

    /// Returns the former names of columns, each with the present one.
    static func renames(in db: Database) throws -> [ColumnRename] {
        guard try db.tableExists("tidemark_served_column") else { return [] }
        return try Row.fetchAll(
            db, sql: "SELECT tbl, col, now FROM tidemark_served_column WHERE now <> '' ORDER BY tbl, col"
        ).map { try ColumnRename(table: $0.value("tbl"), old: $0.value("col"), new: $0.value("now")) }
    }
}
