import GRDB
import TidemarkSQL

/// A device's sync status, for a status bar or `tidemark device status`.
public struct DeviceStatus: Hashable, Sendable, Codable {
    /// The server's URL.
    public let server: String
    /// The zone.
    public let zone: String
    /// The user whose file it is; nil while it is nobody's, or the server has no users.
    public let user: String?
    /// The device's id.
    public let device: String
    /// The zone's history; nil before the first snapshot.
    public let epoch: String?
    /// The revision that the file is at.
    public let revision: Int64
    /// Change sets in the outbox; all captured changes not yet drained count as one.
    public let pendingChangeSets: Int
    /// Records with changes that the server has not acknowledged.
    public let pendingRecords: Int
    /// Refused change sets that wait for the user or the app to resolve them.
    public let conflicts: Int
    /// Entries with values that lost by their column's policy, until the user or the app restores or dismisses them.
    public let overruled: Int
    /// Records of conflicts that the device found changed although no trigger had captured it.
    ///
    /// A program seems to edit the file with triggers switched off.
    public let uncapturedRecords: Int
    /// When the server last answered, ISO 8601, noted at most once a minute; nil: never.
    public let lastContact: String?
    /// The reason why the engine sends nothing now; nil if there is none, and without an engine.
    public internal(set) var obstacle: SyncObstacle?

    init(_ db: Database) throws {
        let file = try DeviceFile(db)
        server = file.server
        zone = file.zone
        user = file.user
        device = file.device
        epoch = file.epoch
        revision = file.revision
        lastContact = file.contact
        let captured = try Int.fetchOne(db, sql: "SELECT count(*) FROM tidemark_capture") ?? 0
        let queued = try Int.fetchOne(db, sql: "SELECT count(*) FROM tidemark_changeset") ?? 0
        pendingChangeSets = queued + (captured > 0 ? 1 : 0)
        pendingRecords = try (Int.fetchOne(db, sql: "SELECT count(*) FROM tidemark_base") ?? 0) + captured
        let kinds = try Row.fetchOne(
            db,
            sql: """
                SELECT count(*) FILTER (WHERE kind = 'refused'),
                    count(*) FILTER (WHERE kind = 'overruled') FROM tidemark_conflict
                """)
        conflicts = try kinds?.value(0) ?? 0
        overruled = try kinds?.value(1) ?? 0
        uncapturedRecords =
            try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM tidemark_conflict_record
                    WHERE id IN (\(Conflict.Reason.uncapturedIDs))
                    """) ?? 0
    }
}
