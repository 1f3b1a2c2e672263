import GRDB
import Tidemark
import TidemarkCore

/// A device's file, open, and its engine.
final class BenchDevice: Sendable {
    let path: String
    let database: DatabasePool
    let engine: SyncEngine
    private let transport: CountingTransport

    /// Opens a file that has joined.
    init(path: String, url: String) async throws {
        self.path = path
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        database = try DatabasePool(path: path, configuration: configuration)
        transport = CountingTransport(try HTTPTransport(url: url))
        engine = try await SyncEngine(database, server: url, transport: transport)
    }

    /// The number of its requests.
    var requests: Int { transport.requests }
    /// The number of files that it has received.
    var snapshots: Int { transport.snapshots }
    /// The last request of a round, before it is compressed.
    var lastBody: [UInt8] { transport.lastBody }

    /// The tag of its last conditional GET.
    var lastTag: ZoneTag? { transport.lastTag }

    /// Runs SQL as an app, in one transaction.
    func write(_ sql: String) async throws { try await database.write { try $0.execute(sql: sql) } }

    /// Closes the file.
    func close() throws { try database.close() }
}
