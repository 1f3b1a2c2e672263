import Foundation
import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Makes, opens and removes the files of zones in a folder, with the tables of the main zone.
struct ZoneFiles: Sendable {
    let main: EmbeddedStore
    let folder: URL
    let limits: Limits
    let now: (@Sendable () -> Int64)?
    let metrics: ServerMetrics
    let warn: @Sendable (String) -> Void

    /// The path of a zone's file.
    func file(of zone: String) -> URL { folder.appending(path: "\(zone).sqlite") }

    /// Makes a zone's file with empty tables; does nothing if it is there.
    func make(_ zone: String) async throws {
        let template = try await template()
        try await runOnOwnThread { [self] in
            guard !FileManager.default.fileExists(atPath: file(of: zone).path) else { return }
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            // Under its own name the file is complete: a crash leaves only a file to overwrite.
            let draft = folder.appending(path: ".\(zone).new")
            try TidemarkError.translatingStorageErrors(of: draft.path) {
                for suffix in Self.suffixes { removeIfThere(draft.path + suffix) }
                let queue = try DatabaseQueue(path: draft.path)
                try queue.write { try template.make(in: $0) }
                try queue.close()
            }
            try FileManager.default.moveItem(at: draft, to: file(of: zone))
        }
    }

    /// Opens a zone's file, and adds what the main zone's tables have gained.
    func open(_ zone: String) async throws -> EmbeddedStore {
        let template = try await template()
        let file = file(of: zone)
        return try await runOnOwnThread { [self] in
            guard FileManager.default.fileExists(atPath: file.path) else {
                throw TidemarkError(
                    .unavailable,
                    "The file of this zone is missing on the server.",
                    fix: "Put the file \(zone).sqlite back into the folder of zones, for instance from a backup."
                )
            }
            try TidemarkError.translatingStorageErrors(of: file.path) {
                var configuration = Configuration()
                configuration.busyMode = .timeout(10)
                configuration.prepareDatabase { ProgramFunctions.addStandIns(declaredIn: $0) }
                let queue = try DatabaseQueue(path: file.path, configuration: configuration)
                try queue.write { try GrowZone(template: template, zone: zone).run(in: $0) }
                try queue.close()
            }
            return try EmbeddedStore(
                path: file.path,
                zone: zone,
                newEpoch: UUID(),
                excluding: template.localTables,
                limits: limits,
                now: now,
                metrics: metrics,
                fanOut: main.fanOut,
                warn: warn
            )
        }
    }

    /// Removes a zone's file.
    func remove(_ zone: String) {
        for suffix in Self.suffixes { removeIfThere(file(of: zone).path + suffix) }
    }

    private static let suffixes = ["", "-wal", "-shm", "-journal"]

    private func template() async throws -> ZoneTemplate { try await main.file.reading { try ZoneTemplate($0) } }
}
