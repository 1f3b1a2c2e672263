package import GRDB
package import TidemarkCore

extension EngineConnection {
    /// Adds functions and scratch tables to a device's connection, outside a transaction or at its start.
    package static func prepare(_ db: Database, schema: SyncSchema) throws {
        let isPrepared = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_found'"))
        if isPrepared != true {
            try widenCaches(of: db)
            try addFunctions(to: db)
            try db.execute(sql: ScratchTables.sql)
            try db.execute(sql: RangeFingerprints.sql)
        }
        ProgramFunctions.addStandIns(schema.objects, to: db)
    }
}

/// The temporary tables of a device's statements over many records: `Docs/BOOKKEEPING.md`.
enum ScratchTables {
    static let sql = """
        CREATE TEMP TABLE tidemark_assigned (
            tbl TEXT, temporary INTEGER, permanent INTEGER, PRIMARY KEY (tbl, temporary)
        ) WITHOUT ROWID;
        CREATE INDEX temp.tidemark_assigned_permanent ON tidemark_assigned (tbl, permanent);
        CREATE TEMP TABLE tidemark_respelled (
            tbl TEXT, old TEXT, new TEXT, PRIMARY KEY (tbl, old)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_division (
            num INTEGER PRIMARY KEY, tbl TEXT NOT NULL, key TEXT NOT NULL, operation TEXT NOT NULL, before TEXT,
            attributes TEXT, grp INTEGER NOT NULL, part INTEGER NOT NULL DEFAULT 0, UNIQUE (tbl, key)
        );
        CREATE TEMP TABLE tidemark_held (
            tbl TEXT, key TEXT, col TEXT, value, PRIMARY KEY (tbl, key, col)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_previous (
            tbl TEXT, key TEXT, image TEXT, operation TEXT, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_found (
            place INTEGER, tbl TEXT, key TEXT, operation TEXT, base TEXT, mine TEXT, theirs TEXT,
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_forgotten (
            tbl TEXT, key TEXT, number INTEGER, operation TEXT, attributes TEXT, PRIMARY KEY (tbl, key, number)
        ) WITHOUT ROWID;
        """
}
