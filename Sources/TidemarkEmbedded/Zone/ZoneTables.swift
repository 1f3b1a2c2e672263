import GRDB
import TidemarkEngine
import TidemarkCore
import TidemarkSQL

/// The bookkeeping of a zone's file, beside the app's own tables.
///
/// | table | one row |
/// | --- | --- |
/// | `tidemark_zone` | the zone: epoch, latest revision, horizon |
/// | `tidemark_lineage` | an earlier history of the zone, and its last revision |
/// | `tidemark_revision` | a committed change set, as JSON ready to send, and the hash of the history up to it |
/// | `tidemark_revision_rest` | a piece of a long change set, after the first piece in its revision's row |
/// | `tidemark_fingerprint` | the fingerprint of the rows at a revision, for one column layout |
/// | `tidemark_log` | a record's change in a revision, with the values that it replaced |
/// | `tidemark_verdict` | the verdict, new ids or the author's copy, and whether the commit equals the sent text |
/// | `tidemark_lap` | the last request of a device, which tells a copy of its file from the file, and its user |
/// | `tidemark_refused` | a refused change set as its author sent it, and when the server refused it; the latest 10,000 |
/// | `tidemark_contact` | a device's first and last contact, its revision then, and its name and user |
/// | `tidemark_idmap` | the permanent id that a device's temporary id became |
/// | `tidemark_identity` | the next id of an integer-keyed table; ids are never reused |
/// | `tidemark_lent` | how often ids were lent to a device |
/// | `tidemark_served_column` | a synced column with its fill; or a former name with the name `now`, empty if dropped |
/// | `tidemark_policy` | the conflict policy of a table, or of a `table.column`, if it is not the default |
/// | `tidemark_device_trigger` | a trigger that runs at devices instead of at the server, with its own statement |
/// | `tidemark_collation` | a built-in collation that stands for one of the program's own |
/// | `tidemark_overruled` | values of a device that another change set overruled, until the device has them |
///
/// The time and device of a column's value are those of the latest revision in the log that set the
/// column; the store keeps no metadata per column.
enum ZoneTables {
    /// Creates missing tables.
    static func make(in db: Database) throws { try db.execute(sql: sql) }

    /// Whether a file is a zone's; throws `unusableFile` for one that has the tables of an earlier version.
    @discardableResult static func areMade(in db: Database) throws -> Bool {
        guard try db.tableExists("tidemark_zone") else { return false }
        guard try db.columns(in: "tidemark_log").contains(where: { $0.name == "absorbed" }) else {
            throw TidemarkError(
                .unusableFile,
                "The file is a zone of an earlier version of Tidemark, whose tables this one cannot read.",
                fix: "Serve it with that version, or serve a copy of the app's own tables, which devices join anew.")
        }
        return true
    }

    private static let sql = """
        CREATE TABLE IF NOT EXISTS tidemark_zone (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            name TEXT NOT NULL,
            epoch TEXT NOT NULL,
            revision INTEGER NOT NULL,
            horizon INTEGER NOT NULL,
            adopted INTEGER NOT NULL,
            time INTEGER NOT NULL DEFAULT 0,
            notes INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS tidemark_lineage (
            epoch TEXT PRIMARY KEY,
            ended INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_revision (
            revision INTEGER PRIMARY KEY,
            id TEXT,
            device TEXT,
            time INTEGER NOT NULL,
            body TEXT NOT NULL,
            chain TEXT NOT NULL DEFAULT '',
            user_id TEXT,
            committed INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS tidemark_revision_rest (
            revision INTEGER NOT NULL,
            number INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (revision, number)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_fingerprint (
            revision INTEGER PRIMARY KEY,
            fingerprint TEXT NOT NULL,
            shape TEXT NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_log (
            tbl TEXT NOT NULL,
            key TEXT NOT NULL,
            revision INTEGER NOT NULL,
            operation TEXT NOT NULL,
            columns TEXT,
            merged INTEGER NOT NULL DEFAULT 0,
            replaced TEXT,
            absorbed INTEGER,
            PRIMARY KEY (tbl, key, revision)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS tidemark_log_revision ON tidemark_log (revision);
        CREATE TABLE IF NOT EXISTS tidemark_verdict (
            id TEXT PRIMARY KEY,
            device TEXT,
            hash TEXT NOT NULL,
            revision INTEGER,
            after TEXT NOT NULL,
            body TEXT,
            ids TEXT,
            as_sent INTEGER NOT NULL DEFAULT 0
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS tidemark_verdict_revision ON tidemark_verdict (revision);
        CREATE TABLE IF NOT EXISTS tidemark_lap (
            device TEXT PRIMARY KEY,
            lap TEXT NOT NULL,
            revision INTEGER NOT NULL,
            user_id TEXT
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_contact (
            device TEXT PRIMARY KEY,
            name TEXT,
            user_id TEXT,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            revision INTEGER
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_refused (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL,
            decided INTEGER NOT NULL,
            base INTEGER NOT NULL,
            sent TEXT
        );
        CREATE TABLE IF NOT EXISTS tidemark_idmap (
            device TEXT NOT NULL,
            tbl TEXT NOT NULL,
            temporary INTEGER NOT NULL,
            permanent INTEGER NOT NULL,
            PRIMARY KEY (device, tbl, temporary)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_identity (
            tbl TEXT PRIMARY KEY,
            next INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_lent (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            number INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_overruled (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            device TEXT NOT NULL,
            revision INTEGER NOT NULL,
            records TEXT NOT NULL
        );
        CREATE INDEX IF NOT EXISTS tidemark_overruled_device ON tidemark_overruled (device, number);
        CREATE TABLE IF NOT EXISTS tidemark_served_column (
            tbl TEXT NOT NULL,
            col TEXT NOT NULL,
            fill TEXT,
            now TEXT,
            PRIMARY KEY (tbl, col)
        ) WITHOUT ROWID;
        \(ZonePolicies.tableSQL)
        \(ServedObjects.tableSQL)
        """
}
