import Logging
import TidemarkServer

/// A server of the benchmark's own process, on a port of its own.
final class BenchServer: Sendable {
    /// The port on which it listens.
    let port: Int
    private let running: Task<Void, any Error>

    /// Serves a store; by default each request acts as the owner.
    init(_ service: any SyncService, gate: any AccessGate = LocalGate(), rates: RequestRates? = nil) async throws {
        let application = TidemarkServerApplication(
            service: service, gate: gate, rates: rates, port: 0,
            logger: Logger(label: "tidemark.bench") { _ in SwiftLogNoOpLogHandler() })
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        running = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { listening.yield($0) }
        }
        var port = 0
        for await opened in ports {
            port = opened
            break
        }
        self.port = port
    }

    /// The server's address.
    var url: String { "http://127.0.0.1:\(port)" }

    /// Ends the server.
    func end() async {
        running.cancel()
        _ = await running.result
    }
}
