import Foundation
public import GRDB
import TidemarkCore
import TidemarkSQL

/// Creates a device's file from a zone's snapshot, for programs without tables of their own.
public struct DeviceFileJoin: Sendable {
    /// Writes a decompressed snapshot to a path; `base` describes the rows that the file already has.
    private typealias Fetch =
        @Sendable (
            _ base: DeltaBase?, _ path: String, _ progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
        ) async throws -> Void

    private let fetch: Fetch
    private let server: String
    private let zone: String
    private let environment: SyncEngine.Environment
    /// The functions of programs that the zone's views and triggers may call in the new file.
    ///
    /// A view or trigger that calls another one which SQLite does not have is left out of the file.
    public var functions: [String] = []

    /// Makes a join; the new file keeps the server's URL.
    public init(
        transport: any Transport, server: String, zone: String = "main", environment: SyncEngine.Environment = .system
    ) {
        fetch = { try await transport.snapshot(zone: zone, since: $0, to: $1, progress: $2) }
        self.server = server
        self.zone = zone
        self.environment = environment
    }

    /// Makes a join that reads the rows on this machine, not from a server, whose URL the new file keeps.
    ///
    /// `snapshot` writes the zone's snapshot, decompressed, to a path; for instance by
    /// `EmbeddedStore.writeSnapshot(to:)`.
    public init(
        server: String, zone: String = "main", environment: SyncEngine.Environment = .system,
        snapshot: @escaping @Sendable (_ path: String) async throws -> Void
    ) {
        fetch = { _, path, _ in try await snapshot(path) }
        self.server = server
        self.zone = zone
        self.environment = environment
    }

    /// Downloads the snapshot and creates the file; if it fails or is cancelled, it leaves no file.
    ///
    /// No file may exist at `path`. `progress` gets the compressed bytes received so far, and their total if known.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    public func join(path: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in })
        async throws -> DeviceStatus
    {
        let scratch = try ScratchFolder(
            for: path, id: environment.newID(),
            advice: """
                Choose another name; nothing is overwritten. A file that has joined is synced with `tidemark device sync`.
                """)
        defer { scratch.remove() }
        return try await join(path: path, in: scratch, since: .nothing, progress: progress) { _ in }
    }

    /// Downloads the snapshot and creates a file to ship inside an app.
    ///
    /// The file has no identity yet and can be read from a read-only folder. A ``SyncEngine`` that opens a copy makes
    /// it a device of its own, which fetches only newer revisions. If this function fails or is cancelled, it leaves no
    /// file. `path` and `progress` are as in ``join(path:progress:)``.
    public func ship(path: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in })
        async throws -> DeviceStatus
    {
        let scratch = try ScratchFolder(for: path, id: environment.newID())
        defer { scratch.remove() }
        return try await join(path: path, in: scratch, since: .nothing, isShipped: true, progress: progress) {
            try PrepareDevice.forgetIdentity(in: $0)
        }
    }

    private func join(
        path: String, in scratch: ScratchFolder, since base: DeltaBase?, isShipped: Bool = false,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void,
        takeOver: @escaping @Sendable (Database) throws -> Void
    ) async throws -> DeviceStatus {
        let snapshot = scratch.path("snapshot")
        let file = scratch.path("file")
        try await fetch(base, snapshot, progress)
        let status = try await write(file) { [environment, server, zone, functions] db in
            let newID = environment.newID
            _ = try TakeSnapshot(db: db, snapshotPath: snapshot, now: environment.now(), newID: newID).join(
                device: newID(), server: server, zone: zone, functions: functions)
            try takeOver(db)
            let status = try DeviceStatus(db)
            if isShipped { try db.execute(sql: "VACUUM") }
            return status
        }
        // WAL mode lets the app read while a sync writes.
        if !isShipped { try await write(file) { try $0.execute(sql: "PRAGMA journal_mode = WAL") } }
        try scratch.place("file", at: path)
        return status
    }

    /// Downloads the snapshot and creates an ordinary SQLite file, which can be served as a new history.
    ///
    /// It contains the zone's tables with their indexes and rows, and no bookkeeping. If this function fails or is
    /// cancelled, it leaves no file. `path` and `progress` are as in ``join(path:progress:)``.
    public func copy(path: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in })
        async throws -> PlainCopy
    {
        let scratch = try ScratchFolder(for: path, id: environment.newID())
        defer { scratch.remove() }
        let snapshot = scratch.path("snapshot")
        let file = scratch.path("file")
        // Without a base, the snapshot is of the latest revision.
        try await fetch(nil, snapshot, progress)
        let copy = try await write(file) { [zone, environment] db in
            try TakeSnapshot(db: db, snapshotPath: snapshot, now: environment.now(), newID: environment.newID)
                .makePlain(zone: zone)
        }
        try scratch.place("file", at: path)
        return copy
    }

    /// Creates a new file in place of a damaged one.
    ///
    /// The rows come from the server; edits, outbox and conflicts come from the damaged file. The new
    /// file is the same device. The damaged file stays unchanged and must not be synced again.
    ///
    /// No program may write the damaged file meanwhile, and no file may exist at `path`.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with the code `fileDamaged` if the unsent data is
    ///   unreadable, or cannot be synced from the new file; then there is no new file.
    public func rescue(
        path: String, damaged: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in }
    ) async throws -> RescuedDevice {
        let scratch = try ScratchFolder(for: path, id: environment.newID())
        defer { scratch.remove() }
        let copy = scratch.path("damaged")
        // SQLite recovers a file that was not closed properly, which changes it. So read a copy.
        for suffix in ["", "-wal", "-journal"] where FileManager.default.fileExists(atPath: damaged + suffix) {
            try FileManager.default.copyItem(atPath: damaged + suffix, toPath: copy + suffix)
        }
        let now = environment.now()
        let newID = environment.newID
        let lost = Remembered<[String]>([])
        // Pending changes may depend on the latest revision, so fetch a snapshot without a base.
        let status = try await join(path: path, in: scratch, since: nil, progress: progress) { db in
            let descriptions = try RescueOutbox(db: db, damagedPath: copy, moment: Moment(now: now, newID: newID))
                .takeOver()
            lost.update { $0 = descriptions }
        }
        return RescuedDevice(status: status, lost: lost.update { $0 })
    }

    /// Makes a file, or opens it, and returns what `body` returns.
    private func write<Output: Sendable>(_ path: String, _ body: @escaping @Sendable (Database) throws -> Output)
        async throws -> Output
    {
        do {
            let database = try DatabaseQueue(path: path)
            let output = try await database.writeWithoutTransaction { db in
                try EngineConnection.flushCommits(of: db)
                return try body(db)
            }
            try database.close()
            return output
        } catch { throw TidemarkError.translateStorageError(error, of: path) }
    }
}

/// The result of a rescue: a new file in place of a damaged one.
public struct RescuedDevice: Hashable, Sendable {
    /// The status of the device in its new file.
    public let status: DeviceStatus
    /// Descriptions of unreadable data that a sync does not need; mostly empty.
    public let lost: [String]
}

extension SyncEngine {
    /// Returns the server and zone that a file has joined.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if it has joined none.
    public static func membership(in db: Database) throws -> (server: String, zone: String) {
        let file = try TidemarkError.translatingStorageErrors(of: "this file") { try DeviceFile(db) }
        return (file.server, file.zone)
    }

    /// Returns the status of a device's file without an engine; a read-only connection suffices.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if it has joined no server.
    public static func status(in db: Database) throws -> DeviceStatus {
        try TidemarkError.translatingStorageErrors(of: "this file") { try DeviceStatus(db) }
    }

    /// Returns the conflicts of a device's file without an engine, oldest first, with the server's records of now.
    ///
    /// A read-only connection suffices.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if it has joined no server.
    public static func conflicts(in db: Database) throws -> [Conflict] {
        try TidemarkError.translatingStorageErrors(of: "this file") { try Conflict.shown(db, DeviceFile(db)) }
    }

    /// Returns the server and zone that a file has joined, even if the rest of the file is damaged.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if it has joined none, or that part is unreadable.
    public static func membership(ofFileAt path: String) throws -> (server: String, zone: String) {
        try RescueOutbox.membership(ofFileAt: path)
    }

    /// Ends the existing event streams after their readers have read all sent events.
    public func finishEvents() { eventHub.finish() }
}
