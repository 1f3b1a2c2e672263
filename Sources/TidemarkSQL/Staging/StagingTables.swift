package import GRDB

/// The temporary tables for change sets between their JSON and a device's tables: answers, and the outbox.
///
/// | table | one row is |
/// | --- | --- |
/// | `tidemark_staged_set` | a change set |
/// | `tidemark_staged_member` | a member of a change set; `tbl` is set for tables |
/// | `tidemark_staged` | a change to a record; `cells` refers to another record with the same values |
/// | `tidemark_staged_cell` | a value, decoded to its stored form |
/// | `tidemark_staged_delta` | an integer to add to a column |
/// | `tidemark_answered` | an answered change set with its members that are not tables |
/// | `tidemark_confirmed` | a record that an answer confirms as sent |
/// | `tidemark_assigned` | a temporary id with its permanent id |
/// | `tidemark_respelled` | a key with another spelling |
/// | `tidemark_group` | a range of captured changes that becomes one change set |
/// | `tidemark_division` | a captured change with its group and part |
/// | `tidemark_held` | a value of a column that only the file has, while records are rewritten |
/// | `tidemark_previous` | a row before the server's rows replace it |
/// | `tidemark_found` | an edit that no trigger captured; `place` is its table's |
package enum StagingTables {
    static let sql = """
        CREATE TEMP TABLE tidemark_staged_set (ord INTEGER PRIMARY KEY);
        CREATE TEMP TABLE tidemark_staged_member (
            ord INTEGER, name TEXT, tbl TEXT, type TEXT, value, PRIMARY KEY (ord, name)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_staged (
            rec INTEGER PRIMARY KEY,
            ord INTEGER NOT NULL,
            tbl TEXT NOT NULL,
            operation TEXT NOT NULL,
            key TEXT NOT NULL,
            old_key TEXT,
            base INTEGER,
            attributes TEXT,
            cells INTEGER
        );
        CREATE UNIQUE INDEX temp.tidemark_staged_record ON tidemark_staged (tbl, key, ord);
        CREATE INDEX temp.tidemark_staged_by_set ON tidemark_staged (ord, tbl);
        CREATE TEMP TABLE tidemark_staged_cell (
            rec INTEGER, col TEXT, value, PRIMARY KEY (rec, col)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_staged_delta (
            rec INTEGER, col TEXT, delta INTEGER NOT NULL, PRIMARY KEY (rec, col)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_answered (
            ord INTEGER PRIMARY KEY, id TEXT, revision INTEGER, conflict INTEGER, reasons TEXT, wrong INTEGER
        );
        CREATE TEMP TABLE tidemark_confirmed (
            tbl TEXT, key TEXT, was TEXT, waits INTEGER, became TEXT, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_assigned (
            tbl TEXT, temporary INTEGER, permanent INTEGER, PRIMARY KEY (tbl, temporary)
        ) WITHOUT ROWID;
        CREATE INDEX temp.tidemark_assigned_permanent ON tidemark_assigned (tbl, permanent);
        CREATE TEMP TABLE tidemark_respelled (
            tbl TEXT, old TEXT, new TEXT, PRIMARY KEY (tbl, old)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_group (
            last INTEGER, part INTEGER, id TEXT NOT NULL, time INTEGER NOT NULL, seq INTEGER,
            outside INTEGER NOT NULL, PRIMARY KEY (last, part)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_division (
            num INTEGER PRIMARY KEY, tbl TEXT NOT NULL, key TEXT NOT NULL, operation TEXT NOT NULL,
            before TEXT, attributes TEXT, grp INTEGER NOT NULL, part INTEGER NOT NULL DEFAULT 0,
            UNIQUE (tbl, key)
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
        """

    /// Returns the SQL of the number of a staged record's cells; `alias` names its row.
    package static func cells(of alias: String) -> String { "coalesce(\(alias).cells, \(alias).rec)" }

    package static func clear(in db: Database) throws {
        for table in [
            "staged_set", "staged_member", "staged", "staged_cell", "staged_delta", "answered", "confirmed", "assigned",
        ] { try db.cachedStatement(sql: "DELETE FROM temp.tidemark_\(table)").execute() }
    }
}
