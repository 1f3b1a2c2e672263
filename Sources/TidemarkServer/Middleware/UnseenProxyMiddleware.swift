internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Synchronization
internal import TidemarkCore

/// Warns once if a server with limits answers an unknown proxy, as the bad tokens of one client keep the others out.
struct UnseenProxyMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    private final class Warning: Sendable {
        private let isGiven = Mutex(false)

        /// Returns true at the first call.
        func give() -> Bool {
            isGiven.withLock { isGiven in
                defer { isGiven = true }
                return !isGiven
            }
        }
    }

    private let warning = Warning()

    func handle(
        _ request: Request, context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        if Self.isProxied(request), warning.give() {
            context.logger.warning(
                """
                a proxy passes requests on, and all its clients count as one address: have it set X-Forwarded-For, \
                and serve with --behind-proxy and the proxy's address, such as 127.0.0.1 (Docs/PROXY.md)
                """)
        }
        return try await next(request, context)
    }

    /// Whether a request to a server on loopback comes through a proxy.
    private static func isProxied(_ request: Request) -> Bool {
        if request.headers[.forwardedFor] != nil || request.headers[.via] != nil { return true }
        return request.head.authority.flatMap { Authority($0) }.map { !Loopback.contains($0.host) } ?? false
    }
}
