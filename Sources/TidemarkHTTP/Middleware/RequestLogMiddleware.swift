internal import HTTPTypes
internal import Hummingbird
internal import Logging

/// Logs one line a request: method, path, status, bytes of the answer, milliseconds until it was
/// out.
///
/// The query is left out: some day it may hold a secret.
struct RequestLogMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    func handle(
        _ request: Request,
        context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        let line = Line(request: request, logger: context.logger)
        var response: Response
        do {
            response = try await next(request, context)
        } catch {
            line.log("client went away")
            throw error
        }
        let status = response.status.code
        let body = response.body
        guard let length = body.contentLength, length > JSONAnswer.pieceBytesMax else {
            // It goes out in one write.
            line.log("\(status) \(body.contentLength ?? 0) B")
            return response
        }
        response.body = ResponseBody(contentLength: length) { writer in
            do {
                try await body.write(writer)
            } catch {
                line.log("\(status) cut off")
                throw error
            }
            line.log("\(status) \(length) B")
        }
        return response
    }

    private struct Line: Sendable {
        let method: HTTPRequest.Method
        let path: String
        let logger: Logger
        let start = ContinuousClock.now

        init(request: Request, logger: Logger) {
            (method, path, self.logger) = (request.method, request.uri.path, logger)
        }

        func log(_ outcome: String) {
            let milliseconds = (ContinuousClock.now - start) / .milliseconds(1)
            logger.info("\(method) \(path) \(outcome) \(Int(milliseconds)) ms")
        }
    }
}
