import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// SQLite's interpretation of a `CREATE TABLE`.
@Suite struct IntrospectionTests {
    private func tables(_ sql: String) throws -> [SyncedTable] {
        try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try SchemaIntrospection(db).tables
        }
    }

    private func table(_ sql: String) throws -> SyncedTable { try #require(try tables(sql).first) }

    @Test(arguments: [
        ("id INTEGER PRIMARY KEY", SyncedTable.KeyKind.integer), ("id integer primary key", .integer),
        ("id INTEGER PRIMARY KEY ASC AUTOINCREMENT", .integer), ("a, id INTEGER, PRIMARY KEY (id)", .integer),
        ("id INTEGER, PRIMARY KEY (id DESC)", .integer), ("id INTEGER PRIMARY KEY DESC", .general),
        ("id INT PRIMARY KEY", .general), ("id BIGINT PRIMARY KEY", .general), ("id REAL PRIMARY KEY", .general),
        ("id BLOB PRIMARY KEY", .general), ("id PRIMARY KEY", .general), ("id UUID PRIMARY KEY", .general),
        ("id TEXT PRIMARY KEY", .text), ("id VARCHAR(36) PRIMARY KEY", .text), ("id CHARINT PRIMARY KEY", .general),
        ("id CLOB PRIMARY KEY", .text), ("a INTEGER, b INTEGER, PRIMARY KEY (a, b)", .general),
        ("a TEXT, b TEXT, PRIMARY KEY (a, b)", .general),
    ]) func `the kind of a key is SQLite's interpretation of it`(columns: String, kind: SyncedTable.KeyKind) throws {
        #expect(try table("CREATE TABLE t (rest, \(columns))").keyKind == kind)
    }

    @Test func `an integer key of a WITHOUT ROWID table is no row id alias`() throws {
        let table = try table("CREATE TABLE t (id INTEGER PRIMARY KEY) WITHOUT ROWID")
        #expect(table.keyKind == .general)
    }

    @Test func `an integer key is a row id alias exactly if SQLite fills it in`() throws {
        for columns in [
            "id INTEGER PRIMARY KEY", "id INTEGER PRIMARY KEY DESC", "id INT PRIMARY KEY",
            "id INTEGER, PRIMARY KEY (id DESC)", "id INTEGER, PRIMARY KEY (id ASC)", "id INTEGER UNIQUE PRIMARY KEY",
            "\"id\" \"INTEGER\" PRIMARY KEY",
        ] {
            let sql = "CREATE TABLE t (rest, \(columns))"
            let isFilled = try DatabaseQueue().write { db in
                try db.execute(sql: sql + "; INSERT INTO t (rest) VALUES (1)")
                return try Bool.fetchOne(db, sql: "SELECT id IS NOT NULL FROM t")
            }
            #expect(try (table(sql).keyKind == .integer) == isFilled, "\(columns)")
        }
    }

    @Test func `the parts of a composite key are in key order, not table order`() throws {
        let table = try table("CREATE TABLE t (a, b, c, PRIMARY KEY (c, a))")
        #expect(table.key == ["c", "a"])
        #expect(table.columns.map(\.name) == ["a", "b", "c"])
        #expect(table.valueColumns.map(\.name) == ["b"])
    }

    @Test func `columns have type, default and NOT NULL; generated columns are left out`() throws {
        let table = try table(
            """
            CREATE TABLE t (
                id INTEGER PRIMARY KEY,
                a VARCHAR(9) NOT NULL DEFAULT 'x',
                b AS (a || '!') STORED,
                c AS (a || '?'),
                d DEFAULT (1 + 1)
            )
            """
        )
        #expect(
            table.columns == [
                .init(name: "id", type: "INTEGER", isNotNull: false, defaultSQL: nil),
                .init(name: "a", type: "VARCHAR(9)", isNotNull: true, defaultSQL: "'x'"),
                .init(name: "d", type: "", isNotNull: false, defaultSQL: "1 + 1"),
            ]
        )
    }

    @Test(arguments: [
        ("a, b", ["rowid"], SyncedTable.KeyKind.integer), ("a, rowid", ["_rowid_"], .integer),
        ("a, RowID, _rowid_", ["oid"], .integer), ("a TEXT NOT NULL UNIQUE, b", ["a"], .text),
        ("a INTEGER NOT NULL UNIQUE", ["a"], .general), ("a TEXT UNIQUE, b", ["rowid"], .integer),
        ("a NOT NULL, b NOT NULL, UNIQUE (b, a)", ["b", "a"], .general),
        ("a NOT NULL, b NOT NULL UNIQUE, c NOT NULL, UNIQUE (a, c)", ["b"], .general),
        ("a TEXT NOT NULL UNIQUE COLLATE NOCASE", ["rowid"], .integer),
        ("a NOT NULL, b AS (a) STORED UNIQUE", ["rowid"], .integer),
    ]) func `a table without a primary key is known by unique columns, or by the rowid`(
        columns: String, key: [String], kind: SyncedTable.KeyKind
    ) throws {
        let table = try table("CREATE TABLE t (\(columns))")
        #expect(table.key == key)
        #expect(table.keyKind == kind)
        #expect(table.traits?.key == key)
    }

    @Test func `references have the parent's exact name, and its key if the SQL names no column`() throws {
        let parsed = try tables(
            """
            CREATE TABLE Teams (id INTEGER PRIMARY KEY, a, b, UNIQUE (a, b));
            CREATE TABLE players (
                id INTEGER PRIMARY KEY,
                team REFERENCES teams ON DELETE CASCADE,
                x, y,
                FOREIGN KEY (x, y) REFERENCES TEAMS (a, b) ON DELETE SET NULL
            );
            """
        )
        let references = try #require(parsed.last?.references)
        #expect(references.map(\.parent) == ["Teams", "Teams"])
        #expect(Set(references.map(\.columns)) == [["team"], ["x", "y"]])
        #expect(references.first { $0.columns == ["team"] }?.parentColumns == ["id"])
        #expect(references.first { $0.columns == ["team"] }?.onDelete == .cascade)
        #expect(references.first { $0.columns == ["x", "y"] }?.onDelete == .setNull)
    }

    @Test func `unique constraints are listed, from indexes and tables, except the primary key`() throws {
        let table = try table(
            """
            CREATE TABLE t (id TEXT PRIMARY KEY, a UNIQUE, b, c, UNIQUE (b, c));
            CREATE UNIQUE INDEX i ON t (c) WHERE c > 0;
            CREATE UNIQUE INDEX j ON t (lower(a));
            CREATE INDEX k ON t (b);
            """
        )
        #expect(Set(table.uniques) == [["a"], ["b", "c"], ["c"]])
        #expect(table.indexSQL.count == 3)
    }

    @Test func `AUTOINCREMENT is detected`() throws {
        #expect(try table("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)").isAutoincrement)
        #expect(try !table("CREATE TABLE t (id INTEGER PRIMARY KEY)").isAutoincrement)
    }

    @Test func `the word autoincrement in a default is not taken for AUTOINCREMENT`() throws {
        let table = try table("CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT DEFAULT 'autoincrement')")
        #expect(!table.isAutoincrement)
    }

    @Test func `views, virtual tables and bookkeeping do not sync`() throws {
        let introspection = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT);
                    CREATE TABLE local (id INTEGER PRIMARY KEY);
                    CREATE TABLE tidemark_state (id);
                    CREATE TABLE grdb_migrations (identifier TEXT);
                    CREATE VIEW v AS SELECT * FROM t;
                    CREATE VIRTUAL TABLE words USING fts5 (body);
                    CREATE TEMP TABLE t2 (id);
                    """
            )
            return try SchemaIntrospection(db, excluding: ["local"])
        }
        #expect(introspection.tables.map(\.name) == ["t"])
        #expect(introspection.skippedTables.contains("words"))
        #expect(!introspection.skippedTables.contains("tidemark_state"))
    }
}
