import GRDB
import TidemarkCore
import TidemarkSQL

/// What decides how the server serves a file: its objects, its settings, and the declarations about its tables.
///
/// Files of one shape differ in their rows only. Reading a shape takes a fraction of the time that the
/// introspection of the tables takes.
struct FileShape: Hashable, Sendable {
    /// The statements of all objects, the bookkeeping's too, in the order in which they were made.
    private let objects: String
    private let settings: [Int64?]
    private let migrationTables: [FileObjects.MigrationTable]
    private let declarations: [String: [[DatabaseValue]]]

    /// The bookkeeping that an adoption reads and settles.
    private static let tables = [
        "tidemark_trait", "tidemark_policy", "tidemark_device_trigger", "tidemark_collation", "tidemark_served_column",
        "tidemark_migration_table",
    ]

    init(_ db: Database) throws {
        objects =
            try String.fetchOne(
                db,
                sql: """
                    SELECT json_group_array(json_array(type, name, tbl_name, sql))
                    FROM (SELECT type, name, tbl_name, sql FROM main.sqlite_master ORDER BY rowid)
                    """) ?? ""
        settings = try ["user_version", "application_id"].map { try Int64.fetchOne(db, sql: "PRAGMA main.\($0)") }
        migrationTables = try MigrationTables.read(in: db)
        let names = Self.tables.map { "'\($0)'" }.joined(separator: ", ")
        let present = try String.fetchAll(
            db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name IN (\(names))")
        declarations = try present.reduce(into: [:]) { declarations, table in
            declarations[table] = try Row.fetchAll(db, sql: "SELECT * FROM main.\(table)").map {
                Array($0.databaseValues)
            }
        }
    }
}
