package import Foundation
package import GRDB
package import TidemarkCore
import TidemarkSQL

/// Prepares an app's database for syncing, or updates its triggers after a migration of the app.
package struct PrepareDevice {
    let db: Database

    package init(db: Database) { self.db = db }

    /// Prepares the file, inside the caller's transaction with `foreign_keys` off.
    ///
    /// `renames` are the columns that the app's migrations renamed. `independent` are the declared independent tables;
    /// nil keeps the last declaration. `user` is the user whose file it is. `name` is the device's name; nil keeps the
    /// last one. `newID` makes ids for change sets that were captured before the last migration.
    package func prepare(
        server: String, zone: String, user: String? = nil, name: String? = nil, renames: [ColumnRename] = [],
        independent: IndependentTables? = nil, now: Date, newID: @escaping () -> UUID
    ) throws {
        guard try !db.tableExists("tidemark_zone") else {
            throw TidemarkError(
                .unusableFile, "This file is a server's zone; it cannot be a device as well.",
                fix: "Join with a file of its own: `tidemark device join URL FILE`.")
        }
        if try db.tableExists("tidemark_device") {
            try db.execute(sql: DeviceTables.sql)
            try Self.addColumns(in: db)
            if let user { try DeviceFile.bind(to: user, in: db) }
            try db.execute(
                // The private zone of a file with rows stays that of its user.
                sql: "UPDATE tidemark_device SET server = ?1, zone = iif(?2 = ?3 AND epoch IS NOT NULL, zone, ?2)",
                arguments: [server, zone, ZoneKind.privateAlias])
            try Self.giveIdentity(newID, in: db)
        } else {
            try Self.refuseRows(try SchemaIntrospection(db).makeSchema().tables, in: db)
            try DeviceFile.enrol(device: newID(), server: server, zone: zone, user: user, in: db)
        }
        if let name { try db.execute(sql: "UPDATE tidemark_device SET name = ?", arguments: [name]) }
        if !renames.isEmpty {
            try db.execute(sql: "UPDATE tidemark_device SET renames = ?", arguments: [try Renames.encode(renames)])
        }
        try independent?.declare(in: db)
        let fit = FitSchema(db: db, moment: Moment(now: now, newID: newID))
        try fit.run(served: try DeviceFile(db).served)
    }

    /// Removes the file's identity, so that each copy of it becomes its own device.
    static func forgetIdentity(in db: Database) throws {
        try db.execute(sql: "UPDATE tidemark_device SET device = '', contact = NULL, user = NULL, name = NULL")
    }

    /// Adds the columns that a file of an older version lacks.
    private static func addColumns(in db: Database) throws {
        let added = ["device": ["user", "name"], "changeset": ["first", "difference"], "kept": ["first"]]
        for (table, columns) in added.sorted(by: { $0.key < $1.key }) {
            for column in columns
            where try !db.columns(in: "tidemark_\(table)").contains(where: { $0.name == column }) {
                try db.execute(sql: "ALTER TABLE tidemark_\(table) ADD COLUMN \(column) TEXT")
            }
        }
    }

    private static func giveIdentity(_ newID: () -> UUID, in db: Database) throws {
        guard try DeviceFile(db).device.isEmpty else { return }
        try db.execute(sql: "UPDATE tidemark_device SET device = ?", arguments: [newID().uuidString.lowercased()])
        try DrawnIDs.startAnew(newID: newID, in: db)
    }

    /// Refuses rows from before the first sync, because their ids may mean other records on the server.
    static func refuseRows(_ tables: [SyncedTable], in db: Database) throws {
        for table in tables {
            let hasRows = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name)))")
            guard hasRows == true else { continue }
            throw TidemarkError(
                .unusableFile, "The table already has rows, from before this file was ever synced.",
                fix: "Serve this file instead (`tidemark serve FILE`), or make the engine before the first rows.",
                place: .init(table: table.name))
        }
    }
}
