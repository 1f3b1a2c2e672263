package import GRDB

/// The table in which GRDB's migrator keeps the names of the migrations that a file has had.
///
/// It is not synced, because each program migrates its own file. A new device gets the names with the
/// zone's tables, since these have had the migrations.
package enum MigratorTable {
    /// The table's name.
    package static let name = "grdb_migrations"

    /// Returns the names of the migrations that a file has had, sorted.
    package static func migrations(in db: Database) throws -> [String] {
        let exists = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('\(name)', 'main') WHERE name = 'identifier')"
        guard try Bool.fetchOne(db.cachedStatement(sql: exists)) == true else { return [] }
        return try String.fetchAll(
            db.cachedStatement(
                sql: "SELECT identifier FROM main.\(name) WHERE typeof(identifier) = 'text' ORDER BY identifier"))
    }

    /// Notes migrations that a file's tables have had.
    package static func add(_ migrations: [String], in db: Database) throws {
        guard !migrations.isEmpty else { return }
        try db.execute(sql: "CREATE TABLE IF NOT EXISTS main.\(name) (identifier TEXT NOT NULL PRIMARY KEY)")
        let statement = try db.makeStatement(sql: "INSERT OR IGNORE INTO main.\(name) (identifier) VALUES (?)")
        for migration in migrations { try statement.execute(arguments: [migration]) }
    }
}
