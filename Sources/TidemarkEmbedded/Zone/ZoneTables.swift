import GRDB
import TidemarkEngine
import TidemarkCore
import TidemarkSQL

/// The bookkeeping of a zone's file, beside the app's own tables: ``TidemarkEngine/BookTables``, and tables of its own.
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
        \(BookTables.sqlite)
        CREATE TABLE IF NOT EXISTS tidemark_revision_rest (
            revision INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (revision, number)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS tidemark_lent (
            id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS tidemark_served_column (
            tbl TEXT NOT NULL, col TEXT NOT NULL, fill TEXT, now TEXT, PRIMARY KEY (tbl, col)
        ) WITHOUT ROWID;
        \(ZonePolicies.tableSQL)
        \(ServedObjects.tableSQL)
        \(MigrationTables.tableSQL)
        """
}
