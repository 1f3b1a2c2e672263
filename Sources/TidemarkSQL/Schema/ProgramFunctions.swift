import Foundation
package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Stand-ins for what only the program has: functions and collations.
package enum ProgramFunctions {
    /// Functions of SQLite, its shell and its extensions that act on more than their arguments.
    ///
    /// No statement of a server may call them on a device, even if its program has them: they run commands, read and
    /// write files, load code, or run the text of a value as SQL.
    package static let dangerous: Set<String> = [
        "edit", "eval", "exec", "system", "shell", "load_extension", "fts3_tokenizer", "readfile", "writefile",
        "lsmode",
        "fileio_read", "fileio_write", "fileio_append", "fileio_mkdir", "blobfromfile", "blobtofile", "importshp",
        "exportshp", "importdbf", "exportdbf", "importgeojson", "exportgeojson", "sha1_query", "sha3_query", "define",
    ]

    /// The reason why an object that calls functions is left out of a device's file.
    static func reasonAgainst(_ functions: Set<String>) -> String {
        let acting = functions.intersection(dangerous).sorted()
        guard acting.isEmpty else { return "calls \(acting.joined(separator: ", ")), which acts on more than the file" }
        let names = functions.sorted()
        let options = names.map { "--function \($0)" }.joined(separator: " ")
        return "calls \(names.joined(separator: ", ")), which SQLite does not have; join with \(options) to have it"
    }

    /// Lets a connection compile triggers with functions that it lacks; a call fails, but a guarded trigger makes none.
    package static func addStandIns(_ objects: FileObjects, to db: Database) {
        for name in objects.functions where !has(name, db) { addStandIn(name, to: db) }
        addCollations(objects.collations, to: db)
    }

    /// Whether the program has registered a function on a connection, or SQLite has it.
    package static func isRegistered(_ name: String, on db: Database) -> Bool {
        finds("\(named(name)) AND NOT (builtin = 0 AND narg = -1 AND flags & \(SQLITE_SUBTYPE) <> 0)", db)
    }

    private static func has(_ name: String, _ db: Database) -> Bool { finds(named(name), db) }

    private static func named(_ name: String) -> String {
        "SELECT 1 FROM pragma_function_list WHERE name = \(SQLText.literal(name)) COLLATE NOCASE"
    }

    private static func finds(_ sql: String, _ db: Database) -> Bool {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        return sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil) == SQLITE_OK
            && sqlite3_step(statement) == SQLITE_ROW
    }

    /// Adds a function that fails; the flag tells it from those of programs.
    private static func addStandIn(_ name: String, to db: Database) {
        sqlite3_create_function_v2(
            db.sqliteConnection,
            name,
            -1,
            SQLITE_UTF8 | SQLITE_SUBTYPE,
            strdup(name),
            { context, _, _ in
                let name = sqlite3_user_data(context).map { String(cString: $0.assumingMemoryBound(to: CChar.self)) }
                sqlite3_result_error(context, "only the program has the function \(name ?? "")", -1)
            },
            nil,
            nil,
            { free($0) }
        )
    }

    /// Adds the stand-ins that a zone's or a device's file names, none in another file; returns the collations.
    @discardableResult package static func addStandIns(declaredIn db: Database) -> [String: String] {
        var objects = FileObjects()
        do {
            if try db.tableExists("tidemark_collation") {
                let rows = try Row.fetchAll(db, sql: "SELECT name, stand_in FROM tidemark_collation")
                objects.collations = try rows.reduce(into: [:]) { try $0[$1.value("name")] = $1.value("stand_in") }
            } else if try db.tableExists("tidemark_device") {
                objects = try SchemaText.objects(in: String.fetchOne(db, sql: "SELECT schema FROM tidemark_device"))
            }
        } catch {
            // The file is damaged or is no database; the work that follows reports it.
            return [:]
        }
        addStandIns(objects, to: db)
        return objects.collations
    }

    /// Adds the declared collations that a connection does not have.
    package static func addCollations(_ collations: [String: String], to db: Database) {
        for (name, standIn) in collations {
            guard let standIn = StandInCollation(rawValue: standIn), !hasCollation(name, db) else { continue }
            standIn.register(as: name, on: db.sqliteConnection)
        }
    }

    private static func hasCollation(_ name: String, _ db: Database) -> Bool {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        let sql = "SELECT 'a' COLLATE \(SQLText.name(name)) = 'b'"
        return sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil) == SQLITE_OK
    }
}
