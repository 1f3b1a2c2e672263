package import Foundation
import GRDB
package import TidemarkCore
import TidemarkPostgres
import TidemarkEmbedded
package import TidemarkEngine
import TidemarkTestSupport

/// The stores; every promise of one is a promise of all.
package enum Store: String, CaseIterable, Sendable {
    /// One SQLite file.
    case embedded
    /// A PostgreSQL database.
    case postgres

    /// All stores.
    package static let all = Store.allCases
}

/// A zone in a scratch store of either kind, addressed in JSON as a client would.
///
/// Tables are declared in SQLite's SQL. Queries use the common subset of both dialects; the
/// bookkeeping has SQLite's names, `tidemark_revision`.
package final class Zone: Sendable {
    /// The kind of store.
    package let kind: Store
    /// The store.
    package let service: any SyncService
    private let folder: URL
    private let path: String
    /// The database of a zone in PostgreSQL.
    package let database: TestDatabase?

    /// Creates the tables and rows of `sql`, and serves them; the rows are revision 1.
    package init(
        _ kind: Store, _ sql: String, policies: [String: ConflictPolicy] = [:], limits: Limits = .standard,
        epoch: UUID = UUID(), now: (@Sendable () -> Int64)? = nil, metrics: ServerMetrics = ServerMetrics()
    ) async throws {
        self.kind = kind
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appending(path: "zone.sqlite").path
        switch kind {
        case .embedded:
            database = nil
            try await Self.file(path).write { try $0.execute(sql: sql) }
            service = try EmbeddedStore(
                path: path, newEpoch: epoch, policies: policies, limits: limits, now: now, metrics: metrics)
        case .postgres:
            let testDatabase = try await TestDatabase()
            database = testDatabase
            var options = PostgresStore.Options(address: testDatabase.address, newEpoch: epoch)
            options.schemaSQL = sql
            options.policies = policies
            options.limits = limits
            options.now = now
            options.folder = folder.path
            options.connectionsMax = 3
            service = try await PostgresStore(options, metrics: metrics)
        }
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    private static func file(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    // MARK: Asking

    /// Sends a body and returns the bytes of the answer.
    package func bytes(_ body: String) async throws -> [UInt8] {
        try await service.sync(zone: "main", body: Array(body.utf8))
    }

    /// Sends bodies as one group, and returns their answers.
    package func together(_ bodies: [String]) async throws -> [Result<[UInt8], any Error>] {
        try await together(bodies.map { ZoneRequest(.sync(Array($0.utf8)), access: .local("main")) }).texts
    }

    /// Sends requests as one group, and returns their answers.
    package func together(_ requests: [ZoneRequest]) async throws -> [ZoneResult] {
        if let store = service as? EmbeddedStore { return try await store.commit("main", requests) }
        guard let store = service as? PostgresStore else { return [] }
        return try await store.commit("main", requests)
    }

    /// Sends a body and reads the answer.
    package func sync(_ body: String) async throws -> Answer { try Answer(try await bytes(body)) }

    /// Sends change sets and reads the answer.
    package func sync(at revision: Int64, device: String? = nil, _ changeSets: String...) async throws -> Answer {
        let device = device.map { #""device":"\#($0)","# } ?? ""
        let list = changeSets.joined(separator: ",")
        return try await sync(#"{"maxRevision":\#(revision),\#(device)"changeSets":[\#(list)]}"#)
    }

    /// The error that refuses a body.
    package func refusal(of body: String) async throws -> TidemarkError? {
        do {
            _ = try await bytes(body)
            return nil
        } catch let error as TidemarkError { return error }
    }

    /// The latest revision.
    package func revision() async throws -> Int64 { try await service.latest(zone: "main").revision }

    // MARK: Looking

    /// The last revision that the server committed before a time, in milliseconds since 1970.
    package func lastRevision(committedBefore time: Int64) async throws -> Int64 {
        try await service.read(.local("main"), ZoneQuestion { try $0.log.lastRevision(before: time) })
    }

    /// The state that a refused request must not change.
    package func content() async throws -> Content {
        let digest = try await service.digest(zone: "main")
        let names = ["zone", "revision", "log", "verdict", "idmap", "identity", "capture"]
        var rows: [[String]] = []
        for name in names {
            if kind == .postgres {
                rows.append(try await column("SELECT t::text FROM tidemark.\(name) AS t ORDER BY 1"))
            } else {
                rows.append(
                    try await Self.file(path).read { db in
                        try Row.fetchAll(db, sql: "SELECT * FROM tidemark_\(name)").map(\.description)
                    }
                )
            }
        }
        return Content(digest: digest, bookkeeping: rows)
    }

    /// The rows of the zone and the server's bookkeeping about them.
    package struct Content: Equatable {
        let digest: ZoneDigest
        let bookkeeping: [[String]]
    }

    /// The first column of a query, each value as text, NULL as `NULL`.
    package func column(_ sql: String) async throws -> [String] {
        if let database { return try await database.connect().column(Self.words(sql)) }
        return try await Self.file(path).read { db in
            try DatabaseValue.fetchAll(db, sql: sql).map { value in
                switch value.storage {
                case .null: "NULL"
                case .int64(let number): String(number)
                case .double(let number): String(number)
                case .string(let text): text
                case .blob(let data): "x'" + data.map { String(format: "%02x", $0) }.joined() + "'"
                }
            }
        }
    }

    /// Writes rows as another program would, in one transaction.
    package func writeOutside(_ sql: String) async throws {
        if let database { return try await database.writeOutside(Self.words(sql)) }
        try await Self.file(path).write { try $0.execute(sql: sql) }
    }

    /// Sets a zone's revision and the next ids of its tables, as after long service.
    package func begin(at revision: Int64, nextIds: [String: Int64]) async throws {
        let zone = kind == .embedded ? "" : "'main', "
        let ids = nextIds.map { "(\(zone)'\($0.key)', \($0.value))" }.joined(separator: ", ")
        try await writeOutside(
            """
            UPDATE tidemark_zone SET revision = \(revision), horizon = \(revision), adopted = \(revision);
            INSERT INTO tidemark_identity VALUES \(ids)
            """
        )
    }

    /// The names of PostgreSQL's bookkeeping.
    private static func words(_ sql: String) -> String { sql.replacing("tidemark_", with: "tidemark.") }
}

extension PostgresStore {
    /// Sends bodies as one group, and returns their answers.
    package func sync(zone: String, together bodies: [[UInt8]]) async throws -> [Result<[UInt8], any Error>] {
        try await commit(zone, bodies.map { ZoneRequest(.sync($0), access: .local(zone)) }).texts
    }
}

extension [ZoneResult] {
    /// The texts of the answers.
    fileprivate var texts: [Result<[UInt8], any Error>] { map { $0.map(\.text) } }
}
