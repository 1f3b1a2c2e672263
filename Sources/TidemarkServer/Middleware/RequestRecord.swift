internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import Synchronization
internal import TidemarkCore
internal import TidemarkEngine

/// Records one request: a line in the log, and its numbers in the metrics.
///
/// The line has the route and the outcome, but neither bodies nor the query, which may hold secrets. If
/// the client disconnects before the answer's first byte, the record ends when it is released.
final class RequestRecord: Sendable {
    private let request: Request
    private let context: ServerRequestContext
    private let metrics: ServerMetrics
    private let start = ContinuousClock.now
    private let isOpen = Mutex(true)

    init(_ request: Request, context: ServerRequestContext, metrics: ServerMetrics) {
        self.request = request
        self.context = context
        self.metrics = metrics
        metrics.changeInFlight(by: 1)
    }

    deinit { end("client went away", status: nil, bytes: nil) }

    /// Ends the record with a status and the answer's bytes; later calls have no effect.
    func end(_ message: Logger.Message, status: HTTPResponse.Status?, bytes: Int?) {
        let isFirst = isOpen.withLock { isOpen in
            defer { isOpen = false }
            return isOpen
        }
        guard isFirst else { return }
        let duration = ContinuousClock.now - start
        let route = RouteTable.route(planted(PlantedBug.metricsByZone) ? request.uri.path : context.endpointPath)
        let status = status.map { "\($0.code)" } ?? "gone"
        let code = context.notes.code
        metrics.changeInFlight(by: -1)
        metrics.recordAnswer(route: route, status: status, in: duration)
        if let code { metrics.recordRefusal(code) }
        var metadata: Logger.Metadata = [
            "method": "\(request.method)", "route": "\(route)", "status": "\(status)",
            "milliseconds": "\(Int(duration / .milliseconds(1)))",
        ]
        let path = request.uri.path
        let zone = RouteTable.pathZone(in: path, of: route).map { Self.withoutTokens($0, charactersMax: Self.zoneMax) }
        let unknown = route == RouteTable.unknown ? Self.withoutTokens(path, charactersMax: Self.pathMax) : nil
        metadata["zone"] = zone.map { "\($0)" }
        metadata["path"] = unknown.map { "\($0)" }
        if context.logger.logLevel <= .info { metadata["client"] = otherMachine.map { "\($0)" } }
        metadata["received"] = request.headers[.contentLength].map { "\($0.prefix(20))" }
        metadata["bytes"] = bytes.map { "\($0)" }
        metadata["code"] = code.map { "\($0.rawValue)" }
        context.logger.info(message, metadata: metadata)
    }

    /// The address of the client; nil for this machine.
    private var otherMachine: String? { context.clientAddress.flatMap { Loopback.contains($0) ? nil : $0 } }

    /// Returns the beginning of a path, in which nothing has the form of a token.
    ///
    /// People paste tokens into addresses, and other programs read logs. Tokens are replaced before the path is cut. A
    /// segment that is a token in percent-encoding is replaced whole: decoded, it could have line breaks.
    private static func withoutTokens(_ path: some StringProtocol, charactersMax: Int) -> String {
        guard path.utf8.count >= tokenBytesMin else { return String(path) }
        let own = #/tm[a-z]_[0-9A-Za-z]+_?[0-9A-Za-z]*/#
        let providers = #/[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}(?:\.[0-9A-Za-z_-]*)?/#
        let read = String(path.prefix(readMax))
        let segments = read.split(separator: "/", omittingEmptySubsequences: false).map { segment in
            let text = segment.replacing(own, with: "TOKEN").replacing(providers, with: "TOKEN")
            guard segment.contains("%") else { return String(text) }
            let decoded = decoded(String(segment))
            return decoded.contains(own) || decoded.contains(providers) ? "TOKEN" : String(text)
        }
        return String(segments.joined(separator: "/").prefix(charactersMax))
    }

    /// Returns a text without percent-encoding, also if that was encoded once more.
    private static func decoded(_ text: String) -> String {
        var text = text
        for _ in 0..<encodingsMax {
            guard let plain = text.removingPercentEncoding, plain != text else { break }
            text = plain
        }
        return text
    }

    /// The most percent-encodings of each other that are undone.
    private static let encodingsMax = 4
    /// The fewest bytes of a token: the search costs more than the rest of a log line.
    private static let tokenBytesMin = 32
    /// The most characters of a path that are looked through.
    private static let readMax = 8_192
    /// The most characters of a path, and of a zone, in a log line.
    private static let pathMax = 200
    private static let zoneMax = 64
}

/// Records every request after the last byte of its answer; while the server stops, each answer closes its connection.
struct RequestRecordMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    let metrics: ServerMetrics
    let readiness: Readiness
    /// Whether the server encrypts its connections itself.
    let isEncrypted: Bool
    /// How long a browser then asks for nothing but `https`, in seconds.
    private static let strictSeconds = 31_536_000

    func handle(
        _ request: Request, context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        let record = RequestRecord(request, context: context, metrics: metrics)
        // If `next` throws, the client disconnected, and the record ends when it is released.
        var response = try await next(request, context)
        if response.body.contentLength != 0 {
            // An answer without content has nothing to guess at, and stays short.
            response.headers[.xContentTypeOptions] = "nosniff"
            if isEncrypted { response.headers[.strictTransportSecurity] = "max-age=\(Self.strictSeconds)" }
        }
        if readiness.isStopping { response.headers[.connection] = "close" }
        let status = response.status
        let body = response.body
        guard let length = body.contentLength, length > JSONAnswer.pieceBytesMax else {
            // The server sends the answer in one write.
            record.end("answered", status: status, bytes: body.contentLength ?? 0)
            return response
        }
        let eventLoop = context.channel.eventLoop
        response.body = ResponseBody(contentLength: length) { writer in
            do { try await body.write(PacedWriter(writer: writer, eventLoop: eventLoop)) } catch {
                record.end("cut off", status: status, bytes: nil)
                throw error
            }
            record.end("answered", status: status, bytes: length)
        }
        return response
    }
}

/// Turns the errors of routes into JSON answers.
struct ErrorMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    func handle(
        _ request: Request, context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        do { return try await next(request, context) } catch let error as ClientGone { throw error.cause } catch {
            return try await ErrorAnswer.response(to: error, request: request, context: context)
        }
    }
}
