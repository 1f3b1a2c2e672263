package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Stand-ins for what only the program has: functions and collations.
package enum ProgramFunctions {
    /// Lets a connection compile triggers that call functions of the program's own.
    ///
    /// A connection that has such a function keeps it. Elsewhere a call fails; a guarded trigger makes none.
    package static func addStandIns(_ objects: FileObjects, to db: Database) {
        for name in objects.functions { sqlite3_overload_function(db.sqliteConnection, name, -1) }
        addCollations(objects.collations, to: db)
    }

    /// Adds the stand-ins that a zone's or a device's file names; none in another file.
    ///
    /// - Returns: The collations.
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
