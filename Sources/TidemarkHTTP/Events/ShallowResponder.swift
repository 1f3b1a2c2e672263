internal import Hummingbird

/// Finds a listener's route in a task of its own.
///
/// A task keeps what its stack has ever taken until it ends, and a connection's task ends with the
/// connection. On its way through middleware and router to the route a request takes some ten
/// kilobytes, which a listener would hold for as long as it stays and does nothing. In a task of
/// its own they go when the route has been found and has answered with a stream to write.
struct ShallowResponder<Inner: HTTPResponder>: HTTPResponder where Inner.Context == ServerRequestContext {
    let inner: Inner

    func respond(to request: Request, context: ServerRequestContext) async throws -> Response {
        guard EventsRoute.isAsked(by: request) else { return try await inner.respond(to: request, context: context) }
        // Nobody has to cancel it: it ends when the route is found. A child task would lie on the
        // stack of its parent.
        return try await Task { try await inner.respond(to: request, context: context) }.value
    }
}
