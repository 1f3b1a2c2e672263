internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import TidemarkServer

/// Records every request, in the log and in the metrics, when the last byte of its answer is out.
///
/// While the server stops, each answer asks its client to come back on another connection, which
/// another server may get.
struct RequestRecordMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    let metrics: ServerMetrics
    let readiness: Readiness

    func handle(
        _ request: Request,
        context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        let record = RequestRecord(request, context, metrics)
        // When `next` throws, the client is gone, and the record ends here.
        var response = try await next(request, context)
        if readiness.isStopping { response.headers[.connection] = "close" }
        let status = response.status
        let body = response.body
        guard let length = body.contentLength, length > JSONAnswer.pieceBytesMax else {
            // It goes out in one write.
            record.end("answered", status: status, bytes: body.contentLength ?? 0)
            return response
        }
        response.body = ResponseBody(contentLength: length) { writer in
            do { try await body.write(writer) } catch {
                record.end("cut off", status: status, bytes: nil)
                throw error
            }
            record.end("answered", status: status, bytes: length)
        }
        return response
    }
}
