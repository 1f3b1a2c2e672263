public import TidemarkCore

/// Which web pages a server answers.
///
/// A browser sends a page's request wherever the page asks for, also to a server that listens on
/// its user's machine only, and does not show the page the answer. That is enough to write. So a
/// request of another origin's page is refused before anything of it is read. Devices, curl and
/// other programs send neither `Origin` nor `Sec-Fetch-Site`, and notice nothing.
///
/// While the server listens on loopback, a request for another name is refused too: a page whose
/// own name was made to resolve to 127.0.0.1 (DNS rebinding) counts as of the same origin.
public struct BrowserPolicy: Hashable, Sendable {
    /// Answers the server's own pages only, and on loopback no name but `localhost` and the
    /// addresses.
    public static let standard = BrowserPolicy(origins: [], hosts: [])

    private let origins: Set<WebOrigin>
    private let hosts: Set<String>

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - allowedOrigins: Origins whose pages may read and write, such as `https://app.example`.
    ///   - hosts: Names that the server answers to besides those of loopback, on any port: those
    ///     that a proxy in front of it passes on. If there are any, the server answers to no other
    ///     name, wherever it listens.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for `*`, and for what is no origin or
    ///   no host.
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
}

extension BrowserPolicy {
    /// What a request says about the page that sent it, header by header.
    struct Headers: Hashable, Sendable {
        var host: String?
        var origin: String?
        var fetchSite: String?
    }

    /// What becomes of a request.
    enum Verdict: Hashable, Sendable {
        /// No page of another origin sent it.
        case passes
        /// A page sent it whose origin was named, and may see the answer.
        case isAllowed(origin: String)
        /// The server does not answer to the name in `Host`.
        case refusesHost(String)
        /// A page of another origin sent it.
        case refusesOrigin(String)
        /// A page of another site sent it, without saying which.
        case refusesSite(String)
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
