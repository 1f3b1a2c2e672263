import GRDB
import TidemarkCore
import TidemarkSQL

/// The tables of the main zone's file, from which the files of other zones are made.
///
/// All zones of a server have the program's own objects and the operator's declarations of the main
/// zone. They have none of its rows but the names of the program's migrations, which its tables had.
struct ZoneTemplate: Hashable, Sendable {
    /// A table, index, view or trigger of the program.
    struct Object: Hashable, Sendable {
        let type: String
        let name: String
        /// The CREATE statement.
        let sql: String
    }

    /// The program's objects: tables first, then what needs them.
    let objects: [Object]
    /// The tables that are not synced.
    let localTables: Set<String>
    private let settings: [String: Int64]
    private let migrations: [String]
    private let declarations: [String: [[DatabaseValue]]]

    /// The file's settings that belong to the program.
    private static let settingNames = ["user_version", "application_id"]
    /// The bookkeeping with the operator's declarations, and its column count.
    private static let declarationTables = [
        "tidemark_trait": 4, "tidemark_policy": 2, "tidemark_device_trigger": 2, "tidemark_collation": 2,
    ]

    /// Reads the template from the main zone's file.
    init(_ db: Database) throws {
        objects = try Self.objects(in: db)
        localTables = try SchemaIntrospection.localTables(in: db)
        settings = try Self.settingNames.reduce(into: [:]) { settings, name in
            settings[name] = try Int64.fetchOne(db, sql: "PRAGMA main.\(name)")
        }
        migrations = try MigratorTable.migrations(in: db)
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
                    AND name <> '\(MigratorTable.name)'
                    AND name NOT IN (SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow')
                ORDER BY type = 'trigger', type = 'view', type = 'index', object.rowid
                """
        ).map { try Object(type: $0.value("type"), name: $0.value("name"), sql: $0.value("sql")) }
    }

    /// Makes the tables in an empty file, in the caller's transaction.
    func make(in db: Database) throws {
        for object in objects { try db.execute(sql: object.sql) }
        for (name, value) in settings { try db.execute(sql: "PRAGMA main.\(name) = \(value)") }
        try MigratorTable.add(migrations, in: db)
        try db.execute(sql: TraitTable.sql + ZonePolicies.tableSQL + ServedObjects.tableSQL)
        for (table, rows) in declarations {
            let marks = Array(repeating: "?", count: Self.declarationTables[table] ?? 0).joined(separator: ", ")
            for row in rows {
                try db.execute(sql: "INSERT INTO \(table) VALUES (\(marks))", arguments: StatementArguments(row))
            }
        }
    }
}
