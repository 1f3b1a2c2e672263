internal import CoreMetrics
internal import Logging
internal import Synchronization
internal import TidemarkEngine
internal import TidemarkServer
internal import TidemarkTestSupport

/// A stage behind the server's real routes, over HTTP in this process.
struct ServedStage: Sendable {
    let bench: AccessBench
    let port: Int
    let log: SecrecyLog

    /// Serves a stage, and runs `body` meanwhile.
    static func run<Success: Sendable>(
        _ stage: SecrecyStage, random: SecrecyRandom, body: (ServedStage) async throws -> Success
    ) async throws -> Success {
        let bench = AccessBench(stage.database, host: stage.host, random: { random.secrets() })
        let log = SecrecyLog()
        let registry = PrometheusRegistry()
        let application = TidemarkServerApplication(
            service: stage.service, gate: bench.gate, port: 0, limits: SecrecyStage.limits,
            metrics: ServerMetrics(factory: registry), exposition: registry.text, logger: log.logger)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let running = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { listening.yield($0) }
        }
        let result: Result<Success, any Error>
        do {
            var iterator = ports.makeAsyncIterator()
            guard let port = await iterator.next() else { throw CancellationError() }
            result = .success(try await body(ServedStage(bench: bench, port: port, log: log)))
        } catch { result = .failure(error) }
        running.cancel()
        _ = await running.result
        return try result.get()
    }
}

/// The lines of the server's log, which a campaign takes and searches.
final class SecrecyLog: Sendable {
    private let lines = Mutex<[String]>([])

    /// Returns the lines since the last call, as bytes.
    func take() -> [UInt8] {
        lines.withLock { lines in
            defer { lines = [] }
            return Array(lines.joined(separator: "\n").utf8)
        }
    }

    /// The logger that writes here, at every level.
    var logger: Logger { Logger(label: "secrecy") { _ in Handler(log: self) } }

    private struct Handler: LogHandler {
        let log: SecrecyLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.debug

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let metadata = metadata.merging(event.metadata ?? [:]) { $1 }
            let values = metadata.map { " \($0.key)=\($0.value)" }.sorted().joined()
            log.lines.withLock { $0.append("\(event.level): \(event.message)\(values)") }
        }
    }
}
