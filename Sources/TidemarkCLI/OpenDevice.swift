import Foundation
import GRDB
import Tidemark
import TidemarkCore

/// A device's file, opened by the command line beside whatever else has it open.
struct OpenDevice {
    let engine: SyncEngine

    /// Opens a file to sync it; without `access`, for what needs no server.
    init(_ path: String, access: ServerAccess? = nil, limits: Limits = .standard) async throws {
        try Self.requireFile(path)
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        let place = try await database.read { try SyncEngine.membership(in: $0) }
        guard !place.server.isEmpty else {
            throw TidemarkError(
                .unusableFile,
                "\(path) does not say which server it syncs with.",
                fix:
                    "An app's SyncEngine says so; for this command make the file by `tidemark snapshot FILE OUT --server URL`."
            )
        }
        engine = try await SyncEngine(
            database,
            server: place.server,
            zone: place.zone,
            transport: try access?.transport(to: place.server),
            limits: limits
        )
    }

    /// Where a device stands, read without writing into its file.
    static func status(_ path: String) async throws -> DeviceStatus {
        try await reading(path) { try SyncEngine.status(in: $0) }
    }

    /// What waits for a decision, read without writing into the file.
    static func conflicts(_ path: String) async throws -> [Conflict] {
        try await reading(path) { try SyncEngine.conflicts(in: $0) }
    }

    private static func reading<Value: Sendable>(
        _ path: String,
        _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(10)
        try requireFile(path)
        return try await DatabaseQueue(path: path, configuration: configuration).read(value)
    }

    private static func requireFile(_ path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else {
            throw TidemarkError(
                .unusableFile,
                "There is no file \(path).",
                fix: "Make one with `tidemark device join URL FILE`."
            )
        }
    }

    /// Syncs once and returns what happened.
    func syncCollectingEvents(
        acceptingMassDeletion: Bool = false,
        told: PushedChange? = nil
    ) async throws -> [SyncEvent] {
        let stream = engine.events
        let outcome = await Result {
            try await engine.sync(acceptingMassDeletion: acceptingMassDeletion, told: told)
        }
        await engine.finishEvents()
        var events: [SyncEvent] = []
        for await event in stream { events.append(event) }
        try outcome.get()
        return events
    }
}

extension Result where Failure == any Error {
    /// Notes how something ended, so that something else can be done before.
    init(_ body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
