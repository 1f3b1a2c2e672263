import GRDB
import TidemarkCore
import TidemarkSQL

/// The bookkeeping of a device's file, beside the app's own tables: Docs/BOOKKEEPING.md says what a row is.
///
/// Nothing drops the outbox: a row leaves only with the server's verdict.
enum DeviceTables {
    static let sql = """
        CREATE TABLE IF NOT EXISTS tidemark_device (
            id INTEGER PRIMARY KEY CHECK (id = 1), device TEXT NOT NULL, server TEXT NOT NULL, zone TEXT NOT NULL,
            epoch TEXT, schema TEXT, contact TEXT, time INTEGER NOT NULL DEFAULT 0,
            overruled INTEGER NOT NULL DEFAULT 0, lap TEXT, open_laps TEXT NOT NULL DEFAULT '[]', renames TEXT,
            fitted_local TEXT, fitted_schema TEXT, stale INTEGER NOT NULL DEFAULT 0, rebuilt TEXT, fingerprint TEXT,
            fingerprint_shape TEXT, checked INTEGER, user TEXT, name TEXT
        );
        CREATE TABLE IF NOT EXISTS tidemark_lock (
            id INTEGER PRIMARY KEY CHECK (id = 1), owner TEXT NOT NULL, process INTEGER NOT NULL,
            until INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_unknown (
            tbl TEXT NOT NULL, key TEXT NOT NULL, col TEXT NOT NULL, value, PRIMARY KEY (tbl, key, col)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_replaced (
            tbl TEXT NOT NULL, key TEXT NOT NULL, since INTEGER NOT NULL, mine TEXT, base TEXT,
            asked INTEGER NOT NULL DEFAULT 0, contended INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_changeset (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, epoch TEXT, wire TEXT,
            time INTEGER NOT NULL DEFAULT 0, merges INTEGER NOT NULL DEFAULT 0, first TEXT, difference TEXT
        );
        CREATE TABLE IF NOT EXISTS tidemark_wire_rest (
            seq INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (seq, number)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_outbox (
            seq INTEGER NOT NULL, tbl TEXT NOT NULL, key TEXT NOT NULL, operation TEXT NOT NULL, before TEXT,
            attributes TEXT, base INTEGER NOT NULL, PRIMARY KEY (seq, tbl, key)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS tidemark_outbox_record ON tidemark_outbox (tbl, key, seq);
        CREATE TABLE IF NOT EXISTS tidemark_after (
            seq INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (seq, id)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_kept (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, epoch TEXT NOT NULL,
            revision INTEGER NOT NULL, time INTEGER NOT NULL, bytes INTEGER NOT NULL, first TEXT
        );
        CREATE TABLE IF NOT EXISTS tidemark_kept_record (
            number INTEGER NOT NULL, tbl TEXT NOT NULL, key TEXT NOT NULL, operation TEXT NOT NULL, before TEXT,
            attributes TEXT, PRIMARY KEY (number, tbl, key)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_base (
            tbl TEXT NOT NULL, key TEXT NOT NULL, image TEXT, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_idmap (
            tbl TEXT NOT NULL, temporary INTEGER NOT NULL, permanent INTEGER NOT NULL, PRIMARY KEY (tbl, temporary)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS tidemark_idmap_offered ON tidemark_idmap (tbl, permanent)
            WHERE permanent NOT BETWEEN 0 AND \(TemporaryID.permanentMax);
        CREATE TABLE IF NOT EXISTS tidemark_temporary (
            id INTEGER PRIMARY KEY CHECK (id = 1), next INTEGER NOT NULL
        );
        INSERT OR IGNORE INTO tidemark_temporary VALUES (1, -1);
        CREATE TABLE IF NOT EXISTS tidemark_lent (
            tbl TEXT PRIMARY KEY, ids TEXT, used INTEGER NOT NULL DEFAULT -1, former TEXT NOT NULL DEFAULT '[]'
        ) WITHOUT ROWID;
        \(CaptureTables.namedSQL)
        CREATE TABLE IF NOT EXISTS tidemark_independent (tbl TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_outside (id TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_conflict (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, parked TEXT NOT NULL,
            reasons TEXT NOT NULL, kind TEXT NOT NULL DEFAULT 'refused', after TEXT NOT NULL DEFAULT '[]',
            merges INTEGER NOT NULL DEFAULT 0, asks INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS tidemark_conflict_record (
            id TEXT NOT NULL, tbl TEXT NOT NULL, key TEXT NOT NULL, operation TEXT NOT NULL, base TEXT, mine TEXT,
            theirs TEXT, PRIMARY KEY (id, tbl, key)
        ) WITHOUT ROWID;
        \(DeviceObjects.tableSQL)
        """
}
