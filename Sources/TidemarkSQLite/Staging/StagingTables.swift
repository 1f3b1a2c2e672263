package import GRDB

/// Where change sets lie between their JSON and their tables: a row a record, a row a cell.
///
/// SQLite parses a text anew in each statement that looks into it, so each is parsed once, and what
/// follows reads rows. `tidemark_staged_set` holds a change set's outline as text,
/// `tidemark_staged_member` its members, of which those that are tables have `tbl`, and
/// `tidemark_staged_part` the members of these. `tidemark_staged_key` and
/// `tidemark_staged_attributes` hold what stands in the parts, `tidemark_staged` what the change
/// set does to which record, `tidemark_staged_cell` the values, decoded to what SQLite stores.
/// Both sides stage: the server what devices send, the device what the server answers and what its
/// own outbox replays.
/// A record whose values are another's names that one in `cells`, instead of a copy.
/// A device puts values of columns that only its file has aside in `tidemark_held` meanwhile; in
/// `tidemark_group` it notes which captured changes, up to what number, become which change set.
/// On a server `tidemark_planned` says which change sets are written together, as what revision.
/// `tidemark_answered` holds the members of an answer's change sets that are not tables,
/// `tidemark_confirmed` the records of which an answer says no more than that they are as sent.
package enum StagingTables {
    static let sql = """
        CREATE TEMP TABLE tidemark_staged_set (ord INTEGER PRIMARY KEY, json TEXT NOT NULL);
        CREATE TEMP TABLE tidemark_staged_member (
            ord INTEGER, name TEXT, tbl TEXT, type TEXT, value, PRIMARY KEY (ord, name)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_staged_part (
            ord INTEGER, tbl TEXT, member TEXT, type TEXT, value, PRIMARY KEY (ord, tbl, member)
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
        CREATE TEMP TABLE tidemark_staged_key (
            ord INTEGER, tbl TEXT, operation TEXT, place INTEGER, type TEXT, atom, json TEXT,
            PRIMARY KEY (ord, tbl, operation, place)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_staged_attributes (
            ord INTEGER, tbl TEXT, key TEXT, place INTEGER, attributes TEXT,
            PRIMARY KEY (ord, tbl, key, place)
        ) WITHOUT ROWID;
        CREATE TEMP TABLE tidemark_staged_cell (
            rec INTEGER, col TEXT, value, PRIMARY KEY (rec, col)
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
        CREATE TEMP TABLE tidemark_planned (
            ord INTEGER PRIMARY KEY, segment INTEGER NOT NULL, revision INTEGER NOT NULL,
            base INTEGER NOT NULL, seen TEXT NOT NULL, device TEXT
        );
        CREATE INDEX temp.tidemark_planned_segment ON tidemark_planned (segment);
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
        """

    /// The number under which the cells of a staged record lie, given the alias of its row.
    package static func cells(of alias: String) -> String { "coalesce(\(alias).cells, \(alias).rec)" }

    /// Empties the staging tables.
    package static func clear(in db: Database) throws {
        for table in [
            "staged_set", "staged_member", "staged_part", "staged_key", "staged_attributes", "staged", "staged_cell",
            "answered", "confirmed", "assigned",
        ] { try db.cachedStatement(sql: "DELETE FROM temp.tidemark_\(table)").execute() }
    }
}
