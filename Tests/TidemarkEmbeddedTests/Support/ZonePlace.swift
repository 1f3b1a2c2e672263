import Foundation
import GRDB
import Synchronization
import TidemarkCore

@testable import TidemarkEmbedded

/// The folder of a server with zones, which a test opens, closes and edits like another program.
final class ZonePlace: Sendable {
    let folder: URL
    let warnings = Mutex<[String]>([])

    init(_ sql: String) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try write(sql, into: "main")
    }

    deinit {
        // A folder left behind in the system's temporary folder harms no other test.
        try? FileManager.default.removeItem(at: folder)
    }

    func path(_ zone: String) -> String {
        folder.appending(path: zone == "main" ? "main.sqlite" : "zones/\(zone).sqlite").path
    }

    func write(_ sql: String, into zone: String) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: path(zone), configuration: configuration)
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    func read(_ sql: String, of zone: String) throws -> [String] {
        let queue = try DatabaseQueue(path: path(zone))
        let values = try queue.read { try String.fetchAll($0, sql: sql) }
        try queue.close()
        return values
    }

    /// Opens the directory; the caller closes it.
    func open(atMost openMax: Int = 3) throws -> ZoneDirectory {
        let main = try EmbeddedStore(path: path("main"), newEpoch: UUID())
        return ZoneDirectory(main: main, folder: folder.appending(path: "zones"), openMax: openMax)
    }

    /// Runs `body` with a directory that has just been opened, and closes it.
    func serving<Result>(
        renames: [ColumnRename] = [], policies: [String: ConflictPolicy] = [:],
        _ body: (ZoneDirectory) async throws -> Result
    ) async throws -> Result {
        let main = try EmbeddedStore(path: path("main"), newEpoch: UUID(), policies: policies, renames: renames)
        let directory = ZoneDirectory(
            main: main, folder: folder.appending(path: "zones"),
            warn: { [self] warning in warnings.withLock { $0.append(warning) } })
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(directory)) } catch { result = .failure(error) }
        await directory.closeZones()
        try await main.close()
        return try result.get()
    }
}
