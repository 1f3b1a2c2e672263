package import GRDB

/// The table of GRDB's migrator with the migrations of a file; not synced, but a new device gets them with the tables.
package enum MigratorTable {
    package static let name = "grdb_migrations"

    package static func migrations(in db: Database) throws -> [String] {
        let exists = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('\(name)', 'main') WHERE name = 'identifier')"
        guard try Bool.fetchOne(db.cachedStatement(sql: exists)) == true else { return [] }
        return try String.fetchAll(
            db.cachedStatement(
                sql: "SELECT identifier FROM main.\(name) WHERE typeof(identifier) = 'text' ORDER BY identifier"))
    }

    package static func add(_ migrations: [String], in db: Database) throws {
        guard !migrations.isEmpty else { return }
        try db.execute(sql: "CREATE TABLE IF NOT EXISTS main.\(name) (identifier TEXT NOT NULL PRIMARY KEY)")
        let statement = try db.makeStatement(sql: "INSERT OR IGNORE INTO main.\(name) (identifier) VALUES (?)")
        for migration in migrations { try statement.execute(arguments: [migration]) }
    }
}
