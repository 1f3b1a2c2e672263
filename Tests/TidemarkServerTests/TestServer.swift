import AsyncHTTPClient
import Foundation
import HTTPTypes
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import TidemarkCore
import TidemarkDashboard
import TidemarkServer
import TidemarkEngine

/// A real server on a real socket, for the length of one test.
struct TestServer: Sendable {
    let port: Int
    let log: LogLines

    var url: String { "http://127.0.0.1:\(port)" }

    /// Runs `body` against a server, and stops the server afterwards.
    static func run(
        _ service: any SyncService, gate: any AccessGate = LocalGate(), rates: RequestRates? = nil,
        browsers: BrowserPolicy = .standard, pages: WebPages = .embedded, limits: Limits = .standard,
        drain: Duration = .zero, clock: any Clock<Duration> = ContinuousClock(),
        registry: PrometheusRegistry = PrometheusRegistry(), logLevel: Logger.Level = .info,
        body: @Sendable (TestServer) async throws -> Void
    ) async throws {
        let log = LogLines()
        var logger = log.logger
        logger.logLevel = logLevel
        let application = TidemarkServerApplication(
            service: service, gate: gate, rates: rates, port: 0, browsers: browsers, pages: pages, limits: limits,
            drain: drain, clock: clock, metrics: ServerMetrics(factory: registry), exposition: registry.text,
            logger: logger)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let running = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { port in listening.yield(port) }
        }
        do {
            for await port in ports {
                try await body(TestServer(port: port, log: log))
                break
            }
        } catch {
            running.cancel()
            _ = await running.result
            throw error
        }
        running.cancel()
        _ = await running.result
    }

    /// Sends one request exactly as the test wrote it.
    func send(_ method: HTTPMethod, _ path: String, headers: HTTPHeaders = [:], body: HTTPClientRequest.Body? = nil)
        async throws -> Answer
    {
        var request = HTTPClientRequest(url: url + path)
        request.method = method
        request.headers = headers
        request.body = body
        let response = try await plainClient.execute(request, timeout: .minutes(10))
        let content = try await response.body.collect(upTo: 256 << 20)
        return Answer(
            status: Int(response.status.code), headers: response.headers, body: Array(content.readableBytesView))
    }

    /// An answer, still compressed if it arrived so.
    struct Answer {
        let status: Int
        let headers: HTTPHeaders
        let body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }
        /// The error in the body, in either rendering.
        var error: TidemarkError {
            get throws {
                guard headers["Content-Type"] == ["application/problem+json"] else {
                    return try JSONDecoder().decode(WireError.self, from: Data(body)).tidemarkError
                }
                let problem = try JSONDecoder().decode(ProblemBody.self, from: Data(body))
                return TidemarkError(ErrorCode(rawValue: problem.code), problem.title, fix: problem.detail)
            }
        }

        private struct ProblemBody: Decodable {
            let code: String
            let title: String
            let detail: String
        }
    }
}

/// A client that neither compresses nor decompresses on its own.
private let plainClient = HTTPClient(
    eventLoopGroup: HTTPClient.defaultEventLoopGroup,
    configuration: .init(
        redirectConfiguration: .disallow,
        connectionPool: .init(idleTimeout: .seconds(60), concurrentHTTP1ConnectionsPerHostSoftLimit: 100)))

/// A server's log.
struct LogLines: Sendable {
    private let lines = NIOLockedValueBox<[String]>([])
    private let events = AsyncStream.makeStream(of: String.self)

    /// All lines so far, each with its level first.
    var all: [String] { lines.withLockedValue { $0 } }

    /// Waits for a line that contains `text`.
    func first(containing text: String) async -> String? { await events.stream.first { $0.contains(text) } }

    /// The logger that writes here.
    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    private struct Handler: LogHandler {
        let log: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let metadata = self.metadata.merging(event.metadata ?? [:]) { $1 }.filter { $0.key != "hb.request.id" }
                .sorted { $0.key < $1.key }.map { " \($0)=\($1)" }.joined()
            let line = "\(event.level): \(event.message)\(metadata)"
            log.lines.withLockedValue { $0.append(line) }
            log.events.continuation.yield(line)
        }
    }
}
