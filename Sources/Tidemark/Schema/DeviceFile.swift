import Foundation
package import GRDB
package import TidemarkCore
import TidemarkSQLite

/// What the bookkeeping of a device's file says about it.
package struct DeviceFile: Sendable {
    let device: String
    let server: String
    let zone: String
    let epoch: String?
    let revision: Int64
    let contact: String?
    /// The number of the last note of overruled values that was taken in.
    let overruled: Int64
    /// The tables that sync, as they are in this file now.
    package let schema: SyncSchema

    /// Reads a device's file.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file has not joined a server.
    package init(_ db: Database) throws {
        guard try db.tableExists("tidemark_device"),
            let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM tidemark_device"))
        else {
            throw TidemarkError(
                .unusableFile,
                "This file has not joined a server.",
                fix: "Join one with `tidemark device join URL FILE`."
            )
        }
        (device, server, zone) = (row["device"], row["server"], row["zone"])
        (epoch, contact, overruled) = (row["epoch"], row["contact"], row["overruled"])
        revision =
            try Int64.fetchOne(db.cachedStatement(sql: "SELECT revision FROM tidemark_state")) ?? 0
        schema = try Self.schema(row["schema"], in: db)
    }

    /// The file's own tables, limited to those that the server syncs once that is known.
    static func schema(_ served: String?, in db: Database) throws -> SyncSchema {
        let local = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT group_concat(sql, char(10)) FROM main.sqlite_master
                    WHERE type IN ('table', 'index') AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                    """
            )
        )
        return try SchemaMemo.schema(for: [served, local]) {
            guard let served else { return try SchemaIntrospection(db).validated() }
            let zone = try SchemaText.decode(served)
            let own = Set(try SchemaIntrospection(db).tables.map(\.name))
            let unsynced = own.subtracting(zone.byName.keys)
            return try SchemaIntrospection(db, excluding: unsynced).validated(
                policies: zone.policies
            )
        }
    }

    /// Writes the device's identity into a file, once.
    static func enrol(device: UUID, server: String, zone: String, in db: Database) throws {
        try db.execute(sql: DeviceTables.sql)
        try db.cachedStatement(
            sql: "INSERT INTO tidemark_device (id, device, server, zone) VALUES (1, ?, ?, ?)"
        ).execute(arguments: [device.uuidString.lowercased(), server, zone])
    }

    /// Runs `body` with capture switched off: what it writes is the server's truth, not an edit.
    static func whileApplying<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result
    {
        if !planted(PlantedBug.capturesWhatItApplies) {
            try db.cachedStatement(sql: "UPDATE tidemark_state SET applying = 1").execute()
        }
        let result = try body()
        try db.cachedStatement(sql: "UPDATE tidemark_state SET applying = 0").execute()
        return result
    }
}
