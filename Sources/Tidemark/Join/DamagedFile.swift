import GRDB
import TidemarkCore
import TidemarkSQLite

/// The copy of a damaged file beside the new one, of which as much is readable as can be.
///
/// One damaged entry of the schema makes SQLite refuse every statement on a file. With
/// `writable_schema` on, it passes over what it cannot read: a trigger is not needed to read rows,
/// and a table of Tidemark's own gets the text that it has in the new file.
struct DamagedFile {
    let db: Database
    /// A copy: it is written to.
    let path: String

    /// Makes a connection pass over damaged entries of the schema of files that it opens later.
    static func tolerate(_ isTolerant: Bool = true, in db: Database) throws {
        try db.execute(sql: "PRAGMA writable_schema = \(isTolerant ? "ON" : "OFF")")
    }

    /// Runs work with the copy attached as `damaged`.
    ///
    /// The caller is outside a transaction.
    func attached<Result>(_ work: () throws -> Result) throws -> Result {
        try Self.tolerate(in: db)
        let outcome = Swift.Result {
            try attach()
            defer { detach() }
            guard try mendTables() else { return try work() }
            // The schema is read when a file is attached.
            detach()
            try attach()
            return try work()
        }
        try Self.tolerate(false, in: db)
        return try outcome.get()
    }

    /// Copies tables that can be done without into temporary ones, `rescued_` before their names.
    ///
    /// Outside a transaction: SQLite commits none in which it has met a damaged page.
    ///
    /// - Returns: The tables that can be read.
    func setAside(_ tables: [String]) throws -> Set<String> {
        var readable: Set<String> = []
        for table in tables {
            let copy = "temp.\(SQLText.name("rescued_" + table))"
            try db.execute(sql: "DROP TABLE IF EXISTS \(copy)")
            do {
                try db.execute(
                    sql: """
                        CREATE TABLE \(copy) AS
                        SELECT * FROM damaged.\(SQLText.name(table)) NOT INDEXED
                        """
                )
                readable.insert(table)
            } catch let error as DatabaseError where [.SQLITE_CORRUPT, .SQLITE_ERROR].contains(error.resultCode) {
                // The caller says that it is lost, where that matters.
                continue
            }
        }
        return readable
    }

    private func attach() throws { try db.execute(sql: "ATTACH ? AS damaged", arguments: [path]) }

    private func detach() {
        do { try db.execute(sql: "DETACH damaged") } catch {
            // The connection is closed when the new file is made, or given up.
            return
        }
    }

    /// Gives tables of the bookkeeping, whose text cannot be read any more, the text that they have
    /// in the new file, where that is as long; returns whether there were any.
    private func mendTables() throws -> Bool {
        let same = """
            FROM main.sqlite_schema AS m WHERE m.name = d.name AND m.type = 'table'
                AND m.name GLOB 'tidemark_*' AND length(m.sql) = length(d.sql) AND m.sql <> d.sql
            """
        do {
            try db.execute(
                sql: """
                    UPDATE damaged.sqlite_schema AS d SET sql = (SELECT m.sql \(same))
                    WHERE d.type = 'table' AND EXISTS (SELECT 1 \(same))
                    """
            )
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            // The schema's own page is damaged: what was read of it has to do.
            return false
        }
        return db.changesCount > 0
    }
}
