import Foundation
import GRDB
import Tidemark
import TidemarkCore

/// A device's file, opened by the command line beside whatever else has it open.
struct OpenDevice {
    let engine: SyncEngine

    init(_ path: String) async throws {
        guard FileManager.default.fileExists(atPath: path) else {
            throw TidemarkError(
                .unusableFile,
                "There is no file \(path).",
                fix: "Make one with `tidemark device join URL FILE`."
            )
        }
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        let place = try await database.read { try SyncEngine.membership(in: $0) }
        engine = try await SyncEngine(database, server: place.server, zone: place.zone)
    }

    /// Syncs once and returns what happened.
    func syncCollectingEvents() async throws -> [SyncEvent] {
        let stream = engine.events
        let outcome = await Result { try await engine.sync() }
        await engine.finishEvents()
        var events: [SyncEvent] = []
        for await event in stream { events.append(event) }
        try outcome.get()
        return events
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
