import Foundation
import GRDB
package import TidemarkCore
import TidemarkEmbedded
package import TidemarkEngine
import TidemarkPostgres

/// A server's store with users and zones, of either kind, and a clock of the test.
package final class ZonePlace: Sendable {
    /// The store.
    package let service: any SyncService
    /// The users, zones and rights.
    package let database: any AccessDatabase
    /// Makes and shares zones.
    package let registry: ZoneRegistry
    /// The time, in milliseconds since 1970.
    package let clock: TestClock
    private let folder: URL
    /// The store, as it makes zones.
    package let host: any ZoneHost

    /// Creates a store whose zones have the tables of `sql`.
    package init(_ kind: Store, _ sql: String, policies: [String: ConflictPolicy] = [:], limits: Limits = .standard)
        async throws
    {
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let clock = TestClock()
        self.clock = clock
        switch kind {
        case .embedded:
            let main = try EmbeddedStore(
                path: folder.appending(path: "main.sqlite").path, schemaSQL: sql, newEpoch: UUID(), policies: policies,
                limits: limits)
            let directory = ZoneDirectory(main: main, folder: folder.appending(path: "zones"), limits: limits)
            service = directory
            host = directory
            database = try AccessFile(path: folder.appending(path: "access.sqlite").path)
        case .postgres:
            let testDatabase = try await TestDatabase()
            var options = PostgresStore.Options(address: testDatabase.address, newEpoch: UUID())
            options.schemaSQL = sql
            options.folder = folder.path
            options.connectionsMax = 3
            options.policies = policies
            options.limits = limits
            let store = try await PostgresStore(options)
            service = store
            host = store
            database = try await AccessTransactions(address: testDatabase.address)
        }
        registry = ZoneRegistry(database, host: host, now: { clock.now })
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// Adds a user.
    package func add(_ user: String) async throws {
        let now = clock.now
        try await database.transaction { try Members($0, now: now).add(user) }
    }

    /// Restores a deleted zone, as the operator's command does.
    package func restore(_ zone: String) async throws -> ZoneLife? {
        let now = clock.now
        return try await database.transaction { statements in
            let zones = Zones(statements, now: now)
            return try zones.zone(zone).flatMap { try zones.record(.restored, of: $0) }
        }
    }

    /// The access of a user to a zone, as the gate decides it; nil for none.
    package func access(_ user: String, to zone: String) async throws -> ZoneAccess? {
        let now = clock.now
        let standing = try await database.transaction { try Members($0, now: now).standing(of: user, in: zone) }
        guard case .member(let role) = standing else { return nil }
        return ZoneAccess(zone: zone, caller: .user(.init(id: user)), role: role)
    }
}
