internal import HTTPTypes
internal import Hummingbird
public import TidemarkCore

/// Decides which web pages may send requests.
///
/// A browser sends a page's requests to any server, even to a loopback server on the user's machine.
/// It hides the answer from the page, but the request can still write. So the server refuses requests
/// from pages of other origins before it reads their bodies. Devices, curl and other programs send
/// neither `Origin` nor `Sec-Fetch-Site`, so the policy does not affect them.
///
/// On loopback, the server also refuses other host names. Otherwise a page whose own name resolves to
/// 127.0.0.1 (DNS rebinding) would count as the same origin.
public struct BrowserPolicy: Hashable, Sendable {
    /// Allows the server's own pages only, and on loopback only `localhost` and its addresses.
    public static let standard = BrowserPolicy(origins: [], hosts: [])
    private let origins: Set<WebOrigin>
    private let hosts: Set<String>

    /// Creates a policy.
    ///
    /// - Parameters:
    ///   - allowedOrigins: Origins whose pages may read and write, such as `https://app.example`.
    ///   - hosts: Host names that the server accepts besides loopback names, on any port, for instance
    ///     names that a proxy passes on. If there are any, the server accepts no other name, wherever
    ///     it listens.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for `*` and for invalid origins or hosts.
    public init(allowedOrigins: [String], hosts: [String] = []) throws(TidemarkError) {
        var origins: Set<WebOrigin> = []
        for text in allowedOrigins {
            guard let origin = WebOrigin(text) else {
                throw TidemarkError(
                    .invalidArgument, "\(text) is no origin of web pages.",
                    fix: "Write scheme, host and perhaps a port, each origin by itself: https://app.example.")
            }
            origins.insert(origin)
        }
        var names: Set<String> = []
        for text in hosts {
            guard let authority = Authority(text), authority.port == nil else {
                throw TidemarkError(
                    .invalidArgument, "\(text) is no name of a server.",
                    fix: "Write a host without a port: sync.example.org.")
            }
            names.insert(authority.host)
        }
        self.init(origins: origins, hosts: names)
    }

    private init(origins: Set<WebOrigin>, hosts: Set<String>) {
        self.origins = origins
        self.hosts = hosts
    }

    /// Whether pages of any other origin may read answers.
    var allowsOrigins: Bool { !origins.isEmpty }
}

extension BrowserPolicy {
    struct Headers: Hashable, Sendable {
        var host: String?
        var origin: String?
        var fetchSite: String?
    }

    enum Verdict: Hashable, Sendable {
        /// The request does not come from a page of another origin.
        case passes
        /// The request comes from a page of an allowed origin, which may read the answer.
        case isAllowed(origin: String)
        /// The server does not accept the name in `Host`.
        case refusesHost(String)
        /// The request comes from a page of another origin.
        case refusesOrigin(String)
        /// The request comes from a page of another, unnamed site.
        case refusesSite(String)

        /// The other origin whose page may read the answer; nil if there is none.
        var allowedOrigin: String? { if case .isAllowed(let origin) = self { origin } else { nil } }
    }

    /// The values of `Sec-Fetch-Site` that no page of another origin can cause.
    private static let ownSites = ["same-origin", "none"]

    func verdict(on headers: Headers, isLoopback: Bool) -> Verdict {
        let server = headers.host.flatMap { Authority($0) }
        // Every browser sends `Host`; a health check over HTTP/1.0 may not.
        if let host = headers.host, isLoopback || !hosts.isEmpty {
            guard let server, Loopback.contains(server.host) || hosts.contains(server.host) else {
                return .refusesHost(host)
            }
        }
        if let text = headers.origin {
            let origin = WebOrigin(text)
            if let origin, origins.contains(origin) { return .isAllowed(origin: text) }
            guard let origin, let server, origin.isOwn(of: server) else { return .refusesOrigin(text) }
        }
        guard let site = headers.fetchSite, !Self.ownSites.contains(site) else { return .passes }
        return .refusesSite(site)
    }
}

/// Applies the browser policy on every path, before the server reads a request's body.
struct BrowserMiddleware: RouterMiddleware {
    typealias Context = ServerRequestContext

    let policy: BrowserPolicy
    /// Whether the server listens on loopback only.
    let isLoopback: Bool

    func handle(
        _ request: Request, context: ServerRequestContext,
        next: @concurrent (Request, ServerRequestContext) async throws -> Response
    ) async throws -> Response {
        let headers = BrowserPolicy.Headers(
            host: request.head.authority, origin: request.headers[.origin], fetchSite: request.headers[.fetchSite])
        let verdict = policy.verdict(on: headers, isLoopback: isLoopback)
        guard let refusal = refusal(verdict) else {
            let crossOrigin = verdict.allowedOrigin.map { CrossOrigin(origin: $0) }
            if let crossOrigin, CrossOrigin.isPreflight(request) { return crossOrigin.permission }
            var response = try await next(request, context)
            crossOrigin?.permit(&response)
            if policy.allowsOrigins { CrossOrigin.vary(&response) }
            return response
        }
        return try await ErrorAnswer.response(
            to: refusal.droppingBody(of: request), request: request, context: context)
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
                    """)
        case .refusesOrigin(let origin):
            Refusal(
                .originRefused, "This server does not answer web pages of \(origin.prefix(Self.headerCharactersMax)).",
                fix: "If these pages may read and write here, serve with --allow-origin and that origin.")
        case .refusesSite:
            Refusal(
                .originRefused,
                "This server does not answer web pages of other sites.",
                fix:
                    """
                    Open the address itself, not by a link of another page. If a page may read and write here, serve \
                    with --allow-origin and its origin.
                    """)
        }
    }

    /// The most characters of a header that an error message repeats.
    private static let headerCharactersMax = 200
}

extension HTTPField.Name { fileprivate static let fetchSite = customName("Sec-Fetch-Site") }

/// A host and an optional port, from the header `Host` or an origin.
struct Authority: Hashable, Sendable {
    /// The host in lower case; an IPv6 address keeps its brackets.
    let host: String
    let port: Int?

    /// Parses `example.org`, `example.org:8080` or `[::1]:8080`; nil for anything else.
    init?(_ text: some StringProtocol) {
        let text = text.lowercased()
        let end =
            text.hasPrefix("[")
            ? text.firstIndex(of: "]").map { text.index(after: $0) } : text.firstIndex(of: ":") ?? text.endIndex
        guard let end else { return nil }
        let name = text[..<end]
        let isAddress = name.hasPrefix("[")
        let inner = isAddress ? name.dropFirst().dropLast() : name
        guard !inner.isEmpty, inner.utf8.allSatisfy({ Self.mayHold($0, isAddress: isAddress) }) else { return nil }
        // `example.org.` is the same host, written as an absolute name.
        host = String(name.hasSuffix(".") ? name.dropLast() : name)
        let rest = text[end...]
        guard !rest.isEmpty else {
            port = nil
            return
        }
        guard rest.hasPrefix(":"), rest.dropFirst().utf8.allSatisfy(Self.isDigit), let number = Int(rest.dropFirst()),
            (1...65_535).contains(number)
        else { return nil }
        port = number
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func mayHold(_ byte: UInt8, isAddress: Bool) -> Bool {
        isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
            || (isAddress ? ":.%" : "-._").utf8.contains(byte)
    }
}

/// The origin of a web page: scheme, host and port, as a browser sends it in `Origin`.
struct WebOrigin: Hashable, Sendable {
    private let scheme: String
    private let host: String
    private let port: Int?

    /// Parses an origin; nil for `null`, for `*`, and for anything with a path.
    init?(_ text: String) {
        guard let separator = text.firstRange(of: "://"), let authority = Authority(text[separator.upperBound...])
        else { return nil }
        let scheme = text[..<separator.lowerBound].lowercased()
        guard scheme.first?.isLetter == true,
            scheme.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "+.-".contains($0)) })
        else { return nil }
        self.scheme = scheme
        host = authority.host
        port = authority.port ?? Self.defaultPorts[scheme]
    }

    /// Whether the page is of the server with this `Host`, of any scheme: a proxy may hide it, `Sec-Fetch-Site` tells.
    func isOwn(of server: Authority) -> Bool {
        guard let standard = Self.defaultPorts[scheme] else { return false }
        return host == server.host && port == server.port ?? standard
    }

    private static let defaultPorts = ["http": 80, "https": 443]
}
