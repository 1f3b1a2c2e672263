import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL

/// A device's file, open in the command line; other programs may have it open too.
struct OpenDevice {
    let engine: SyncEngine

    /// Opens a file, which keeps a given `name`; without `access`, for commands that need no server.
    init(
        _ path: String, access: ServerAccess? = nil, name: String? = nil, independent: IndependentTables? = nil,
        limits: Limits = .standard
    ) async throws {
        try ExistingFile.require(path, fix: Self.howToJoin)
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { ProgramFunctions.addStandIns(declaredIn: $0) }
        let database = try DatabaseQueue(path: path, configuration: configuration)
        let place = try await database.read { try SyncEngine.membership(in: $0) }
        guard !place.server.isEmpty else {
            throw TidemarkError(
                .unusableFile,
                "\(path) does not say which server it syncs with.",
                fix:
                    """
                    An app's SyncEngine says so; for this command make the file by `tidemark snapshot FILE OUT \
                    --server URL`.
                    """)
        }
        let transport = try access?.transport(to: place.server)
        engine = try await SyncEngine(
            database, server: place.server, zone: place.zone, user: try transport?.storedUser(), name: name,
            transport: transport, independent: independent, limits: limits)
    }

    /// Reads a device's status without writing to its file.
    static func status(_ path: String) async throws -> DeviceStatus {
        try await reading(path) { try SyncEngine.status(in: $0) }
    }

    /// Reads the parts of the zone's file that a device's file lacks, with the reasons.
    static func leftOut(of path: String) async throws -> [String: String] {
        try await reading(path) { try SchemaReport($0).leftOut }
    }

    /// Reads a device's conflicts without writing to its file.
    static func conflicts(_ path: String) async throws -> [Conflict] {
        try await reading(path) { try SyncEngine.conflicts(in: $0) }
    }

    private static func reading<Value: Sendable>(
        _ path: String, _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        try ExistingFile.require(path, fix: howToJoin)
        do { return try await reading(at: path, value) } catch let error as DatabaseError
            where [.SQLITE_CANTOPEN, .SQLITE_READONLY].contains(error.resultCode)
        { return try await readingCopy(of: path, value) }
    }

    /// Reads a file without a change to it, whatever functions its tables need.
    static func reading<Value: Sendable>(
        at path: String, _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { ProgramFunctions.addStandIns(declaredIn: $0) }
        return try await DatabaseQueue(path: path, configuration: configuration).read(value)
    }

    /// Reads a copy of a file on a read-only disk, because SQLite needs a lock file beside it.
    private static func readingCopy<Value: Sendable>(
        of path: String, _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        let name = FileManager.default.temporaryDirectory.appendingPathComponent("tidemark").path
        let scratch = try ScratchFolder(for: name, id: UUID())
        defer { scratch.remove() }
        let copy = scratch.path("file")
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
        }
        // The copy has the permissions of the file.
        guard chmod(copy, 0o600) == 0 else { return try await reading(at: path, value) }
        return try await reading(at: copy, value)
    }

    private static let howToJoin = "Make one with `tidemark device join URL FILE`."

    func syncCollectingEvents(acceptingMassDeletion: Bool = false, pushedChange: PushedChange? = nil) async throws
        -> [DeviceEvent]
    {
        let stream = engine.deviceEvents
        let outcome = await Result {
            try await engine.sync(acceptingMassDeletion: acceptingMassDeletion, pushedChange: pushedChange)
        }
        await engine.finishEvents()
        var events: [DeviceEvent] = []
        for await event in stream { events.append(event) }
        try outcome.get()
        return events
    }
}

extension Result where Failure == any Error {
    /// Captures the outcome of `body`, so that cleanup can run before the error is thrown.
    init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
