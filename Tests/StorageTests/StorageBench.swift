import Foundation
import GRDB
@testable import Tidemark
import TidemarkCore
import TidemarkEngine
@testable import TidemarkEmbedded
import TidemarkTestSupport

/// A server and a device, each on its own faulty disk: the engine, the store and SQLite are real.
///
/// A bench is built from two disk images, so that a scenario can run from the same state once for
/// each disk call.
final class StorageBench {
    /// The disk that fails.
    enum Side: CaseIterable { case device, server }

    /// The files of both disks at one moment.
    struct Image {
        var device: [String: [UInt8]]
        var server: [String: [UInt8]]
    }

    let device: FaultVolume
    let server: FaultVolume
    private(set) var engine: SyncEngine?
    private(set) var database: DatabaseQueue?
    private(set) var store: EmbeddedStore?
    /// Whether answers are lost in transit.
    var losesAnswer = false

    /// The error with which the server refuses every request; nil if it answers.
    var refusal: TidemarkError?

    /// The tables of every scenario.
    static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE, points INTEGER DEFAULT 0);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT UNIQUE, photo BLOB);
        CREATE INDEX player_team ON player (team_id);
        INSERT INTO team VALUES (1, 'Kiel', 0), (2, 'Jena', 0), (3, 'Ulm', 0);
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
        INSERT INTO player SELECT i, 1 + i % 3, 'player ' || i, zeroblob(500) FROM n;
        """

    /// Makes the disks of an image, with no file open yet.
    init(_ image: Image) throws {
        device = try FaultVolume()
        server = try FaultVolume()
        for (file, bytes) in image.device { try device.replace(file, with: bytes) }
        for (file, bytes) in image.server { try server.replace(file, with: bytes) }
    }

    /// A zone with rows, and a device that has joined it.
    static func joined() async throws -> StorageBench {
        let bench = try StorageBench(Image(device: [:], server: [:]))
        try bench.openServer(schema: schema)
        let file = try bench.device.database("device.sqlite")
        try await file.writeWithoutTransaction { db in
            _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL")
            try db.execute(
                sql:
                    "CREATE TABLE team (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, points INTEGER DEFAULT 0);"
                    + "CREATE TABLE player (id INTEGER PRIMARY KEY AUTOINCREMENT, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE, name TEXT UNIQUE, photo BLOB);"
                    + "CREATE INDEX player_team ON player (team_id);")
        }
        try file.close()
        try await bench.openDevice()
        try await bench.sync()
        return bench
    }

    /// The current files; no file may be open, so that reading them needs no journal.
    func image() async throws -> Image {
        try await close()
        return Image(device: files(.device), server: files(.server))
    }

    /// The files of a side as they are, open or not.
    func files(_ side: Side) -> [String: [UInt8]] {
        let disk = disk(side)
        return Dictionary(uniqueKeysWithValues: disk.files.map { ($0, disk.contents(of: $0) ?? []) })
    }

    // MARK: Opening

    func open() async throws {
        try openServer()
        try await openDevice()
    }

    func openServer(schema: String? = nil) throws {
        store = try EmbeddedStore(path: server.path(of: "zone.sqlite"), schemaSQL: schema, newEpoch: UUID())
    }

    func openDevice() async throws {
        let file = try device.database("device.sqlite")
        database = file
        engine = try await SyncEngine(
            file, server: "http://server.test", transport: BenchTransport(bench: self),
            environment: .init(now: { Date(timeIntervalSince1970: 1_700_000_000) }, newID: { UUID() }),
            limits: .withoutLending)
    }

    func close() async throws {
        engine = nil
        try database?.close()
        database = nil
        try await store?.close()
        store = nil
    }

    /// The process of a side has crashed with its machine; its open files are dead.
    func drop(_ side: Side) {
        switch side {
        case .device: (engine, database) = (nil, nil)
        case .server: store = nil
        }
    }

    /// Opens the missing files, as a starting process does.
    func reopen() async throws {
        if store == nil { try openServer() }
        if engine == nil { try await openDevice() }
    }

    func disk(_ side: Side) -> FaultVolume { side == .device ? device : server }

    // MARK: Using

    /// An edit by the app, in one transaction.
    func edit(_ sql: String) async throws {
        try await reopen()
        try await database?.write { try $0.execute(sql: sql) }
    }

    /// A write by another program on the server's machine.
    func writeOutside(_ sql: String) throws {
        let file = try server.database("zone.sqlite")
        try file.write { try $0.execute(sql: sql) }
        try file.close()
    }

    func sync() async throws {
        try await reopen()
        try await engine?.sync()
    }

    /// Limits the cache of all later connections to ten pages, so that a transaction writes to the
    /// disk before its commit.
    func useSmallCaches() async throws {
        try await close()
        for (disk, file) in [(device, "device.sqlite"), (server, "zone.sqlite")] {
            let database = try disk.database(file)
            try await database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA default_cache_size = 10") }
            try database.close()
        }
    }

    // MARK: Damage

    /// Fills all pages of some tables with zeros.
    func destroyPages(of tables: [String]) throws {
        let file = try device.database("device.sqlite")
        let (pages, size) = try file.read { db in
            let pages = try tables.flatMap {
                try Int.fetchAll(db, sql: "SELECT pageno FROM dbstat WHERE name = ?", arguments: [$0])
            }
            return (pages, try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 4096)
        }
        try file.close()
        var bytes = device.contents(of: "device.sqlite") ?? []
        for page in pages { for at in (page - 1) * size..<page * size { bytes[at] = 0 } }
        try device.replace("device.sqlite", with: bytes)
    }

    /// Makes the records on a table's root page read as NULLs.
    func makeNulls(of table: String) throws {
        let file = try device.database("device.sqlite")
        let (root, size) = try file.read { db in
            (
                try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = ?", arguments: [table]) ?? 0,
                try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 4_096
            )
        }
        try file.close()
        var bytes = device.contents(of: "device.sqlite") ?? []
        PageDamage.makeNulls(of: &bytes, page: root, pageSize: size)
        try device.replace("device.sqlite", with: bytes)
    }

    /// Runs the rescue of `tidemark device rescue` on the disk in memory.
    func rescueDevice() async throws {
        try device.replace("damaged.sqlite", with: device.contents(of: "device.sqlite"))
        for file in device.files where file.hasPrefix("device.sqlite") { try device.replace(file, with: nil) }
        if store == nil { try openServer() }
        let snapshot = device.path(of: "snapshot.sqlite")
        try await BenchTransport(bench: self).snapshot(zone: "main", to: snapshot) { _, _ in }
        let damaged = device.path(of: "damaged.sqlite")
        let place = try SyncEngine.membership(ofFileAt: damaged)
        let file = try device.database("device.sqlite")
        try await file.writeWithoutTransaction { db in
            _ = try TakeSnapshot(
                db: db, snapshotPath: snapshot, now: Date(timeIntervalSince1970: 1_700_000_000), newID: { UUID() }
            ).join(device: UUID(), server: place.server, zone: place.zone)
            _ = try RescueOutbox(
                db: db, damagedPath: damaged,
                moment: Moment(now: Date(timeIntervalSince1970: 1_700_000_000), newID: { UUID() })
            ).takeOver()
        }
        try file.close()
        try await openDevice()
    }

    // MARK: Looking

    /// The rows of both sides, which must be equal, with an empty outbox and no damage.
    func verdict() async throws -> [String] {
        try await reopen()
        let mine = try Self.dump(device, "device.sqlite")
        let theirs = try Self.dump(server, "zone.sqlite")
        let waiting = try await engine?.status().pendingChangeSets ?? -1
        var wrong: [String] = []
        if mine != theirs { wrong.append("device and server differ: \(mine) \(theirs)") }
        if waiting != 0 { wrong.append("\(waiting) change sets wait") }
        return wrong.isEmpty ? theirs : wrong
    }

    /// The rows of the server, or its file's fault.
    func serverRows() throws -> [String] { try Self.dump(server, "zone.sqlite") }

    private static func dump(_ disk: FaultVolume, _ file: String) throws -> [String] {
        let database = try disk.database(file)
        defer { drop(database) }
        return try database.read { db in
            let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            let broken = try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").count
            guard integrity == ["ok"], broken == 0 else {
                return ["damaged \(file): \(integrity), \(broken) broken references"]
            }
            return try String.fetchAll(
                db,
                sql: """
                    SELECT 'team ' || id || ' ' || name || ' ' || ifnull(points, '-') FROM team
                    UNION ALL SELECT 'player ' || id || ' ' || team_id || ' ' || name || ' '
                        || ifnull(length(photo), '-') FROM player
                    ORDER BY 1
                    """
            )
        }
    }

    private static func drop(_ database: DatabaseQueue) {
        do { try database.close() } catch {
            // The connection closes when it goes out of scope, in the next line.
            return
        }
    }
}

/// The transport from the bench's device to its server.
struct BenchTransport: Transport {
    // All steps on a bench run one after another.
    nonisolated(unsafe) unowned let bench: StorageBench

    private func store() throws -> EmbeddedStore {
        if let refusal = bench.refusal { throw refusal }
        guard let store = bench.store else {
            throw TidemarkError(.unreachable, "The server is down.", fix: "Start it.")
        }
        return store
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await store().sync(zone: zone, body: body)
        guard !bench.losesAnswer else { throw FaultPlan.lost }
        return answer
    }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        _ = try SnapshotBuilder(zonePath: bench.server.path(of: "zone.sqlite"), schema: store().schema).copy(to: path)
    }

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await store().fingerprints(zone: zone, body: body)
    }

    func schema(zone: String) async throws -> [UInt8] { try await store().schema(zone: zone) }
}
