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
                    .invalidArgument,
                    "\(text) is no origin of web pages.",
                    fix: "Write scheme, host and perhaps a port, each origin by itself: https://app.example."
                )
            }
            origins.insert(origin)
        }
        var names: Set<String> = []
        for text in hosts {
            guard let authority = Authority(text), authority.port == nil else {
                throw TidemarkError(
                    .invalidArgument,
                    "\(text) is no name of a server.",
                    fix: "Write a host without a port: sync.example.org."
                )
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
    /// The request headers that identify the page.
    struct Headers: Hashable, Sendable {
        var host: String?
        var origin: String?
        var fetchSite: String?
    }

    /// The policy's decision on a request.
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
        var allowedOrigin: String? {
            guard case .isAllowed(let origin) = self else { return nil }
            return origin
        }
    }

    /// The values of `Sec-Fetch-Site` that no page of another origin can cause.
    private static let ownSites = ["same-origin", "none"]

    /// Judges a request by its headers.
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
