import GRDB
import TidemarkCore
import TidemarkSQLite

/// The bookkeeping of a device's file, beside the app's own tables.
///
/// | table | a row is |
/// | --- | --- |
/// | `tidemark_device` | who this device is, what it syncs with, the last time of its clock, and the fingerprint of its confirmed rows |
/// | `tidemark_lock` | the process that syncs the file just now, and until when it may |
/// | `tidemark_changeset` | a change set in the outbox; `wire` is what was sent, frozen; `epoch` the history of its bases |
/// | `tidemark_wire_rest` | a piece of a long change set's text, behind what its row holds |
/// | `tidemark_outbox` | what a waiting change set does to one record |
/// | `tidemark_after` | a change set that another one depends on |
/// | `tidemark_base` | a record with waiting changes, as the server confirmed it (NULL: not at all) |
/// | `tidemark_kept` | an acknowledged change set, for the case that the server forgets it |
/// | `tidemark_kept_record` | what it did to one record, and the record before |
/// | `tidemark_idmap` | the permanent id that a temporary one became |
/// | `tidemark_unknown` | a value that the zone has in a column or table which this file does not have |
/// | `tidemark_former_T` | a row of the table T as it was when the zone dropped that |
/// | `tidemark_independent` | a table in which edits by other programs are independent; `*`: all are |
/// | `tidemark_outside` | a change set, waiting or parked, that no known transaction made |
/// | `tidemark_conflict` | a refused change set, or values that were overruled, until somebody resolves it |
/// | `tidemark_conflict_record` | one of its records: base, mine and theirs |
///
/// Nothing drops the outbox: its rows leave only with the server's verdict on them.
enum DeviceTables {
    static let sql = """
        CREATE TABLE IF NOT EXISTS tidemark_device (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            device TEXT NOT NULL,
            server TEXT NOT NULL,
            zone TEXT NOT NULL,
            epoch TEXT,
            schema TEXT,
            contact TEXT,
            time INTEGER NOT NULL DEFAULT 0,
            overruled INTEGER NOT NULL DEFAULT 0,
            lap TEXT,
            open_laps TEXT NOT NULL DEFAULT '[]',
            renames TEXT,
            fitted_local TEXT,
            fitted_schema TEXT,
            stale INTEGER NOT NULL DEFAULT 0,
            rebuilt TEXT,
            fingerprint TEXT,
            fingerprint_shape TEXT,
            checked INTEGER
        );
        CREATE TABLE IF NOT EXISTS tidemark_lock (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            owner TEXT NOT NULL,
            process INTEGER NOT NULL,
            until INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_unknown (
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            col TEXT NOT NULL,
            value,
            PRIMARY KEY (tbl, key, col)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_changeset (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            epoch TEXT,
            wire TEXT,
            time INTEGER NOT NULL DEFAULT 0,
            merges INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS tidemark_wire_rest (
            seq INTEGER NOT NULL,
            number INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (seq, number)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_outbox (
            seq INTEGER NOT NULL,
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            operation TEXT NOT NULL,
            before TEXT,
            attributes TEXT,
            base INTEGER NOT NULL,
            PRIMARY KEY (seq, tbl, key)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS tidemark_outbox_record ON tidemark_outbox (tbl, key, seq);
        CREATE TABLE IF NOT EXISTS tidemark_after (
            seq INTEGER NOT NULL,
            id TEXT NOT NULL,
            PRIMARY KEY (seq, id)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_kept (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            epoch TEXT NOT NULL,
            revision INTEGER NOT NULL,
            time INTEGER NOT NULL,
            bytes INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_kept_record (
            number INTEGER NOT NULL,
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            operation TEXT NOT NULL,
            before TEXT,
            attributes TEXT,
            PRIMARY KEY (number, tbl, key)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_base (
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            image TEXT,
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_idmap (
            tbl TEXT NOT NULL,
            temporary INTEGER NOT NULL,
            permanent INTEGER NOT NULL,
            PRIMARY KEY (tbl, temporary)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS tidemark_idmap_offered ON tidemark_idmap (tbl, permanent)
            WHERE permanent NOT BETWEEN 0 AND \(TemporaryID.permanentMax);
        CREATE TABLE IF NOT EXISTS tidemark_temporary (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            next INTEGER NOT NULL
        );
        INSERT OR IGNORE INTO tidemark_temporary VALUES (1, -1);
        CREATE TABLE IF NOT EXISTS tidemark_independent (tbl TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_outside (id TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_conflict (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            parked TEXT NOT NULL,
            reasons TEXT NOT NULL,
            kind TEXT NOT NULL DEFAULT 'refused',
            after TEXT NOT NULL DEFAULT '[]',
            merges INTEGER NOT NULL DEFAULT 0,
            asks INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS tidemark_conflict_record (
            id TEXT NOT NULL,
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            operation TEXT NOT NULL,
            base TEXT,
            mine TEXT,
            theirs TEXT,
            PRIMARY KEY (id, tbl, key)
        ) WITHOUT ROWID;
        """

    /// Makes plain inserts draw their ids from the reserved region, which the server never assigns.
    static func reserveIds(_ schema: SyncSchema, in db: Database) throws {
        for table in schema.tables where table.isAutoincrement {
            let floor = TemporaryID.reservedMin - 1
            try db.execute(
                sql: "UPDATE sqlite_sequence SET seq = ?2 WHERE name = ?1 AND seq < ?2",
                arguments: [table.name, floor]
            )
            try db.execute(
                sql: """
                    INSERT INTO sqlite_sequence (name, seq)
                    SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)
                    """,
                arguments: [table.name, floor]
            )
        }
    }
}
