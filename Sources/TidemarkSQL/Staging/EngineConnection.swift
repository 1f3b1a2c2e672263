package import GRDB
package import TidemarkCore

/// Prepares a connection for the engine: SQL functions, temporary tables and the schema's catalogue.
///
/// All of these belong to the connection; the file and other connections do not see them.
package enum EngineConnection {
    /// Configures a connection so that every commit reaches the disk before it returns.
    ///
    /// GRDB chooses `NORMAL` with WAL, but acknowledged and sent changes must survive a power cut.
    package static func flushCommits(of db: Database) throws {
        let mode = planted(PlantedBug.answersBeforeFlush) ? "NORMAL" : "EXTRA"
        try db.execute(sql: "PRAGMA synchronous = \(mode)")
    }

    /// Prepares a connection for the engine's statements with a schema.
    ///
    /// Call this outside a transaction or at its start. On a prepared connection it runs one small
    /// query.
    package static func prepare(_ db: Database, schema: SyncSchema) throws {
        let isPrepared = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_catalog'")
        )
        if isPrepared != true {
            try widenCaches(of: db)
            try addFunctions(to: db)
            try db.execute(sql: ReduceCapture.tableSQL)
            try db.execute(sql: StagingTables.sql)
            try db.execute(sql: RangeFingerprints.sql)
            try db.execute(sql: Catalog.sql)
        }
        try Catalog.load(schema, in: db)
        ProgramFunctions.addStandIns(schema.objects, to: db)
    }
}

extension EngineConnection {
    /// Adds the SQL functions to a connection.
    ///
    /// Call this while no statement runs.
    package static func addFunctions(to db: Database) throws {
        try SQLFunctions.register(on: db)
        try FingerprintFunctions.register(on: db)
    }

    /// The smallest page cache of the file, and of temporary tables, in KiB.
    ///
    /// With SQLite's default of 2 MB, a large answer reads and writes the same pages repeatedly.
    private static let cacheKiB = 4 << 10

    private static func widenCaches(of db: Database) throws {
        try db.execute(sql: "PRAGMA temp.cache_size = -\(cacheKiB)")
        // A negative size is in KiB, a positive one in pages. A larger cache stays.
        let size = try Int.fetchOne(db, sql: "PRAGMA main.cache_size") ?? 0
        let page = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4_096
        guard (size < 0 ? -size : size * page >> 10) < cacheKiB else { return }
        try db.execute(sql: "PRAGMA main.cache_size = -\(cacheKiB)")
    }
}

/// The schema as temporary tables, with which statements check and rewrite names and references.
///
/// On a device it includes the tables and columns that only the zone has, because answers name them.
package enum Catalog {
    static let sql = """
        CREATE TEMP TABLE tidemark_catalog (text TEXT NOT NULL);
        CREATE TEMP TABLE tidemark_table (
            tbl TEXT PRIMARY KEY, kind TEXT NOT NULL, parts INTEGER NOT NULL, lowest INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_column (
            tbl TEXT, col TEXT, key_position INTEGER, adds INTEGER NOT NULL, PRIMARY KEY (tbl, col)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_reference (
            tbl TEXT, col TEXT, parent TEXT, PRIMARY KEY (tbl, col, parent)
        ) WITHOUT ROWID;
        """

    /// Fills the catalogue, unless it describes the same schema already.
    static func load(_ schema: SyncSchema, in db: Database) throws {
        guard
            try String.fetchOne(db.cachedStatement(sql: "SELECT text FROM temp.tidemark_catalog")) != schema.catalogText
        else { return }
        for table in ["catalog", "table", "column", "reference"] {
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_\(table)").execute()
        }
        for table in schema.tables + schema.difference.unknownTables {
            try db.cachedStatement(sql: "INSERT INTO temp.tidemark_table VALUES (?, ?, ?, ?)").execute(arguments: [
                table.name, table.keyKind.rawValue, table.key.count, table.lowestID,
            ])
            let addingColumns = schema.addingColumns(of: table.name)
            for column in table.columns + schema.difference.unknownColumns[table.name, default: []] {
                try db.cachedStatement(sql: "INSERT INTO temp.tidemark_column VALUES (?, ?, ?, ?)").execute(
                    arguments: [
                        table.name, column.name, table.key.firstIndex(of: column.name),
                        addingColumns.contains(column.name),
                    ])
            }
            for (column, parent) in schema.integerReferences(of: table) {
                try db.cachedStatement(sql: "INSERT OR IGNORE INTO temp.tidemark_reference VALUES (?, ?, ?)").execute(
                    arguments: [table.name, column, parent])
            }
        }
        try db.cachedStatement(sql: "INSERT INTO temp.tidemark_catalog VALUES (?)").execute(arguments: [
            schema.catalogText
        ])
    }
}
