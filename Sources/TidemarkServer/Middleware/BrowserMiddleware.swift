internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore

/// Applies the browser policy on every path, before the server reads a request's body.
struct BrowserMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    let policy: BrowserPolicy
    /// Whether the server listens on loopback only.
    let isLoopback: Bool

    func handle(
        _ request: Request,
        context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        let headers = BrowserPolicy.Headers(
            host: request.head.authority,
            origin: request.headers[.origin],
            fetchSite: request.headers[.fetchSite]
        )
        let verdict = policy.verdict(on: headers, isLoopback: isLoopback)
        guard var refusal = refusal(verdict) else {
            let crossOrigin = verdict.allowedOrigin.map { CrossOrigin(origin: $0) }
            if let crossOrigin, CrossOrigin.isPreflight(request) { return crossOrigin.permission }
            var response = try await next(request, context)
            crossOrigin?.permit(&response)
            if policy.allowsOrigins { CrossOrigin.vary(&response) }
            return response
        }
        refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
        return try await ErrorAnswer.response(to: refusal, request: request, context: context)
    }

    /// Returns the refusal for a verdict; nil if the request passes.
    private func refusal(_ verdict: BrowserPolicy.Verdict) -> Refusal? {
        switch verdict {
        case .passes, .isAllowed: nil
        case .refusesHost(let host):
            Refusal(
                .originRefused,
                "This server does not answer to the name \(host.prefix(Self.headerCharactersMax)).",
                fix:
                    """
                    Ask for localhost or 127.0.0.1. If a proxy in front of the server passes its own name on, serve \
                    with --host and that name.
                    """
            )
        case .refusesOrigin(let origin):
            Refusal(
                .originRefused,
                "This server does not answer web pages of \(origin.prefix(Self.headerCharactersMax)).",
                fix: "If these pages may read and write here, serve with --allow-origin and that origin."
            )
        case .refusesSite:
            Refusal(
                .originRefused,
                "This server does not answer web pages of other sites.",
                fix:
                    """
                    Open the address itself, not by a link of another page. If a page may read and write here, serve \
                    with --allow-origin and its origin.
                    """
            )
        }
    }

    /// The most characters of a header that an error message repeats.
    private static let headerCharactersMax = 200
}

extension HTTPField.Name { fileprivate static let fetchSite = customName("Sec-Fetch-Site") }
