import Foundation
import Logging
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkRedis
import TidemarkTestSupport

/// A zone in a database of its own, addressed in JSON as a client would.
final class PostgresZone: Sendable {
    let database: TestDatabase
    let store: PostgresStore

    static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rank INTEGER UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT, score REAL DEFAULT 0.5 CHECK (score >= 0), photo BLOB);
        CREATE INDEX player_team ON player (team_id);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour TEXT);
        CREATE TABLE player_tag (
            player_id INTEGER NOT NULL REFERENCES player ON DELETE CASCADE,
            tag TEXT NOT NULL REFERENCES tag, note TEXT, PRIMARY KEY (player_id, tag));
        """

    /// Test programs release their row locks soon, so the timeout is long.
    init(schema: String = PostgresZone.schema, zones: [String] = ["main"], rowPatience: Int = 10_000) async throws {
        database = try await TestDatabase()
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.schemaSQL = schema
        options.zones = zones
        options.rowPatience = rowPatience
        store = try await PostgresStore(options)
    }

    /// Another node on the same database.
    func node() async throws -> PostgresStore {
        try await PostgresStore(.init(address: database.address, newEpoch: UUID()))
    }

    /// A node that shares revisions through Redis.
    func node(_ redis: String) async throws -> PostgresStore {
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.shared = RedisCache(try RedisAddress(redis), logger: Logger(label: "test"))
        return try await PostgresStore(options)
    }

    /// Waits until so many nodes receive notifications: one that is sent earlier is lost, and a timer is behind it.
    func untilHeard(by nodes: Int) async throws {
        let observer = try await database.connect()
        let listening = """
            SELECT count(*) >= \(nodes) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
                AND state = 'idle' AND query LIKE '%LISTEN tidemark%'
            """
        while try await observer.column(listening) != ["t"] { await Task.yield() }
    }

    /// The number of rows that PostgreSQL has read of each table.
    func rowsRead() async throws -> [String: Int] {
        let observer = try await database.connect()
        // Backends report their statistics when they end, at the latest.
        let backends = """
            FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        try await observer.execute("SELECT pg_terminate_backend(pid) \(backends)")
        while try await observer.column("SELECT count(*) \(backends) AND query LIKE '%tidemark.%'") != ["0"] {
            await Task.yield()
        }
        let counts = try await observer.table(
            """
            SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
            FROM pg_stat_user_tables
            """,
            columns: 2
        )
        return Dictionary(uniqueKeysWithValues: counts.map { ($0[0], Int($0[1]) ?? 0) })
    }

    /// Sends change sets and reads the answer.
    func sync(at revision: Int64, zone: String = "main", _ changeSets: String...) async throws -> Reply {
        let body = #"{"maxRevision":\#(revision),"changeSets":[\#(changeSets.joined(separator: ","))]}"#
        return try Reply(try await store.sync(zone: zone, body: Array(body.utf8)))
    }

    /// The first column of a query, NULL as `NULL`.
    func column(_ sql: String) async throws -> [String] { try await database.connect().column(sql) }

    /// Waits until a connection of the server waits for a lock.
    func untilSomebodyWaits() async throws {
        let observer = try await database.connect()
        let waiting = """
            SELECT 1 FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()
            """
        while try await observer.column(waiting).isEmpty { await Task.yield() }
    }
}

/// An answer of a server.
struct Reply {
    let text: String
    let maxRevision: Int64
    /// The revisions of the change sets.
    let revisions: [Int]
    /// The operations of the change sets, in their order.
    let changes: [String]

    init(_ bytes: [UInt8]) throws {
        text = String(decoding: bytes, as: UTF8.self)
        let parsed = try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any]
        let object = try #require(parsed)
        maxRevision = try #require(object["maxRevision"] as? Int64)
        let sets = object["changeSets"] as? [[String: Any]] ?? []
        revisions = sets.compactMap { $0["revision"] as? Int }
        changes = sets.flatMap { set in
            (set["types"] as? [String] ?? []).flatMap { table in
                ["create", "update", "delete"].flatMap { operation in
                    let keys = (set[table] as? [String: Any])?[operation] as? [Any] ?? []
                    return keys.map { "\(operation) \(table) \($0)" }
                }
            }
        }
    }
}
