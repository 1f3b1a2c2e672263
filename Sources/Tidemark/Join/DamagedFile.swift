import GRDB
import TidemarkCore
import TidemarkSQL

/// Attaches a copy of a damaged file and makes as much of it readable as possible.
///
/// One damaged entry of the schema makes SQLite refuse every statement on a file. With
/// `writable_schema` on, SQLite skips entries that it cannot read. Triggers are not needed to read
/// rows, and a bookkeeping table gets its statement from the new file.
struct DamagedFile {
    let db: Database
    /// The path of the copy, which this type writes to.
    let path: String

    /// Makes a connection skip damaged schema entries of files that it opens later.
    static func tolerate(_ isTolerant: Bool = true, in db: Database) throws {
        try db.execute(sql: "PRAGMA writable_schema = \(isTolerant ? "ON" : "OFF")")
    }

    /// Runs work with the copy attached as `damaged`; the caller must not be in a transaction.
    func withAttachedCopy<Result>(_ work: () throws -> Result) throws -> Result {
        try Self.tolerate(in: db)
        let outcome = Swift.Result {
            try attach()
            defer { detach() }
            guard try mendTables() else { return try work() }
            // SQLite reads the schema when it attaches a file.
            detach()
            try attach()
            return try work()
        }
        try Self.tolerate(false, in: db)
        return try outcome.get()
    }

    /// Copies tables to temporary `rescued_…` ones, in no transaction: SQLite cannot commit one that met damage.
    func copyOptional(_ tables: [String]) throws -> Set<String> {
        var readable: Set<String> = []
        for table in tables {
            let copy = "temp.\(SQLText.name("rescued_" + table))"
            try db.execute(sql: "DROP TABLE IF EXISTS \(copy)")
            do {
                try db.execute(sql: "CREATE TABLE \(copy) AS SELECT * FROM damaged.\(SQLText.name(table)) NOT INDEXED")
                readable.insert(table)
            } catch let error as DatabaseError where [.SQLITE_CORRUPT, .SQLITE_ERROR].contains(error.resultCode) {
                // The caller reports the loss.
                continue
            }
        }
        return readable
    }

    private func attach() throws { try db.execute(sql: "ATTACH ? AS damaged", arguments: [path]) }

    private func detach() {
        do { try db.execute(sql: "DETACH damaged") } catch {
            // The caller closes the connection soon.
            return
        }
    }

    /// Repairs bookkeeping tables' statements of the same length from the new file; returns whether it repaired any.
    private func mendTables() throws -> Bool {
        let source = """
            FROM main.sqlite_schema AS own_entry
            WHERE own_entry.name = damaged_entry.name AND own_entry.type = 'table'
                AND own_entry.name GLOB 'tidemark_*'
                AND length(own_entry.sql) = length(damaged_entry.sql)
                AND own_entry.sql <> damaged_entry.sql
            """
        do {
            try db.execute(
                sql: """
                    UPDATE damaged.sqlite_schema AS damaged_entry
                    SET sql = (SELECT own_entry.sql \(source))
                    WHERE damaged_entry.type = 'table' AND EXISTS (SELECT 1 \(source))
                    """)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            // The schema's own page is damaged; continue with the readable entries.
            return false
        }
        return db.changesCount > 0
    }
}
