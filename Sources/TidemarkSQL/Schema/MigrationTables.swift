package import GRDB
package import TidemarkCore

/// The tables in which frameworks note the migrations that a file has had.
///
/// They are no data: a row of such a table says that the file's own tables have had a change, and a device whose tables
/// lack it would never make it. So the tables do not sync. A new file gets them with the other tables. A file that has
/// joined takes what the zone has noted since, once its tables have all columns of the zone's.
package enum MigrationTables {
    /// The columns that tell what a row stands for; numbers and times of the same migration differ between files.
    package static let identities = [
        "grdb_migrations": ["identifier"], "django_migrations": ["app", "name"], "schema_migrations": ["version"],
        "ar_internal_metadata": ["key"], "alembic_version": ["version_num"], "room_master_table": ["identity_hash"],
        "__efmigrationshistory": ["migrationid"], "flyway_schema_history": ["version", "script"],
        "knex_migrations": ["name"], "_prisma_migrations": ["migration_name"],
    ]
    package static let tableSQL = """
        CREATE TABLE IF NOT EXISTS tidemark_migration_table (name TEXT PRIMARY KEY) WITHOUT ROWID;
        """

    package static func isKnown(_ table: String) -> Bool { identities[table.lowercased()] != nil }

    /// Returns the names of a file's tables: those of known frameworks, and the declared ones.
    package static func names(in db: Database) throws -> Set<String> {
        let declared =
            try db.tableExists("tidemark_migration_table")
            ? String.fetchSet(db, sql: "SELECT name FROM tidemark_migration_table") : []
        return try String.fetchSet(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table'")
            .filter { isKnown($0) || declared.contains($0) }
    }

    /// Returns a file's tables as devices get them.
    package static func objects(in db: Database) throws -> FileObjects {
        var objects = FileObjects()
        objects.migrationTables = try read(in: db)
        objects.objects = try objects.migrationTables.compactMap { table in
            try String.fetchOne(db, sql: "SELECT sql FROM main.sqlite_master WHERE name = ?", arguments: [table.name])
                .map { FileObjects.Object(kind: .table, name: table.name, sql: $0) }
        }
        return objects
    }

    /// Reads a file's tables with their rows.
    package static func read(in db: Database) throws -> [FileObjects.MigrationTable] {
        try names(in: db).sorted().map { FileObjects.MigrationTable(name: $0, rows: try rows(of: $0, in: db)) }
    }

    /// Returns the present rows of a table, each an object of its columns in JSON.
    package static func rows(of table: String, in db: Database) throws -> [String] {
        try Row.fetchAll(db.cachedStatement(sql: "SELECT * FROM main.\(SQLText.name(table))")).map { row in
            JSONText.object(row.map { (WireName.member(column: $0), CanonicalJSON.text(of: $1)) })
        }.sorted()
    }

    /// Gives the tables of a file these rows; a server's may not be in a table that syncs, or in the bookkeeping.
    package static func write(
        _ tables: [FileObjects.MigrationTable], besides schema: SyncSchema? = nil, in db: Database
    ) throws {
        for table in tables where try isLocal(table.name, schema, in: db) {
            try db.execute(sql: "DELETE FROM main.\(SQLText.name(table.name))")
            for row in table.rows { try insert(members(of: row), into: table.name, in: db) }
        }
    }

    /// Whether a file has the table, and neither the zone nor the engine has it.
    package static func isLocal(_ table: String, _ schema: SyncSchema?, in db: Database) throws -> Bool {
        let name = table.lowercased()
        let isOthers =
            ["tidemark_", "sqlite_"].contains { name.hasPrefix($0) }
            || schema?.tables.contains { $0.name.lowercased() == name } ?? false
        return try !isOthers
            && String.fetchOne(
                db, sql: "SELECT type FROM main.sqlite_master WHERE name = ? COLLATE NOCASE", arguments: [table])
                == "table"
    }

    /// Returns the values of a row in JSON, by column.
    package static func members(of row: String) -> [String: String] {
        let members = JSONParts.members(of: row) ?? []
        return Dictionary(members.map { (WireName.name(of: JSONText.unquote("\"\($0.name)\"")), $0.value) }) { $1 }
    }

    package static func insert(_ row: [String: String], into table: String, in db: Database) throws {
        let present = Set(try db.columns(in: table).map(\.name))
        let row = row.filter { present.contains($0.key) }
        guard !row.isEmpty else { return }
        let columns = row.keys.map(SQLText.name).joined(separator: ", ")
        let marks = row.map { _ in "?" }.joined(separator: ", ")
        try db.execute(
            sql: "INSERT OR IGNORE INTO main.\(SQLText.name(table)) (\(columns)) VALUES (\(marks))",
            arguments: StatementArguments(try row.values.map(CanonicalJSON.value)))
    }
}
