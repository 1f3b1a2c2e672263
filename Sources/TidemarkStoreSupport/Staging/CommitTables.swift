package import GRDB

/// The temporary tables of a commit.
///
/// A connection creates them once. Each step empties its tables before it fills them.
package enum CommitTables {
    private static let sql = """
        CREATE TEMP TABLE tidemark_given (
            list INTEGER, tbl TEXT, temporary INTEGER, permanent INTEGER,
            PRIMARY KEY (list, tbl, temporary)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_contended (
            rec INTEGER, tbl TEXT, key TEXT, operation TEXT, base INTEGER, present INTEGER,
            image TEXT, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_overruling (
            tbl TEXT, key TEXT, col TEXT, is_mine INTEGER, loser TEXT, lost TEXT,
            PRIMARY KEY (tbl, key, col)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_overruled_row (
            tbl TEXT, key TEXT, before TEXT, after TEXT, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_truth (
            tbl TEXT, key TEXT, follows INTEGER, revision INTEGER, image TEXT,
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        """

    /// Creates the tables, unless the connection has them.
    static func prepare(_ db: Database) throws {
        let isPrepared = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_truth'")
        )
        if isPrepared != true { try db.execute(sql: sql) }
    }

    /// Empties a table.
    package static func clear(_ name: String, in db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_\(name)").execute()
    }
}
