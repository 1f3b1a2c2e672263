import Foundation
public import GRDB
import TidemarkCore
import TidemarkSQLite

/// Makes a device's file from a zone's snapshot: the way in for programs that bring no tables of
/// their own.
public struct DeviceFileJoin: Sendable {
    /// Writes a snapshot, decompressed, to a path; told what the new file has already.
    private typealias Fetch =
        @Sendable (
            _ base: DeltaBase?, _ path: String, _ progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
        ) async throws -> Void

    private let fetch: Fetch
    private let server: String
    private let zone: String
    private let environment: SyncEngine.Environment

    /// Makes a join.
    ///
    /// - Parameters:
    ///   - transport: The way to the server.
    ///   - server: The server's URL, kept in the file.
    ///   - zone: The zone.
    ///   - environment: Time and randomness.
    public init(
        transport: any Transport,
        server: String,
        zone: String = "main",
        environment: SyncEngine.Environment = .system
    ) {
        fetch = { try await transport.snapshot(zone: zone, since: $0, to: $1, progress: $2) }
        self.server = server
        self.zone = zone
        self.environment = environment
    }

    /// Makes a join that takes the rows from this machine, not from a server.
    ///
    /// - Parameters:
    ///   - server: The server's URL, kept in the file.
    ///   - zone: The zone.
    ///   - environment: Time and randomness.
    ///   - snapshot: Writes the zone's snapshot, decompressed, to a path; for instance by
    ///     `EmbeddedStore.writeSnapshot(to:)`.
    public init(
        server: String,
        zone: String = "main",
        environment: SyncEngine.Environment = .system,
        snapshot: @escaping @Sendable (_ path: String) async throws -> Void
    ) {
        fetch = { _, path, _ in try await snapshot(path) }
        self.server = server
        self.zone = zone
        self.environment = environment
    }

    /// Downloads the snapshot and makes the file.
    ///
    /// Cut short, it leaves no file.
    ///
    /// - Parameters:
    ///   - path: Where the file will be; nothing may be there.
    ///   - progress: Told the compressed bytes received so far, and how many there will be.
    /// - Returns: The status of the new device.
    /// - Throws: ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    public func join(path: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in })
        async throws -> DeviceStatus
    {
        let scratch = try ScratchFolder(for: path, id: environment.newID())
        defer { scratch.remove() }
        return try await join(path: path, in: scratch, since: .nothing, progress: progress) { _ in }
    }

    /// Downloads the snapshot and makes a file to ship inside an app: no device yet, one file that
    /// may be read where nothing can be written.
    ///
    /// Whoever opens a copy of it with a ``SyncEngine`` makes that copy a device of its own, which
    /// asks only for what is new since. Cut short, it leaves no file.
    ///
    /// - Parameters:
    ///   - path: Where the file will be; nothing may be there.
    ///   - progress: Told the compressed bytes received so far, and how many there will be.
    /// - Returns: The status that each device begins with.
    /// - Throws: ``TidemarkCore/TidemarkError`` or `DatabaseError`.
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
        path: String,
        in scratch: ScratchFolder,
        since base: DeltaBase?,
        isShipped: Bool = false,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void,
        takeOver: @escaping @Sendable (Database) throws -> Void
    ) async throws -> DeviceStatus {
        let snapshot = scratch.path("snapshot")
        let file = scratch.path("file")
        try await fetch(base, snapshot, progress)
        let status = try await make(file, isShipped, from: snapshot, takeOver)
        try scratch.place("file", at: path)
        return status
    }

    /// Downloads the snapshot and makes an ordinary SQLite file of it: the zone's tables with their
    /// indexes and rows, and nothing of Tidemark's, to be served as a new history.
    ///
    /// Cut short, it leaves no file.
    ///
    /// - Parameters:
    ///   - path: Where the file will be; nothing may be there.
    ///   - progress: Told the compressed bytes received so far, and how many there will be.
    /// - Returns: What the file holds.
    /// - Throws: ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    public func copy(path: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in })
        async throws -> PlainCopy
    {
        let scratch = try ScratchFolder(for: path, id: environment.newID())
        defer { scratch.remove() }
        let snapshot = scratch.path("snapshot")
        let file = scratch.path("file")
        // Not the one for beginners, which may be older.
        try await fetch(nil, snapshot, progress)
        let copy = try await makePlain(file, from: snapshot)
        try scratch.place("file", at: path)
        return copy
    }

    private func makePlain(_ file: String, from snapshot: String) async throws -> PlainCopy {
        let zone = zone
        let now = environment.now()
        let newID = environment.newID
        do {
            let database = try DatabaseQueue(path: file)
            let copy = try await database.writeWithoutTransaction { db in
                try EngineConnection.flushCommits(of: db)
                return try TakeSnapshot(db: db, snapshotPath: snapshot, now: now, newID: newID).makePlain(zone: zone)
            }
            try database.close()
            return copy
        } catch { throw TidemarkError.typed(error, of: file) }
    }

    /// Makes a new file in place of a damaged one: the rows from the server, and from the damaged
    /// file what waits in it, edits, outbox and conflicts.
    ///
    /// The new file is the same device. The damaged one is not changed; it must not be synced
    /// again.
    ///
    /// - Parameters:
    ///   - path: Where the new file will be; nothing may be there.
    ///   - damaged: The damaged file, which no program may write meanwhile.
    ///   - progress: Told the compressed bytes received so far, and how many there will be.
    /// - Returns: The status of the device in its new file, and what is lost.
    /// - Throws: ``TidemarkCore/TidemarkError`` with the code `fileDamaged` when what waits
    ///   cannot be read, or cannot be synced from the new file; then there is no new file.
    public func rescue(
        path: String,
        damaged: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void = { _, _ in }
    ) async throws -> RescuedDevice {
        let scratch = try ScratchFolder(for: path, id: environment.newID())
        defer { scratch.remove() }
        let copy = scratch.path("damaged")
        // Reading a file that was not closed well changes it, so a copy is read.
        for suffix in ["", "-wal", "-journal"] where FileManager.default.fileExists(atPath: damaged + suffix) {
            try FileManager.default.copyItem(atPath: damaged + suffix, toPath: copy + suffix)
        }
        let now = environment.now()
        let newID = environment.newID
        // What waits may have seen the latest revision.
        let lost = Remembered<[String]>([])
        let status = try await join(path: path, in: scratch, since: nil, progress: progress) { db in
            let words = try RescueOutbox(db: db, damagedPath: copy, now: now, newID: newID).takeOver()
            lost.update { $0 = words }
        }
        return RescuedDevice(status: status, lost: lost.update { $0 })
    }

    private func make(
        _ scratch: String,
        _ isShipped: Bool,
        from snapshot: String,
        _ takeOver: @escaping @Sendable (Database) throws -> Void
    ) async throws -> DeviceStatus {
        do { return try await fill(scratch, isShipped, from: snapshot, takeOver) } catch {
            throw TidemarkError.typed(error, of: scratch)
        }
    }

    private func fill(
        _ scratch: String,
        _ isShipped: Bool,
        from snapshot: String,
        _ takeOver: @escaping @Sendable (Database) throws -> Void
    ) async throws -> DeviceStatus {
        let database = try DatabaseQueue(path: scratch)
        let server = server
        let zone = zone
        let newID = environment.newID
        let now = environment.now()
        let status = try await database.writeWithoutTransaction { db in
            try EngineConnection.flushCommits(of: db)
            _ = try TakeSnapshot(db: db, snapshotPath: snapshot, now: now, newID: newID).join(
                device: newID(),
                server: server,
                zone: zone
            )
            try takeOver(db)
            return try DeviceStatus(db)
        }
        if isShipped { try await database.vacuum() }
        try database.close()
        guard !isShipped else { return status }
        // From here on in WAL mode, so that the app can read while a sync writes.
        let file = try DatabaseQueue(path: scratch)
        try await file.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        try file.close()
        return status
    }
}

/// A device's file that was made anew in place of a damaged one.
public struct RescuedDevice: Hashable, Sendable {
    /// The status of the device in its new file.
    public let status: DeviceStatus
    /// What could not be read and is not needed to sync, in words; mostly nothing.
    public let lost: [String]
}

extension SyncEngine {
    /// The server and zone that a file has joined.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it has joined none.
    public static func membership(in db: Database) throws -> (server: String, zone: String) {
        let file = try TidemarkError.typingStorage(of: "this file") { try DeviceFile(db) }
        return (file.server, file.zone)
    }

    /// Where a device's file stands, without an engine on it; a read-only connection will do.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it has joined no server.
    public static func status(in db: Database) throws -> DeviceStatus {
        try TidemarkError.typingStorage(of: "this file") { try DeviceStatus(db) }
    }

    /// The conflicts of a device's file, oldest first, without an engine on it; a read-only
    /// connection will do.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it has joined no server.
    public static func conflicts(in db: Database) throws -> [Conflict] {
        try TidemarkError.typingStorage(of: "this file") {
            try Conflict.withReferrers(db, schema: DeviceFile(db).schema)
        }
    }

    /// The server and zone that a file has joined, also when the rest of the file is damaged.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it has joined none, or says so no more.
    public static func membership(ofFileAt path: String) throws -> (server: String, zone: String) {
        try RescueOutbox.membership(ofFileAt: path)
    }

    /// Ends the event streams that were handed out so far, once what was sent has been read.
    public func finishEvents() { eventHub.finish() }
}
