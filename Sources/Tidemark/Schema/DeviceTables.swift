import GRDB
import TidemarkCore
import TidemarkSQL

/// The bookkeeping of a device's file, beside the app's own tables.
///
/// | table | a row is |
/// | --- | --- |
/// | `tidemark_device` | the device's identity, server, zone, user, name, clock and fingerprint of confirmed rows |
/// | `tidemark_lock` | the process that syncs the file now, and the end of its lease |
/// | `tidemark_changeset` | a pending change set; `wire` is its frozen text, `epoch` the history of its bases |
/// | `tidemark_wire_rest` | an overflow piece of a long change set's text |
/// | `tidemark_outbox` | a pending change set's effect on one record |
/// | `tidemark_after` | a change set's dependency on another one |
/// | `tidemark_base` | a record with pending changes, as the server confirmed it; NULL: it did not exist |
/// | `tidemark_kept` | an acknowledged change set, kept in case the server loses it; `first`: its id before that |
/// | `tidemark_kept_record` | a kept change set's effect on one record, and the record before |
/// | `tidemark_idmap` | the permanent id of a temporary one |
/// | `tidemark_lent` | a table's ids that the server has lent this device |
/// | `tidemark_named` | a former temporary id that a statement named since the last drain, or that SQLite drew again |
/// | `tidemark_unknown` | a value of a column or table that only the zone has |
/// | `tidemark_former_T` | a row of the table T from before the zone dropped T |
/// | `tidemark_replaced` | a row of a rebuilt table that an answer replaced; `base`: the server's values before that |
/// | `tidemark_independent` | a table in which edits by other programs are independent; `*`: all tables |
/// | `tidemark_outside` | a pending or parked change set that another program wrote |
/// | `tidemark_left_out` | an object of the zone's file that this file lacks, and why; NULL: it waits for a snapshot |
/// | `tidemark_conflict` | a refused change set, or overruled values, until the app or the user resolves it |
/// | `tidemark_conflict_record` | one of its records: base, mine and theirs, as of the parking |
///
/// Nothing drops the outbox: a row leaves only with the server's verdict.
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
            checked INTEGER,
            user TEXT,
            name TEXT
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
        CREATE TABLE IF NOT EXISTS tidemark_replaced (
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            since INTEGER NOT NULL,
            mine TEXT,
            base TEXT,
            asked INTEGER NOT NULL DEFAULT 0,
            contended INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_changeset (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            epoch TEXT,
            wire TEXT,
            time INTEGER NOT NULL DEFAULT 0,
            merges INTEGER NOT NULL DEFAULT 0,
            first TEXT,
            difference TEXT
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
            bytes INTEGER NOT NULL,
            first TEXT
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
        CREATE TABLE IF NOT EXISTS tidemark_lent (
            tbl TEXT PRIMARY KEY,
            ids TEXT,
            used INTEGER NOT NULL DEFAULT -1,
            former TEXT NOT NULL DEFAULT '[]'
        ) WITHOUT ROWID;
        \(CaptureTables.namedSQL)
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
        \(DeviceObjects.tableSQL)
        """
}
