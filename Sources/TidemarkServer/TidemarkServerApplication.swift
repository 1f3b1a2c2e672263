internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import HummingbirdTLS
public import Logging
internal import NIOCore
internal import ServiceLifecycle
internal import Synchronization
@_exported public import TidemarkCore
public import TidemarkDashboard
@_exported public import TidemarkEngine
internal import UnixSignals

/// A ``TidemarkEngine/SyncService`` behind HTTP.
///
/// ```swift
/// let application = TidemarkServerApplication(service: service, port: 8080, logger: logger)
/// try await application.run { port in logger.notice("listening on port \(port)") }
/// ```
public struct TidemarkServerApplication: Sendable {
    /// How long a connection may be silent between or within requests.
    private static let idleTimeout = TimeAmount.seconds(30)
    /// How long a client may leave a piece of its answer unread.
    private static let stalledWriteTimeout = TimeAmount.seconds(60)
    /// How long an upload may take in total.
    private static let uploadDurationMax = Duration.seconds(300)
    /// How long requests in progress may continue after the server stops accepting connections.
    private static let shutdownDurationMax = Duration.seconds(30)
    /// How long the store may take to answer a check of `/readyz`.
    private static let storePatience = Duration.seconds(3)
    /// The most connections besides listeners; further ones wait in the system's queue.
    private static let syncsMax = 4_096
    private let service: any SyncService
    private let gate: any AccessGate
    private let rates: RequestRates?
    private let host: String
    private let port: Int
    private let tls: ServerTLS?
    private let proxies: ProxyPeers?
    private let browsers: BrowserPolicy
    private let pages: WebPages
    private let limits: Limits
    private let drain: Duration
    private let clock: any Clock<Duration>
    private let metrics: ServerMetrics
    private let exposition: @Sendable () -> String
    private let onHangUp: (@Sendable () async -> Void)?
    private let logger: Logger

    /// Creates a server that does not listen yet.
    ///
    /// - Parameters:
    ///   - service: The store that answers requests.
    ///   - gate: Decides who sends a request and what the sender may do; by default anybody may do
    ///     everything, which is right on loopback only.
    ///   - rates: The rates of requests and their limits; without it there are none.
    ///   - host: The address to listen on; only this machine can reach the default.
    ///   - port: The port to listen on; 0 for any free port.
    ///   - tls: The certificate for encrypted connections; without it, requests travel in the clear.
    ///   - proxies: The proxies that encrypt in front of the server, which then refuses every other
    ///     machine; without it, every machine may connect.
    ///   - browsers: The web pages that may send requests; by default only the server's own.
    ///   - pages: The dashboard and the small client for web pages.
    ///   - limits: The bounds on requests and answers, above all
    ///     ``TidemarkCore/Limits/requestBytesMax`` and ``TidemarkCore/Limits/inFlightBytesMax``.
    ///   - drain: How long the server still accepts requests after the signal to stop. Meanwhile
    ///     `/readyz` fails, so that load balancers send requests to other servers.
    ///   - clock: Measures the drain, the store's time for `/readyz`, and how long a request waits for a snapshot.
    ///   - metrics: Records every request.
    ///   - exposition: Returns the text of `GET /metrics`, in the text format of Prometheus.
    ///   - onHangUp: Called at each SIGHUP, which never stops the server.
    ///   - logger: Receives every request at level info, and every defect at level error.
    public init(
        service: any SyncService, gate: any AccessGate = LocalGate(), rates: RequestRates? = nil,
        host: String = "127.0.0.1", port: Int = 8080, tls: ServerTLS? = nil, proxies: ProxyPeers? = nil,
        browsers: BrowserPolicy = .standard, pages: WebPages = .embedded, limits: Limits = .standard,
        drain: Duration = .zero, clock: any Clock<Duration> = ContinuousClock(),
        metrics: ServerMetrics = ServerMetrics(), exposition: @escaping @Sendable () -> String = { "" },
        onHangUp: (@Sendable () async -> Void)? = nil, logger: Logger
    ) {
        self.service = service
        self.gate = gate
        self.rates = rates
        self.host = host
        self.port = port
        self.tls = tls
        self.proxies = proxies
        self.browsers = browsers
        self.pages = pages
        self.limits = limits
        self.logger = logger
        self.drain = drain
        self.clock = clock
        self.metrics = metrics
        self.exposition = exposition
        self.onHangUp = onHangUp
    }

    /// Serves until the task is cancelled or the process gets a signal, then lets requests finish.
    ///
    /// - Parameters:
    ///   - stopsOnSignals: Whether SIGINT and SIGTERM stop the server, and whether it reacts to
    ///     signals at all. The server logs the signal at level warning.
    ///   - onListening: Called once, with the port, when the server accepts connections.
    /// - Throws: ``TidemarkCore/TidemarkError`` if the server cannot listen on the address, or if the
    ///   largest request does not fit into the memory of the limits.
    public func run(
        stopsOnSignals: Bool = true, onListening: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) async throws {
        try InFlightMemory.check(limits)
        let room = ConnectionRoom.request(syncs: Self.syncsMax, listeners: limits.listenersMax)
        service.fanOut.admit(atMost: room.listeners)
        let readiness = Readiness()
        let accessWatch = AccessWatch(gate)
        let application = try application(
            router(readiness, accessWatch), connectionsMax: room.connections, onListening: onListening)
        let signals = await UnixSignalsSequence(trapping: stopsOnSignals ? [.sigint, .sigterm] : [])
        let hangUps = await UnixSignalsSequence(trapping: stopsOnSignals ? [.sighup] : [])
        var configuration = ServiceGroupConfiguration(
            // The last service stops first: connections of listeners close only after `bye`, and the last
            // requests are contacts to write.
            services: [
                ContactService(service: service, logger: logger), application,
                ListenerService(service: service, accessWatch: accessWatch, logger: logger),
            ],
            logger: logger)
        configuration.maximumGracefulShutdownDuration = Self.shutdownDurationMax
        let group = ServiceGroup(configuration: configuration)
        do {
            try await withGracefulShutdownHandler {
                try await withThrowingTaskGroup(of: Void.self) { tasks in
                    tasks.addTask { try await stop(group, on: signals, readiness) }
                    tasks.addTask { for await _ in hangUps { await hangUp() } }
                    try await group.run()
                    tasks.cancelAll()
                }
            } onGracefulShutdown: {
                readiness.stop()
            }
        } catch let error as IOError { throw cannotListen(String(cString: strerror(error.errnoCode))) } catch let error
            as SocketAddressError
        { throw cannotListen("\(error)") }
    }

    /// Waits for a signal, drains, then stops accepting connections.
    private func stop(_ group: ServiceGroup, on signals: UnixSignalsSequence, _ readiness: Readiness) async throws {
        for await signal in signals {
            readiness.stop()
            // At level warning, so that the reason is also in a log without details.
            logger.warning("stopping", metadata: ["signal": "\(signal)", "drain": "\(drain)"])
            if drain > .zero { try await clock.sleep(for: drain) }
            await group.triggerGracefulShutdown()
            return
        }
    }

    /// Reads again what can be read again.
    private func hangUp() async {
        guard let onHangUp else {
            logger.warning("SIGHUP: the server has no file to read again, and goes on")
            return
        }
        await onHangUp()
    }

    private func application(
        _ router: Router<ServerRequestContext>, connectionsMax: Int,
        onListening: @escaping @Sendable (_ port: Int) async -> Void
    ) throws -> some ApplicationProtocol {
        let plain = HTTPServerBuilder.http1(
            configuration: .init(
                additionalChannelHandlers: [
                    HostHeaderInstaller(), StalledWriteHandler(timeout: Self.stalledWriteTimeout), HangUpHandler(),
                    FlushBeforeCloseHandler(timeout: Self.stalledWriteTimeout),
                ],
                idleTimeout: Self.idleTimeout))
        return Application(
            responder: ShallowResponder(inner: router.buildResponder()),
            server: try tls.map { try .tls(plain, tlsConfiguration: $0.configuration) } ?? plain,
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port),
                availableConnectionsDelegate: .maximum(connectionsMax, logger: logger)),
            onServerRunning: { channel in await onListening(channel.localAddress?.port ?? port) }, logger: logger)
    }

    private func router(_ readiness: Readiness, _ accessWatch: AccessWatch) -> Router<ServerRequestContext> {
        let router = Router(context: ServerRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: RequestRecordMiddleware(metrics: metrics, readiness: readiness, isEncrypted: tls != nil))
        if let proxies { router.add(middleware: PeerMiddleware(proxies: proxies)) }
        router.add(middleware: BrowserMiddleware(policy: browsers, isLoopback: Loopback.contains(host)))
        if rates != nil, proxies == nil, Loopback.contains(host) { router.add(middleware: UnseenProxyMiddleware()) }
        router.add(middleware: ErrorMiddleware())
        routes(readiness, accessWatch).add(to: router)
        return router
    }

    func routes(_ readiness: Readiness, _ accessWatch: AccessWatch) -> RouteTable {
        RouteTable(
            service: service, gate: gate, rates: rates,
            bodyReader: BodyReader(bytesMax: limits.requestBytesMax, durationMax: Self.uploadDurationMax),
            memory: InFlightMemory(limits: limits, metrics: metrics), readiness: readiness,
            storeCheck: StoreCheck(service, patience: Self.storePatience, clock: clock),
            firstSnapshots: FirstSnapshots(service, clock: clock), accessWatch: accessWatch, pages: pages,
            exposition: exposition)
    }

    private func cannotListen(_ reason: String) -> TidemarkError {
        TidemarkError(
            .invalidArgument, "Cannot listen on \(host):\(port): \(reason).",
            fix: "Choose an address of this machine and a free port; port 0 takes any.")
    }
}

/// Runs a listener's middleware and route in a task of its own, to save memory.
///
/// A task keeps its stack memory until it ends, and a connection's task ends with the connection.
/// Middleware and router take some ten kilobytes, which an idle listener would hold. In a task of its
/// own, the memory is freed when the route returns the stream to write.
struct ShallowResponder<Inner: HTTPResponder>: HTTPResponder where Inner.Context == ServerRequestContext {
    let inner: Inner

    func respond(to request: Request, context: ServerRequestContext) async throws -> Response {
        guard EventsRoute.isEventsRequest(request) else {
            return try await inner.respond(to: request, context: context)
        }
        // Needs no cancellation, because it ends when the route returns. A child task would use the
        // stack memory of its parent.
        return try await Task { try await inner.respond(to: request, context: context) }.value
    }
}
