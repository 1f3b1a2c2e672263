internal import Hummingbird

/// Turns the errors of routes into JSON answers.
struct ErrorMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    func handle(
        _ request: Request,
        context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        do { return try await next(request, context) } catch let error as ClientGone { throw error.cause } catch {
            return try await ErrorAnswer.response(to: error, request: request, context: context)
        }
    }
}
