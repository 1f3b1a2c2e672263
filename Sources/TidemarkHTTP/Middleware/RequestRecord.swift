internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Synchronization
internal import TidemarkCore
internal import TidemarkServer

/// What became of one request: one line in the log and its numbers in the metrics.
///
/// The line says who asked for what and how it went, never what was in the bodies, nor the query:
/// some day it may hold a secret. When nobody tells the end, because the client was gone before
/// the answer's first byte, that is the end.
final class RequestRecord: Sendable {
    private let request: Request
    private let context: ServerRequestContext
    private let metrics: ServerMetrics
    private let start = ContinuousClock.now
    private let isOpen = Mutex(true)

    init(_ request: Request, _ context: ServerRequestContext, _ metrics: ServerMetrics) {
        self.request = request
        self.context = context
        self.metrics = metrics
        metrics.inFlight(changedBy: 1)
    }

    deinit { end("client went away", status: nil, bytes: nil) }

    /// Notes the end: with which status, and after how many bytes of answer.
    func end(_ message: Logger.Message, status: HTTPResponse.Status?, bytes: Int?) {
        let isFirst = isOpen.withLock { isOpen in
            defer { isOpen = false }
            return isOpen
        }
        guard isFirst else { return }
        let duration = ContinuousClock.now - start
        let route = RouteTable.route(context.endpointPath)
        let status = status.map { "\($0.code)" } ?? "gone"
        let code = context.notes.code
        metrics.inFlight(changedBy: -1)
        metrics.answered(route: route, status: status, in: duration)
        if let code { metrics.refused(code) }
        var metadata: Logger.Metadata = [
            "method": "\(request.method)", "route": "\(route)", "status": "\(status)",
            "milliseconds": "\(Int(duration / .milliseconds(1)))",
        ]
        metadata["zone"] = RouteTable.zone(in: request.uri.path, of: route).map { "\($0)" }
        metadata["path"] = route == RouteTable.unknown ? "\(request.uri.path.prefix(Self.pathMax))" : nil
        metadata["received"] = request.headers[.contentLength].map { "\($0.prefix(20))" }
        metadata["bytes"] = bytes.map { "\($0)" }
        metadata["code"] = code.map { "\($0.rawValue)" }
        context.logger.info(message, metadata: metadata)
    }

    /// The most characters of a path that a line has.
    private static let pathMax = 200
}
