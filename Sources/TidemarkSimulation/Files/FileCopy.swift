import GRDB
import GRDBSQLite

/// A file to copy from: its pages for a new file, its rows for a file of an earlier world.
///
/// A file that keeps its tables keeps its connection with all prepared statements, and so saves
/// most of a world's time.
struct FileCopy {
    private let original: DatabaseQueue
    /// Statements that give the same tables the same rows.
    private let script: String
    private let tables: [String]

    /// Prepares the copies of a file.
    init(_ original: DatabaseQueue) throws {
        self.original = original
        (tables, script) = try original.writeWithoutTransaction { db in
            let tables = try Self.tables(db)
            return (tables, try Self.script(tables, db))
        }
    }

    /// Makes a file of a storage a copy, or fills it again.
    func fill(_ name: String, in storage: any SimulatedStorage, _ change: (Database) throws -> Void = { _ in }) throws {
        let file = try storage.open(name)
        let isThere = try file.writeWithoutTransaction { try Self.tables($0) == tables }
        if !isThere { try original.backup(to: file) }
        try file.writeWithoutTransaction { db in
            if isThere { try run(db) }
            try change(db)
        }
        try storage.giveBack(name, file)
    }

    /// The file's tables, and their kinds.
    private static func tables(_ db: Database) throws -> [String] {
        try String.fetchAll(
            db.cachedStatement(sql: "SELECT name || ' ' || coalesce(sql, '') FROM main.sqlite_master ORDER BY name"))
    }

    /// Bypasses GRDB's analysis of each statement, which is not needed here.
    private func run(_ db: Database) throws {
        let code = sqlite3_exec(db.sqliteConnection, script, nil, nil, nil)
        guard code == SQLITE_OK else {
            throw DatabaseError(
                resultCode: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(db.sqliteConnection)))
        }
    }

    private static func script(_ tables: [String], _ db: Database) throws -> String {
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_master WHERE type = 'table'
                    AND (name NOT LIKE 'sqlite~_%' ESCAPE '~' OR name = 'sqlite_sequence')
                    AND name <> 'tidemark_state' ORDER BY name = 'sqlite_sequence', name
                """)
        var lines = ["PRAGMA foreign_keys = OFF", "BEGIN IMMEDIATE", "UPDATE tidemark_state SET applying = 1"]
        for name in names { lines.append("DELETE FROM main.\(name)") }
        for name in names {
            // Its rows come and go with those of other tables.
            if name == "sqlite_sequence" { lines.append("DELETE FROM main.sqlite_sequence") }
            lines += try inserts(into: name, db)
        }
        let state = try inserts(into: "tidemark_state", db)
        lines += ["DELETE FROM main.tidemark_state"] + state
        return (lines + ["COMMIT", "PRAGMA foreign_keys = ON"]).joined(separator: ";\n")
    }

    private static func inserts(into table: String, _ db: Database) throws -> [String] {
        let columns = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table])
        let values = columns.map { "quote(\"\($0)\")" }.joined(separator: " || ', ' || ")
        return try String.fetchAll(db, sql: "SELECT \(values) FROM main.\(table)").map {
            "INSERT INTO main.\(table) VALUES (\($0))"
        }
    }
}
