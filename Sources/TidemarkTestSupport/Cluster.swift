public import Foundation
import GRDB
import Tidemark
public import TidemarkCore
public import TidemarkEmbedded
public import TidemarkEngine

/// A server and devices in one process, on real files in a folder of their own.
///
/// ```swift
/// let cluster = try Cluster(schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
/// let (anna, ben) = (try await cluster.device("anna"), try await cluster.device("ben"))
/// try await anna.write("INSERT INTO notes (text) VALUES ('hello')")
/// try await cluster.converge(anna, ben)
/// ```
public final class Cluster: DeviceHome {
    /// The folder of all files; removed with the cluster.
    public let folder: URL
    /// The transport target of the devices: the server.
    public let service: ReplaceableService
    /// The service of the devices.
    public var way: any SyncService { service }
    private let policies: [String: ConflictPolicy]
    private let excluded: Set<String>
    private let limits: Limits
    private let now: (@Sendable () -> Int64)?

    /// The server.
    public var store: EmbeddedStore { service.store }

    /// Makes a server with an empty zone of the given tables, and the rows that `seed` inserts.
    ///
    /// `keys` are declared for tables without a primary key. `now` replaces the server's clock, in milliseconds since
    /// 1970. `objects` declares where triggers run.
    public convenience init(
        schema: String, seed: String = "", keys: [String: [String]] = [:], policies: [String: ConflictPolicy] = [:],
        excluding excluded: Set<String> = [], objects: ObjectDeclarations = ObjectDeclarations(),
        limits: Limits = .standard, now: (@Sendable () -> Int64)? = nil
    ) throws {
        let folder = try Self.newFolder()
        let path = folder.appendingPathComponent(Self.zoneFile).path
        try DatabaseQueue(path: path).write { try $0.execute(sql: schema + ";" + seed) }
        try self.init(
            in: folder, keys: keys, policies: policies, excluded: excluded, objects: objects, limits: limits, now: now)
    }

    /// Makes a server of a copy of a file.
    public convenience init(
        adopting file: URL, keys: [String: [String]] = [:], objects: ObjectDeclarations = ObjectDeclarations()
    ) throws {
        let folder = try Self.newFolder()
        try FileManager.default.copyItem(at: file, to: folder.appendingPathComponent(Self.zoneFile))
        try self.init(in: folder, keys: keys, policies: [:], objects: objects, limits: .standard, now: nil)
    }

    private init(
        in folder: URL, keys: [String: [String]], policies: [String: ConflictPolicy], excluded: Set<String> = [],
        objects: ObjectDeclarations = ObjectDeclarations(), limits: Limits, now: (@Sendable () -> Int64)?
    ) throws {
        self.folder = folder
        let path = folder.appendingPathComponent(Self.zoneFile).path
        zonePath = path
        self.policies = policies
        self.excluded = excluded
        self.limits = limits
        self.now = now
        service = ReplaceableService(
            try EmbeddedStore(
                path: path, newEpoch: UUID(), excluding: excluded, keys: keys, policies: policies, objects: objects,
                limits: limits, now: now))
    }

    private static let zoneFile = "zone.sqlite"

    private static func newFolder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// The path of the server's file.
    public let zonePath: String

    /// Runs SQL in the server's file, as another program would.
    public func writeOutside(_ sql: String) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        try DatabaseQueue(path: zonePath, configuration: configuration).write { try $0.execute(sql: sql) }
    }

    /// Copies the server's file, as a backup does.
    ///
    /// - Returns: The copy's path.
    public func backUp() async throws -> String {
        let path = folder.appendingPathComponent("backup-\(UUID()).sqlite").path
        try await DatabaseQueue(path: zonePath).vacuum(into: path)
        return path
    }

    /// Replaces the server's file with a backup; nil: with an empty zone of the same tables.
    ///
    /// With `isSaid`, the server is told, as by `tidemark serve --restored`.
    public func restore(_ backup: String?, isSaid: Bool = false) async throws {
        try await store.close()
        for suffix in ["-wal", "-shm"] where FileManager.default.fileExists(atPath: zonePath + suffix) {
            try FileManager.default.removeItem(atPath: zonePath + suffix)
        }
        if let backup {
            try FileManager.default.removeItem(atPath: zonePath)
            try FileManager.default.copyItem(atPath: backup, toPath: zonePath)
        } else {
            let tables = store.schema.tables.flatMap { [$0.sql] + $0.indexSQL }
            try FileManager.default.removeItem(atPath: zonePath)
            try await DatabaseQueue(path: zonePath).write { db in for sql in tables { try db.execute(sql: sql) } }
        }
        service.store = try EmbeddedStore(
            path: zonePath, newEpoch: UUID(), isRestored: isSaid, excluding: excluded, policies: policies,
            limits: limits, now: now)
    }

    /// The rows of a query in the server's file, each as text joined by `|`, NULL as an empty text.
    public func rows(_ sql: String) async throws -> [String] {
        try await DatabaseQueue(path: zonePath).read { try $0.textRows(sql) }
    }

    /// Syncs the devices until all have everything, and checks the result.
    ///
    /// All files must be equal, no change set may wait, and no reference may be broken.
    ///
    /// - Throws: ``ClusterDiverged`` with the first file that fails a check.
    public func converge(_ devices: TestDevice...) async throws { try await converge(devices) }

    /// Syncs the devices until all have everything, and checks the result.
    ///
    /// All files must be equal, no change set may wait, and no reference may be broken.
    public func converge(_ devices: [TestDevice]) async throws {
        for _ in 0..<2 { for device in devices { try await device.engine.sync() } }
        let truth = try await store.digest(zone: EmbeddedStore.zoneName)
        for device in devices {
            let digest = try await device.digest()
            if digest.hash != truth.hash {
                let table = zip(digest.tables, truth.tables).first { $0 != $1 }?.0.table ?? "?"
                throw ClusterDiverged(file: device.path, problem: "\(table) is not the server's")
            }
            let pending = try await device.engine.status().pendingChangeSets
            if pending > 0 { throw ClusterDiverged(file: device.path, problem: "\(pending) change sets wait") }
        }
        // The tables are equal everywhere, so one file speaks for all.
        let dangling = try await rows("PRAGMA foreign_key_check")
        if let row = dangling.first { throw ClusterDiverged(file: zonePath, problem: "\(row) refers to nothing") }
    }
}

/// A file fails a check after everything was synced.
public struct ClusterDiverged: Error, Hashable, Sendable {
    /// The file.
    public let file: String
    /// The failed check, for instance the table that differs.
    public let problem: String

    /// Makes the error.
    public init(file: String, problem: String) {
        self.file = file
        self.problem = problem
    }
}
