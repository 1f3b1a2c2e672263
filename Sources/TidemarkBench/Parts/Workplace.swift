import Foundation
import GRDB
import Logging
import Tidemark
import TidemarkCore
import TidemarkHTTP
import TidemarkPostgresStore
import TidemarkSQLiteStore
import TidemarkServer
import TidemarkTestSupport

/// A folder with a server in it, over real HTTP, and the wire to it that counts.
final class Workplace: Sendable {
    /// The server's address, by way of the counting wire.
    let url: String
    /// The server's address without it.
    let directURL: String
    private let folder: URL
    private let relay: TCPRelay
    private let server: Task<Void, any Error>
    private let close: @Sendable () async throws -> Void

    /// Serves a table with so many rows.
    init(_ setting: BenchSetting, rows: Int, zones: [String] = ["main"]) async throws {
        folder = URL(filePath: setting.folder).appending(path: "tidemark-bench-\(RandomID.text())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appending(path: "zone.sqlite").path
        try Items.make(rows, at: path)
        let service: any SyncService
        if let address = setting.postgres {
            let store = try await PostgresStore(
                try Self.database(address, filledFrom: path, zones)
            )
            service = store
            close = { await store.close() }
        } else {
            let store = try EmbeddedStore(path: path, newEpoch: RandomID.uuid())
            service = store
            close = { try await store.close() }
        }
        let application = TidemarkServerApplication(
            service: service,
            port: 0,
            logger: Logger(label: "tidemark.bench") { _ in SwiftLogNoOpLogHandler() }
        )
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        server = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { listening.yield($0) }
        }
        var port = 0
        for await opened in ports {
            port = opened
            break
        }
        relay = TCPRelay(targetPort: port)
        directURL = "http://127.0.0.1:\(port)"
        url = "http://127.0.0.1:\(try await relay.start())"
    }

    /// Ends the server and removes the folder.
    func end() async throws {
        try await relay.stop()
        server.cancel()
        _ = await server.result
        try await close()
        try FileManager.default.removeItem(at: folder)
    }

    /// A path for a new file.
    func path(_ name: String = RandomID.text()) -> String {
        folder.appending(path: "\(name).sqlite").path
    }

    /// What has gone over the wire since the last call's result.
    func wire(since before: TCPRelay.Traffic, requests: Int) -> Sample.Wire {
        let now = relay.traffic
        return Sample.Wire(
            requests: requests,
            bytesUp: Int(now.bytesUp - before.bytesUp),
            bytesDown: Int(now.bytesDown - before.bytesDown)
        )
    }

    /// What has gone over the wire.
    var traffic: TCPRelay.Traffic { relay.traffic }

    /// Joins a device at a path.
    func join(at path: String, direct: Bool = true) async throws {
        let url = direct ? directURL : url
        _ = try await DeviceFileJoin(transport: HTTPTransport(url: url), server: url)
            .join(path: path)
    }

    /// A device on a file that has joined.
    func device(at path: String, direct: Bool = true) async throws -> BenchDevice {
        try await BenchDevice(path: path, url: direct ? directURL : url)
    }

    /// A copy of a file that nobody has open.
    func copy(of template: String) throws -> String {
        let path = path()
        try FileManager.default.copyItem(atPath: template, toPath: path)
        return path
    }

    private static func database(
        _ address: String,
        filledFrom path: String,
        _ zones: [String]
    ) throws -> PostgresStore.Options {
        let name = "bench_\(RandomID.text().replacing("-", with: ""))"
        try PostgresConnection(address).execute("CREATE DATABASE \(name)")
        var options = PostgresStore.Options(
            address: address.replacing(/\/[^\/]*$/, with: "/\(name)"),
            newEpoch: RandomID.uuid()
        )
        (options.filePath, options.zones) = (path, zones)
        return options
    }
}

/// A device's file, open, and its engine.
final class BenchDevice: Sendable {
    let database: DatabasePool
    let engine: SyncEngine
    private let transport: CountingTransport

    init(path: String, url: String) async throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        database = try DatabasePool(path: path, configuration: configuration)
        transport = CountingTransport(try HTTPTransport(url: url))
        engine = try await SyncEngine(database, server: url, transport: transport)
    }

    /// How many requests it has made.
    var requests: Int { transport.requests }

    /// Closes the file.
    func close() throws { try database.close() }
}
