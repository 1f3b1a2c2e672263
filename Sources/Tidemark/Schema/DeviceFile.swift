import Foundation
package import GRDB
package import TidemarkCore
import TidemarkSQL

/// The state of a device's file, read from its bookkeeping.
package struct DeviceFile: Sendable {
    package let device: String
    let server: String
    let zone: String
    /// The user whose file it is; nil while it is nobody's, or the server has no users.
    let user: String?
    /// The device's name for the server's operators; nil for none.
    let name: String?
    let epoch: String?
    let revision: Int64
    let contact: String?
    let laps: Laps
    /// The number of the last note of overruled values that the device received.
    let overruled: Int64
    /// The fingerprint of the confirmed rows.
    let fingerprint: Fingerprint?
    /// The hash of the columns and their order that the fingerprint covers.
    let fingerprintShape: String?
    /// When the fingerprint was last computed from all rows, in seconds since 1970.
    let checked: Int64?
    /// The tables that sync, as they are in this file now.
    package var schema: SyncSchema { tables.common }
    /// The file's tables, compared with the zone's.
    let tables: FileSchema
    /// The zone's schema, as the server sent it; nil before the first snapshot.
    let served: String?
    /// The local and the zone's schema that the bookkeeping was last adapted to.
    let fitted: (local: String?, served: String?)
    let renames: String?
    let lack: Lack
    /// Whether the file lacks confirmed values and needs a snapshot.
    var isStale: Bool { lack != .nothing }
    /// Whether a snapshot has to replace the rows; a comparison of rebuilt tables also brings dropped columns.
    var needsSnapshot: Bool { lack == .rows || lack == .columns && rebuilt == nil }
    /// The names of rebuilt tables to compare with the zone's, as JSON; nil if there are none.
    let rebuilt: String?

    /// The confirmed values that a file lacks, as the number `stale` of its bookkeeping.
    ///
    /// | from | to | when |
    /// | --- | --- | --- |
    /// | nothing | columns | the app drops columns or tables of the zone |
    /// | columns | rows | the app adds shared columns or tables, which then hold no value of the zone |
    /// | columns | nothing | a comparison of rebuilt tables has brought the values of the dropped columns |
    /// | any | rows | a row of the file stands where a row of the zone belongs |
    /// | any | nothing | a snapshot has replaced the rows |
    enum Lack: Int64 {
        case nothing = 0
        /// Rows: the device takes the zone's, and parks what differs in rebuilt tables.
        case rows = 1
        /// The values of columns and tables that the app has dropped; all rows are there.
        case columns = 2
    }

    /// Throws if the file has not joined a server, or its bookkeeping is unreadable.
    package init(_ db: Database) throws {
        guard try db.tableExists("tidemark_device"),
            let row = try Row.fetchOne(db, cached: "SELECT * FROM tidemark_device")
        else { throw try Self.noDevice(db) }
        device = try row.value("device")
        server = try row.value("server")
        zone = try row.value("zone")
        // A file of an older version, opened for reading, has no such columns yet.
        user = row.hasColumn("user") ? try row.value("user") : nil
        name = row.hasColumn("name") ? try row.value("name") : nil
        epoch = try row.value("epoch")
        contact = try row.value("contact")
        laps = try Laps(last: row.value("lap"), open: row.value("open_laps"))
        overruled = try row.value("overruled")
        fingerprint = try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:))
        fingerprintShape = try row.value("fingerprint_shape")
        checked = try row.value("checked")
        let revision = try Int64.fetchOne(db, cached: "SELECT revision FROM tidemark_state")
        // Without that row the triggers capture nothing, and no revision can be stored.
        let range = 0...TemporaryID.reservedMax
        guard let revision, [revision, overruled].allSatisfy(range.contains),
            checked?.magnitude ?? 0 <= range.upperBound
        else { throw TidemarkError.unreadable("The bookkeeping of this device") }
        self.revision = revision
        served = try row.value("schema")
        renames = try row.value("renames")
        lack = try Lack(rawValue: row.value("stale")) ?? .rows
        rebuilt = try row.value("rebuilt")
        fitted = try (row.value("fitted_local"), row.value("fitted_schema"))
        do { tables = try FileSchema(served: served, renames: renames, in: db) } catch let error as TidemarkError
            where error.code == .invalidResponse
        {
            // The schema was valid when the device stored it, so the file is damaged.
            throw TidemarkError.unreadable("The zone's schema, as this file has kept it,")
        }
    }

    private static func noDevice(_ db: Database) throws -> TidemarkError {
        guard try !db.tableExists("tidemark_zone") else {
            return TidemarkError(
                .unusableFile, "This is a server's file, no device's.",
                fix: "Serve it with `tidemark serve FILE`, and join it under another name.")
        }
        return TidemarkError(
            .unusableFile, "This file has not joined a server: it is an ordinary SQLite file.",
            fix: """
                To share its rows, `tidemark serve FILE`; for a server's rows, `tidemark device \
                join URL OTHER`, with the name of a file that does not exist yet.
                """)
    }

    /// Writes the device's identity into a file, once.
    static func enrol(device: UUID, server: String, zone: String, user: String? = nil, in db: Database) throws {
        try db.execute(sql: DeviceTables.sql + CaptureTables.commonSQL)
        try db.execute(
            cached: "INSERT INTO tidemark_device (id, device, server, zone, user) VALUES (1, ?, ?, ?, ?)",
            arguments: [device.uuidString.lowercased(), server, zone, user])
    }

    /// Makes the file a user's own, for ever; throws `accountMismatch` if it is another user's, and changes nothing.
    static func bind(to user: String, in db: Database) throws {
        try db.execute(sql: "UPDATE tidemark_device SET user = ?1 WHERE coalesce(user, ?1) = ?1", arguments: [user])
        guard db.changesCount == 0 else { return }
        throw TidemarkError(
            .accountMismatch, "This file belongs to another user than \(user).",
            fix: "Sign in as its user, or use a file of your own.")
    }

    /// Runs `body` with capture switched off, because it writes the server's rows, not edits; it may be nested.
    static func whileApplying<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        if !planted(PlantedBug.capturesWhatItApplies) {
            try db.execute(cached: "UPDATE tidemark_state SET applying = 1 WHERE applying <> 1")
            guard db.changesCount > 0 else { return try body() }
        }
        let result = try body()
        try CaptureTables.forgetNotes(in: db)
        try db.execute(cached: "UPDATE tidemark_state SET applying = 0")
        return result
    }

    /// Stores the time of the last answer, once a minute at most: a sync without news writes and flushes nothing.
    static func storeContact(_ now: Date, in db: Database) throws {
        try db.execute(
            cached: "UPDATE tidemark_device SET contact = ?1 WHERE contact IS NULL OR contact NOT BETWEEN ?2 AND ?1",
            arguments: [Timestamp.text(now), Timestamp.text(now.addingTimeInterval(-60))])
    }
}
