import Foundation
package import GRDB
package import TidemarkCore
import TidemarkSQLite

/// What the bookkeeping of a device's file says about it.
package struct DeviceFile: Sendable {
    package let device: String
    let server: String
    let zone: String
    let epoch: String?
    let revision: Int64
    let contact: String?
    /// The number of the last note of overruled values that was taken in.
    let overruled: Int64
    /// The fingerprint of the confirmed rows, and the hash of the tables' shape at that time.
    let fingerprint: Fingerprint?
    let fingerprintShape: String?
    /// When the fingerprint was last computed from all rows, in seconds since 1970.
    let checked: Int64?
    /// The tables that sync, as they are in this file now.
    package var schema: SyncSchema { tables.common }
    /// The tables, held against the zone's.
    let tables: FileSchema
    /// The zone's schema as it was sent; nil before the first snapshot.
    let served: String?
    /// What the bookkeeping was fitted to last: this file's tables, and the zone's.
    let fitted: (local: String?, served: String?)
    /// The renames that the app declares.
    let renames: String?
    /// Whether the rows have to be taken from a snapshot: the file has forgotten some of them.
    let isStale: Bool
    /// The names of tables that have to be compared with the zone's, as JSON: they were rebuilt.
    let rebuilt: String?

    /// Reads a device's file.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file has not joined a server, or what it
    ///   has kept cannot be read.
    package init(_ db: Database) throws {
        guard try db.tableExists("tidemark_device"),
            let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM tidemark_device"))
        else { throw try Self.noDevice(db) }
        device = try row.value("device")
        server = try row.value("server")
        zone = try row.value("zone")
        epoch = try row.value("epoch")
        contact = try row.value("contact")
        overruled = try row.value("overruled")
        fingerprint = try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:))
        fingerprintShape = try row.value("fingerprint_shape")
        checked = try row.value("checked")
        let revision = try Int64.fetchOne(db.cachedStatement(sql: "SELECT revision FROM tidemark_state"))
        // Without that row the triggers capture nothing, and no revision could be kept.
        let range = 0...TemporaryID.reservedMax
        guard let revision, [revision, overruled].allSatisfy(range.contains),
            checked?.magnitude ?? 0 <= range.upperBound
        else { throw TidemarkError.unreadable("The bookkeeping of this device") }
        self.revision = revision
        served = try row.value("schema")
        renames = try row.value("renames")
        isStale = try row.value("stale")
        rebuilt = try row.value("rebuilt")
        fitted = try (row.value("fitted_local"), row.value("fitted_schema"))
        do { tables = try FileSchema(served: served, renames: renames, in: db) } catch let error as TidemarkError
            where error.code == .invalidResponse
        {
            // It was read once before it was kept.
            throw TidemarkError.unreadable("The zone's schema, as this file has kept it,")
        }
    }

    private static func noDevice(_ db: Database) throws -> TidemarkError {
        guard try !db.tableExists("tidemark_zone") else {
            return TidemarkError(
                .unusableFile,
                "This is a server's file, no device's.",
                fix: "Serve it with `tidemark serve FILE`, and join it under another name."
            )
        }
        return TidemarkError(
            .unusableFile,
            "This file has not joined a server: it is an ordinary SQLite file.",
            fix: """
                To share its rows, `tidemark serve FILE`; for a server's rows, `tidemark device \
                join URL OTHER`, with the name of a file that does not exist yet.
                """
        )
    }

    /// Writes the device's identity into a file, once.
    static func enrol(device: UUID, server: String, zone: String, in db: Database) throws {
        try db.execute(sql: DeviceTables.sql + CaptureTables.commonSQL)
        try db.cachedStatement(sql: "INSERT INTO tidemark_device (id, device, server, zone) VALUES (1, ?, ?, ?)")
            .execute(arguments: [device.uuidString.lowercased(), server, zone])
    }

    /// Runs `body` with capture switched off: what it writes is the server's truth, not an edit.
    static func whileApplying<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        if !planted(PlantedBug.capturesWhatItApplies) {
            try db.cachedStatement(sql: "UPDATE tidemark_state SET applying = 1").execute()
        }
        let result = try body()
        try CaptureTables.forgetNotes(in: db)
        try db.cachedStatement(sql: "UPDATE tidemark_state SET applying = 0").execute()
        return result
    }

    /// Notes that the server has answered, to the minute: a sync that finds nothing new writes
    /// nothing, so the disk has nothing to flush.
    static func noteContact(_ now: Date, in db: Database) throws {
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_device SET contact = ?1
                WHERE contact IS NULL OR contact NOT BETWEEN ?2 AND ?1
                """
        ).execute(arguments: [Timestamp.text(now), Timestamp.text(now.addingTimeInterval(-60))])
    }
}
