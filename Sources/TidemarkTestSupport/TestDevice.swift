public import Foundation
public import GRDB
public import Tidemark
public import TidemarkCore
public import TidemarkEngine
import TidemarkEmbedded
import TidemarkSQL

/// A folder of test devices, and the server that they sync with.
public protocol DeviceHome: AnyObject, Sendable {
    /// The folder of all files, removed with the home.
    var folder: URL { get }
    /// The service of the devices.
    var way: any SyncService { get }
}

extension DeviceHome {
    /// Joins a new device.
    ///
    /// `clock` replaces its clock, in milliseconds since 1970. `merges` has the functions of its
    /// app. `over` replaces the transport through memory. `functions` are those of its program that the zone's
    /// statements may call.
    public func device(
        _ name: String, over other: (any Transport)? = nil, clock: (@Sendable () -> Int64)? = nil,
        limits: Limits = .standard, merges: [any RecordMerging] = [], functions: [String] = []
    ) async throws -> TestDevice {
        let path = folder.appendingPathComponent("\(name).sqlite").path
        let transport = InProcessTransport(to: way)
        var join = DeviceFileJoin(transport: transport, server: "http://cluster.test")
        join.functions = functions
        _ = try await join.join(path: path)
        return try await TestDevice(
            path: path, transport: transport, over: other, clock: clock, limits: limits, merges: merges, in: self)
    }
}

/// A device of a ``Cluster`` or another home: a file, a database on it, an engine, and a network
/// that can fail.
public final class TestDevice: Sendable {
    /// The file.
    public let path: String
    /// The app's database.
    public let database: DatabasePool
    /// The engine.
    public let engine: SyncEngine
    /// The transport to the server.
    public let transport: InProcessTransport

    /// Keeps the folder of its file alive.
    private let home: any DeviceHome
    private let clock: (@Sendable () -> Int64)?
    private let limits: Limits
    private let merges: [any RecordMerging]

    init(
        path: String, transport: InProcessTransport, over other: (any Transport)? = nil,
        clock: (@Sendable () -> Int64)? = nil, environment: SyncEngine.Environment? = nil, limits: Limits = .standard,
        merges: [any RecordMerging] = [], in home: any DeviceHome
    ) async throws {
        self.limits = limits
        self.merges = merges
        self.path = path
        self.transport = transport
        self.home = home
        self.clock = clock
        var configuration = Configuration()
        // Two engines on one file wait for each other, as two processes would.
        configuration.busyMode = .timeout(10)
        database = try DatabasePool(path: path, configuration: configuration)
        let system = SyncEngine.Environment.system
        let wall = clock.map { clock in { @Sendable in Date(timeIntervalSince1970: Double(clock()) / 1_000) } }
        engine = try await SyncEngine(
            database, server: "http://cluster.test", transport: other ?? transport,
            environment: environment ?? .init(now: wall ?? system.now, newID: system.newID), limits: limits,
            merges: merges)
    }

    /// Opens the same file again, as after a crash or a restart of the app, perhaps with other limits.
    public func reopened(environment: SyncEngine.Environment? = nil, limits: Limits? = nil) async throws
        -> TestDevice
    {
        try await TestDevice(
            path: path, transport: transport, clock: clock, environment: environment, limits: limits ?? self.limits,
            merges: merges, in: home)
    }

    /// A copy of the file, as a backup or a move to another phone makes one.
    ///
    /// Both have one identity, until the server tells one of them.
    public func copy(_ name: String) async throws -> TestDevice {
        let path = home.folder.appendingPathComponent("\(name).sqlite").path
        try await database.vacuum(into: path)
        return try await TestDevice(
            path: path, transport: InProcessTransport(to: home.way), clock: clock, limits: limits, merges: merges,
            in: home)
    }

    /// Another engine on the same database, which syncs with another server.
    public func engine(on cluster: Cluster) async throws -> SyncEngine {
        try await SyncEngine(database, server: "http://cluster.test", transport: InProcessTransport(to: cluster.store))
    }

    /// Runs SQL as the app, in one transaction.
    public func write(_ sql: String) async throws { try await database.write { try $0.execute(sql: sql) } }

    /// Runs SQL as another program: a connection of its own, without the engine, foreign keys on.
    public func writeOutside(_ sql: String) throws {
        var configuration = Configuration()
        // A watching engine writes at the same time.
        configuration.busyMode = .timeout(10)
        try DatabaseQueue(path: path, configuration: configuration).write { try $0.execute(sql: sql) }
    }

    /// The engine's events while `body` runs.
    ///
    /// It also ends earlier event streams.
    public func events(during body: () async throws -> Void) async throws -> [DeviceEvent] {
        let stream = engine.deviceEvents
        try await body()
        await engine.finishEvents()
        return await stream.reduce(into: []) { $0.append($1) }
    }

    /// The rows of a query, each as text joined by `|`, NULL as an empty text.
    public func rows(_ sql: String) async throws -> [String] { try await database.read { try $0.textRows(sql) } }

    /// The content hash of every synced table.
    public func digest() async throws -> ZoneDigest { try await database.zoneDigest() }
}

extension DatabaseReader {
    /// The content hash of every synced table of a device's file.
    public func zoneDigest() async throws -> ZoneDigest {
        try await read { db in
            try Digest.compute(db, schema: SchemaIntrospection.syncedSchema(in: db), zone: "main", revision: 0)
        }
    }
}

extension SyncEngine.Environment {
    /// The system's environment, but another process's lock counts as abandoned.
    ///
    /// This shows two processes that sync one file in spite of the lock.
    public static let ignoringLocks = Self(now: system.now, newID: system.newID)
}

extension Limits {
    /// The limits of devices in tests whose new records begin under temporary ids.
    public static var withoutLending: Limits {
        var limits = Limits.standard
        limits.lendsIDs = false
        return limits
    }
}
