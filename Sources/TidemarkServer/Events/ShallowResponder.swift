internal import Hummingbird

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
