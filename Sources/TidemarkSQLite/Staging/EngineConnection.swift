public import GRDB
public import TidemarkCore

/// Prepares a connection for the engine: functions, temporary tables and the catalogue of the
/// schema.
///
/// Everything lives in the connection alone. The file and other connections see none of it.
public enum EngineConnection {
    /// Makes every commit of a connection reach the disk before it returns.
    ///
    /// GRDB chooses `NORMAL` with WAL; what was acknowledged, or sent, must survive a power cut.
    public static func flushCommits(of db: Database) throws {
        let mode = planted(PlantedBug.answersBeforeFlush) ? "NORMAL" : "EXTRA"
        try db.execute(sql: "PRAGMA synchronous = \(mode)")
    }

    /// Makes sure that a connection has what the engine's statements need, for the given schema.
    ///
    /// Call outside a transaction or at its start; costs one small query when all is there.
    public static func prepare(_ db: Database, schema: SyncSchema) throws {
        let isPrepared = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_catalog'")
        )
        if isPrepared != true {
            try widenCaches(of: db)
            try SQLFunctions.register(on: db)
            try FingerprintFunctions.register(on: db)
            try db.execute(sql: ReduceCapture.resultSQL)
            try db.execute(sql: StagingTables.sql)
            try db.execute(sql: RangeFingerprints.sql)
            try db.execute(sql: Catalog.sql)
        }
        try Catalog.load(schema, in: db)
    }
}

extension EngineConnection {
    /// Adds the SQL functions to a connection that only reads, unless it has them.
    package static func addFunctions(to db: Database) throws {
        let hasThem = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM pragma_function_list WHERE name = 'tidemark_key')"
        )
        if hasThem != true { try SQLFunctions.register(on: db) }
    }

    /// The least memory for pages, in KiB: of the file, and of temporary tables.
    ///
    /// SQLite's own 2 MB are read and written again and again when a large answer is taken in.
    private static let cacheKiB = 4 << 10

    private static func widenCaches(of db: Database) throws {
        try db.execute(sql: "PRAGMA temp.cache_size = -\(cacheKiB)")
        // Negative is KiB, positive is pages; what somebody has made larger stays.
        let size = try Int.fetchOne(db, sql: "PRAGMA main.cache_size") ?? 0
        let page = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4_096
        guard (size < 0 ? -size : size * page >> 10) < cacheKiB else { return }
        try db.execute(sql: "PRAGMA main.cache_size = -\(cacheKiB)")
    }
}

/// The schema as temporary tables, so that statements can check and rewrite names and references in
/// sets.
///
/// On a device it has what only the zone has as well: its rows arrive here, too.
package enum Catalog {
    static let sql = """
        CREATE TEMP TABLE tidemark_catalog (text TEXT NOT NULL);
        CREATE TEMP TABLE tidemark_table (
            tbl TEXT PRIMARY KEY, kind TEXT NOT NULL, parts INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_column (
            tbl TEXT, col TEXT, key_position INTEGER, PRIMARY KEY (tbl, col)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_gone (tbl TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_alias (
            tbl TEXT, name TEXT, col TEXT, PRIMARY KEY (tbl, name)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_reference (
            tbl TEXT, col TEXT, parent TEXT, PRIMARY KEY (tbl, col, parent)
        ) WITHOUT ROWID;
        """

    /// Fills the catalogue, unless it describes the same tables already.
    static func load(_ schema: SyncSchema, in db: Database) throws {
        guard
            try String.fetchOne(db.cachedStatement(sql: "SELECT text FROM temp.tidemark_catalog")) != schema.catalogText
        else { return }
        for table in ["catalog", "table", "column", "alias", "gone", "reference"] {
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_\(table)").execute()
        }
        for table in schema.tables + schema.difference.unknownTables {
            try db.cachedStatement(sql: "INSERT INTO temp.tidemark_table VALUES (?, ?, ?)").execute(arguments: [
                table.name, table.keyKind.rawValue, table.key.count,
            ])
            for column in table.columns + schema.difference.unknownColumns[table.name, default: []] {
                try db.cachedStatement(sql: "INSERT INTO temp.tidemark_column VALUES (?, ?, ?)").execute(arguments: [
                    table.name, column.name, table.key.firstIndex(of: column.name),
                ])
            }
            let unknown = Set(schema.difference.unknownColumns[table.name, default: []].map(\.name))
            for (name, column) in schema.history.renames[table.name, default: [:]] {
                if planted(PlantedBug.refusesFormerNames), unknown.contains(column) { continue }
                try db.execute(
                    sql: "INSERT INTO temp.tidemark_alias VALUES (?, ?, ?)",
                    arguments: [table.name, name, column]
                )
            }
            for name in schema.history.dropped[table.name, default: []] {
                try db.execute(
                    sql: "INSERT OR IGNORE INTO temp.tidemark_alias VALUES (?, ?, NULL)",
                    arguments: [table.name, name]
                )
            }
            for (column, parent) in integerReferences(of: table, in: schema) {
                try db.cachedStatement(sql: "INSERT OR IGNORE INTO temp.tidemark_reference VALUES (?, ?, ?)").execute(
                    arguments: [table.name, column, parent])
            }
        }
        for table in schema.history.droppedTables {
            try db.execute(sql: "INSERT INTO temp.tidemark_gone VALUES (?)", arguments: [table])
        }
        try db.cachedStatement(sql: "INSERT INTO temp.tidemark_catalog VALUES (?)").execute(arguments: [
            schema.catalogText
        ])
    }

    /// The columns that hold another table's integer key, and may therefore hold a temporary id.
    ///
    /// A reference to a column that itself refers to an integer key counts as well: a composite key
    /// can be made of foreign keys.
    package static func integerReferences(of table: SyncedTable, in schema: SyncSchema) -> [(
        column: String, parent: String
    )] {
        table.references.flatMap { reference in
            zip(reference.columns, reference.parentColumns).compactMap { column, target in
                root(of: target, in: reference.parent, schema: schema, depth: 0).map { (column, $0) }
            }
        }
    }

    /// The integer-keyed table whose ids a column holds, following references of references.
    private static func root(of column: String, in table: String, schema: SyncSchema, depth: Int) -> String? {
        guard depth < 16, let table = schema.byName[table] else { return nil }
        if table.keyKind == .integer, table.key == [column] { return table.name }
        for reference in table.references {
            for (child, target) in zip(reference.columns, reference.parentColumns) where child == column {
                let found = root(of: target, in: reference.parent, schema: schema, depth: depth + 1)
                if let found { return found }
            }
        }
        return nil
    }
}
