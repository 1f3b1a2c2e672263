package import Foundation
import GRDB
import Synchronization
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL
@testable import TidemarkEmbedded
@testable import TidemarkPostgres

/// A zone of a store, or of the model, whose transactions a test runs itself.
package final class SeamZone: Sendable {
    /// The implementations of the seam.
    package enum Kind: String, CaseIterable, Sendable {
        case embedded
        case postgres
        /// ``ModelZone``.
        case model
    }

    /// The time of every commit, in milliseconds since 1970.
    package static let now: Int64 = 1_700_000_000_000

    private enum Place {
        case store(Zone)
        case model(ModelPlace)
    }

    package let kind: Kind
    private let place: Place

    /// Creates the empty tables of `sql`; with `gapless`, PostgreSQL numbers new records without a sequence.
    package init(
        _ kind: Kind, _ sql: String, epoch: UUID = UUID(), policies: [String: ConflictPolicy] = [:],
        gapless: Bool = false
    ) async throws {
        self.kind = kind
        switch kind {
        case .model: place = .model(try ModelPlace(sql, epoch: epoch, policies: policies))
        case .embedded:
            place = .store(try await Zone(.embedded, sql, policies: policies, epoch: epoch, now: { Self.now }))
        case .postgres:
            let zone = try await Zone(.postgres, sql, policies: policies, epoch: epoch, now: { Self.now })
            if gapless { try await zone.database?.dropIdentities() }
            place = .store(zone)
        }
    }

    /// Runs `body` in a transaction, and commits it.
    package func transaction<Success: Sendable>(
        _ body: @escaping @Sendable (any CommitTransaction) throws -> Success
    ) async throws -> Success {
        switch place {
        case .model(let model): return try await model.transaction { (try body($0), true) }
        case .store(let zone):
            if let store = zone.service as? EmbeddedStore {
                return try await store.file.committing { zone, _ in try body(zone) }
            }
            guard let store = zone.service as? PostgresStore else { throw NoStore() }
            return try await store.zones.inTransaction("main") { try body($0) }
        }
    }

    /// Answers requests in one transaction, as the stores do.
    package func answer(_ requests: [ZoneRequest]) async throws -> [ZoneResult] {
        switch place {
        case .store(let zone): return try await zone.together(requests)
        case .model(let model):
            return try await model.transaction { zone in
                let answers = try CommitGroup().handle(requests, at: Self.now, in: zone)
                return (answers.results, answers.haveEffect)
            }
        }
    }

    /// Writes rows as another program would; the model has none.
    package func writeOutside(_ sql: String) async throws {
        if case .store(let zone) = place { try await zone.writeOutside(sql) }
    }

    private struct NoStore: Error {}
}

/// The rows and the books of a model between its transactions.
private final class ModelPlace: Sendable {
    private let queue: DatabaseQueue
    private let ways: ZoneWays
    private let hash: String
    private let content = Mutex<ModelZone.Rows>([:])

    init(_ sql: String, epoch: UUID, policies: [String: ConflictPolicy]) throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try SchemaIntrospection(db).makeSchema(policies: policies)
        }
        ways = ZoneWays(
            schema: schema, isLocal: true, hasFarEffects: false,
            tables: schema.tables.map { _ in TableWays { _ in false } })
        hash = try SchemaText.hash(schema)
        queue = try DatabaseQueue()
        try queue.write { db in
            try ZoneTables.make(in: db)
            try db.execute(sql: CaptureTables.commonSQL)
            try db.execute(
                sql:
                    "INSERT INTO tidemark_zone (id, name, epoch, revision, horizon, adopted) VALUES (1, ?, ?, 0, 0, 0)",
                arguments: ["main", epoch.uuidString.lowercased()])
        }
    }

    /// Runs `body`, which also says whether the transaction has an effect.
    func transaction<Success: Sendable>(
        _ body: @escaping @Sendable (ModelZone) throws -> (Success, hasEffect: Bool)
    ) async throws -> Success {
        try await queue.writeWithoutTransaction { [self] db in
            try db.execute(sql: "BEGIN IMMEDIATE")
            do {
                let zone = ModelZone(db, content.withLock { $0 }, ways: ways, hash: hash)
                let outcome = try body(zone)
                try db.execute(sql: outcome.hasEffect ? "COMMIT" : "ROLLBACK")
                if outcome.hasEffect { content.withLock { $0 = zone.content } }
                return outcome.0
            } catch {
                if db.isInsideTransaction { try db.execute(sql: "ROLLBACK") }
                throw error
            }
        }
    }
}
