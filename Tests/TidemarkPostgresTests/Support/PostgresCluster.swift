import Foundation
import StoreTestSupport
import Logging
import TidemarkCore
import TidemarkPostgres
import TidemarkEngine
import TidemarkTestSupport

/// Two nodes on one database of their own, and real devices, each on a file of its own.
///
/// Devices sync with one node; psql is another program.
final class PostgresCluster: DeviceHome {
    let folder: URL
    let database: TestDatabase
    let store: PostgresStore
    /// Another node on the same database.
    let other: PostgresStore
    var way: any SyncService { store }

    /// Creates the tables of a schema in SQLite's SQL, with the rows that `seed` inserts.
    convenience init(schema: String, seed: String = "", policies: [String: ConflictPolicy] = [:]) async throws {
        let database = try await TestDatabase()
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.schemaSQL = "\(schema);\(seed)"
        options.policies = policies
        try await self.init(database, options)
    }

    /// Adopts the tables that PostgreSQL statements create.
    convenience init(
        adopting sql: String, keys: [String: [String]] = [:],
        configure: (inout PostgresStore.Options) -> Void = { _ in }
    ) async throws {
        let database = try await TestDatabase()
        try await database.connect().execute(sql)
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.adopts = true
        options.keys = keys
        configure(&options)
        try await self.init(database, options)
    }

    private init(_ database: TestDatabase, _ options: PostgresStore.Options) async throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var options = options
        options.folder = folder.path
        options.connectionsMax = 3
        options.rowPatience = 10_000
        self.database = database
        store = try await PostgresStore(options)
        options.schemaSQL = nil
        options.adopts = false
        other = try await PostgresStore(options)
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// Another node with other options.
    func node(_ options: (inout PostgresStore.Options) -> Void) async throws -> PostgresStore {
        var storeOptions = PostgresStore.Options(address: database.address, newEpoch: UUID())
        storeOptions.folder = folder.path
        storeOptions.connectionsMax = 3
        options(&storeOptions)
        return try await PostgresStore(storeOptions)
    }

    /// Runs statements as psql does, in one transaction.
    func psql(_ sql: String) async throws { try await database.writeOutside(sql) }

    /// Waits until this many connections wait for locks.
    func untilWaiting(_ count: Int) async throws {
        let observer = try await database.connect()
        let waiting = """
            SELECT 1 FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()
            """
        while try await observer.column(waiting).count < count { await Task.yield() }
    }

    /// The rows of a query, each as text joined by `|`, NULL as empty text.
    func rows(_ sql: String) async throws -> [String] {
        let program = try await database.connect()
        let text = "SELECT concat_ws('|', VARIADIC (SELECT array_agg(coalesce(v, '') ORDER BY n)"
        return try await program.column(
            """
            \(text) FROM json_each_text(to_json(r)) WITH ORDINALITY AS c (k, v, n))) FROM (\(sql)) AS r
            """
        )
    }

    /// Syncs the devices until all are up to date, and checks that they have the rows of both
    /// nodes and an empty outbox.
    func converge(_ devices: TestDevice...) async throws {
        try await settle(devices)
        let truth = try await store.digest(zone: "main")
        guard try await other.digest(zone: "main").hash == truth.hash else {
            throw ClusterDiverged(file: "the other node", problem: "its digest is another")
        }
        for device in devices where try await device.digest().hash != truth.hash {
            let mine = try await device.digest()
            let table = zip(mine.tables, truth.tables).first { $0 != $1 }?.0.table ?? "its tables"
            throw ClusterDiverged(file: device.path, problem: "\(table) is not the server's")
        }
    }

    /// Syncs devices of different versions until every outbox is empty.
    func settle(_ devices: [TestDevice]) async throws {
        for _ in 0..<3 { for device in devices { try await device.engine.sync() } }
        for device in devices {
            let pending = try await device.engine.status().pendingChangeSets
            guard pending == 0 else { throw ClusterDiverged(file: device.path, problem: "\(pending) change sets wait") }
        }
    }

    /// Ends both nodes.
    func close() async {
        await store.close()
        await other.close()
    }
}
