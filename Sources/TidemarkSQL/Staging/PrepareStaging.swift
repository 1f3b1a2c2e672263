package import GRDB
package import TidemarkCore

extension EngineConnection {
    /// Adds functions, staging and the schema's catalogue to a connection, outside a transaction or at its start.
    package static func prepare(_ db: Database, schema: SyncSchema) throws {
        let isPrepared = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_catalog'"))
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

/// The schema as temporary tables, with which statements check names; on a device also with what only the zone has.
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
