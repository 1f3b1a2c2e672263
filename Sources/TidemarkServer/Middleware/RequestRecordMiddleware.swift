internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import TidemarkEngine

/// Records every request, in the log and the metrics, after the last byte of its answer.
///
/// While the server stops, each answer closes its connection, so that the client's next request can
/// reach another server.
struct RequestRecordMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    let metrics: ServerMetrics
    let readiness: Readiness
    /// Whether the server encrypts its connections itself.
    let isEncrypted: Bool

    /// How long a browser then asks for nothing but `https`, in seconds.
    private static let strictSeconds = 31_536_000

    func handle(
        _ request: Request,
        context: ServerRequestContext,
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
            do { try await body.write(PacedWriter(writer, on: eventLoop)) } catch {
                record.end("cut off", status: status, bytes: nil)
                throw error
            }
            record.end("answered", status: status, bytes: length)
        }
        return response
    }
}
