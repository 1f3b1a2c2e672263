import Foundation
import TidemarkCore
import TidemarkPostgres
import TidemarkEmbedded
import TidemarkEngine

/// The measured store: a file, or a database that is filled from it.
struct BenchStore: Sendable {
    let service: any SyncService
    let close: @Sendable () async throws -> Void

    /// Opens the store.
    init(_ setting: BenchSetting, path: String, zones: [String] = ["main"], limits: Limits = .standard) async throws {
        guard let server = setting.postgres else {
            let store = try EmbeddedStore(path: path, newEpoch: RandomID.uuid(), limits: limits)
            service = store
            close = { try await store.close() }
            return
        }
        let database = try BenchDatabase(on: server)
        var options = PostgresStore.Options(address: database.address, newEpoch: RandomID.uuid())
        options.filePath = path
        options.zones = zones
        options.limits = limits
        let store = try await PostgresStore(options)
        service = store
        close = {
            await store.close()
            try database.drop()
        }
    }
}

/// A PostgreSQL database of a benchmark's own.
struct BenchDatabase: Sendable {
    let address: String
    private let server: String
    private let name: String

    /// Makes a database on a server.
    init(on server: String) throws {
        name = "bench_\(RandomID.text().replacing("-", with: ""))"
        self.server = server
        address = server.replacing(/\/[^\/]*$/, with: "/\(name)")
        try PostgresConnection(server).execute("CREATE DATABASE \(name)")
    }

    /// Removes it, with any connections.
    func drop() throws { try PostgresConnection(server).execute("DROP DATABASE \(name) WITH (FORCE)") }
}
