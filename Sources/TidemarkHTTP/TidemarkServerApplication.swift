internal import Foundation
internal import Hummingbird
public import Logging
internal import NIOCore
internal import ServiceLifecycle
public import TidemarkCore
public import TidemarkServer
internal import UnixSignals

/// A ``TidemarkServer/SyncService`` behind HTTP.
///
/// ```swift
/// let application = TidemarkServerApplication(service: service, port: 8080, logger: logger)
/// try await application.run { port in logger.notice("listening on port \(port)") }
/// ```
public struct TidemarkServerApplication: Sendable {
    /// How long a connection may be silent between requests, or in the middle of one.
    private static let idleTimeout = TimeAmount.seconds(30)
    /// How long a client may leave a piece of its answer unread.
    private static let stalledWriteTimeout = TimeAmount.seconds(60)
    /// How long an upload may take in all.
    private static let uploadDurationMax = Duration.seconds(300)
    /// How long requests in progress may go on after the signal to stop.
    private static let shutdownDurationMax = Duration.seconds(10)
    /// The connections served at a time besides those of listeners; more wait in the system's
    /// queue.
    private static let syncsMax = 4_096

    private let service: any SyncService
    private let host: String
    private let port: Int
    private let limits: Limits
    private let logger: Logger

    /// Makes a server that does not listen yet.
    ///
    /// - Parameters:
    ///   - service: What answers.
    ///   - host: The address to listen on; only this machine can reach the default.
    ///   - port: The port to listen on; 0 takes any that is free.
    ///   - limits: What the server takes, above all ``TidemarkCore/Limits/requestBytesMax``.
    ///   - logger: Told every request at level info, and every defect at level error.
    public init(
        service: any SyncService,
        host: String = "127.0.0.1",
        port: Int = 8080,
        limits: Limits = .standard,
        logger: Logger
    ) {
        (self.service, self.host, self.port) = (service, host, port)
        (self.limits, self.logger) = (limits, logger)
    }

    /// Serves until the task is cancelled or the process is told to stop, then lets requests
    /// finish.
    ///
    /// - Parameters:
    ///   - stopsOnSignals: Whether SIGINT and SIGTERM end it.
    ///   - onListening: Called once, with the port, when connections are taken.
    /// - Throws: ``TidemarkCore/TidemarkError`` when it cannot listen there.
    public func run(
        stopsOnSignals: Bool = true,
        onListening: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) async throws {
        let room = ConnectionRoom.granted(syncs: Self.syncsMax, listeners: limits.listenersMax)
        service.fanOut.admit(atMost: room.listeners)
        let application = application(connectionsMax: room.connections, onListening: onListening)
        var configuration = ServiceGroupConfiguration(
            // The last one stops first: listeners have to go before their connections can end.
            services: [application, ListenerService(service, logger)],
            gracefulShutdownSignals: stopsOnSignals ? [.sigint, .sigterm] : [],
            logger: logger
        )
        configuration.maximumGracefulShutdownDuration = Self.shutdownDurationMax
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch let error as IOError {
            throw cannotListen(String(cString: strerror(error.errnoCode)))
        } catch let error as SocketAddressError {
            throw cannotListen("\(error)")
        }
    }

    private func application(
        connectionsMax: Int,
        onListening: @escaping @Sendable (_ port: Int) async -> Void
    ) -> some ApplicationProtocol {
        let router = Router(
            context: ServerRequestContext.self,
            options: .autoGenerateHeadEndpoints
        )
        router.add(middleware: RequestLogMiddleware())
        router.add(middleware: ErrorMiddleware())
        let bodyReader = BodyReader(
            bytesMax: limits.requestBytesMax,
            durationMax: Self.uploadDurationMax
        )
        RouteTable(service: service, bodyReader: bodyReader).add(to: router)
        return Application(
            router: router,
            server: .http1(
                configuration: .init(
                    additionalChannelHandlers: [
                        StalledWriteHandler(timeout: Self.stalledWriteTimeout),
                        HangUpHandler(),
                    ],
                    idleTimeout: Self.idleTimeout
                )
            ),
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port),
                serverName: "tidemark",
                availableConnectionsDelegate: .maximum(connectionsMax, logger: logger)
            ),
            onServerRunning: { channel in await onListening(channel.localAddress?.port ?? port) },
            logger: logger
        )
    }

    private func cannotListen(_ reason: String) -> TidemarkError {
        TidemarkError(
            .invalidArgument,
            "Cannot listen on \(host):\(port): \(reason).",
            fix: "Choose an address of this machine and a free port; port 0 takes any."
        )
    }
}
