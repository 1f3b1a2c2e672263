import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkServer
import TidemarkTestSupport

/// A folder with a server in it, over real HTTP, and the counting relay to it.
final class Workplace: Sendable {
    /// The contents of the zone, and the options of its server.
    struct Zone: Sendable {
        /// The number of rows of the large table.
        var rows = 0
        /// Statements that make more tables.
        var sql = ""
        /// The number of revisions after the first.
        var history = 0
        var names = ["main"]
        /// The time of a way to the server and back.
        var roundTrip = Duration.zero
        /// The server's bounds.
        var limits = Limits.standard
    }

    /// The counting relay, which also makes faults.
    let relay: TCPRelay
    private let countedURL: String
    private let directURL: String
    private let folder: BenchFolder
    private let server: BenchServer
    private let store: BenchStore

    /// Serves a zone.
    init(_ setting: BenchSetting, _ zone: Zone) async throws {
        folder = try BenchFolder(in: setting.folder)
        let path = folder.path("zone")
        try Items.make(zone.rows, at: path, more: zone.sql)
        store = try await BenchStore(setting, path: path, zones: zone.names, limits: zone.limits)
        server = try await BenchServer(store.service)
        let port = server.port
        relay = TCPRelay(targetPort: port, roundTrip: zone.roundTrip)
        directURL = "http://127.0.0.1:\(port)"
        countedURL = "http://127.0.0.1:\(try await relay.start())"
        try await ZoneHistory(url: directURL, rows: zone.rows).add(zone.history)
    }

    /// Serves a table with a number of rows.
    convenience init(_ setting: BenchSetting, rows: Int) async throws { try await self.init(setting, Zone(rows: rows)) }

    /// Ends the server.
    func end() async throws {
        try await relay.stop()
        await server.end()
        try await store.close()
    }

    /// Serves the same zone on a further port, to users who sign in.
    func server(gate: any AccessGate, rates: RequestRates) async throws -> BenchServer {
        try await BenchServer(store.service, gate: gate, rates: rates)
    }

    /// A path for a new file.
    func path() -> String { folder.path() }

    /// Copies a file that no process has open.
    func copy(of template: String) throws -> String { try folder.copy(of: template) }

    // MARK: Devices

    /// The server's address.
    func url(_ way: BenchJob.Way = .direct) -> String { way == .direct ? directURL : countedURL }

    /// A transport that counts requests.
    func transport(_ way: BenchJob.Way = .direct) throws -> CountingTransport {
        CountingTransport(try HTTPTransport(url: url(way)))
    }

    /// Joins a device, and returns the path of its file.
    @discardableResult func join(at path: String? = nil, over transport: CountingTransport? = nil) async throws
        -> String
    {
        let path = path ?? self.path()
        let transport = try transport ?? self.transport()
        _ = try await DeviceFileJoin(transport: transport, server: directURL).join(path: path)
        return path
    }

    /// A device on a file that has joined.
    func device(at path: String, _ way: BenchJob.Way = .direct) async throws -> BenchDevice {
        try await BenchDevice(path: path, url: url(way))
    }

    // MARK: Results

    /// Runs a job, and adds its traffic over the counting relay to its sample.
    func counting(_ requests: () -> Int = { 0 }, _ work: () async throws -> Sample) async throws -> Sample {
        let before = relay.traffic
        let requestsBefore = requests()
        var sample = try await work()
        let count = requests() - requestsBefore
        sample.wire = Sample.Wire(requests: count, from: before, to: relay.traffic)
        return sample
    }

    /// The content of a zone at the server.
    func digest(of zone: String = "main") async throws -> ZoneDigest { try await transport().digest(zone: zone) }

    /// Requires that a device's file holds the server's rows.
    func check(_ path: String) async throws { try Agreement.require(path, holds: try await digest()) }
}
