internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore

/// Notes the client's address, and refuses machines that go round the proxy, before the server reads a request's body.
struct PeerMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    let proxies: ProxyPeers
    /// The paths that show nothing, so that a supervisor may ask from anywhere.
    private static let openPaths = ["/healthz", "/readyz"]

    func handle(
        _ request: Request, context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        let peer = context.channel.remoteAddress?.ipAddress
        let forwardedFor = request.headers[values: .forwardedFor].last
        switch proxies.verdict(peer: peer, forwardedFor: forwardedFor) {
        case .client(let address):
            context.notes.forwardedClient = address
            return try await next(request, context)
        case .refuses(let address):
            guard !Self.openPaths.contains(request.uri.path) else { return try await next(request, context) }
            let refusal = Refusal(
                .notAllowed, "This server answers its proxy only, and \(address) is none.",
                fix: "Ask the proxy, by https://. If this is the proxy, serve with --behind-proxy and this address.")
            return try await ErrorAnswer.response(
                to: refusal.droppingBody(of: request), request: request, context: context)
        }
    }
}

extension HTTPField.Name { static let forwardedFor = customName("X-Forwarded-For") }
