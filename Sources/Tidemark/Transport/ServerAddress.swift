internal import Foundation
internal import TidemarkCore

/// A server's validated URL, with the messages for its connection errors.
struct ServerAddress: Hashable, Sendable {
    /// The URL without a slash at its end.
    private let base: String
    /// The host and the port, for messages.
    let hostAndPort: String
    /// Whether others can read the traffic: over `http` to another machine.
    let isReadableOnTheWay: Bool
    let isPlain: Bool
    /// Scheme, host and port, in lower case: the part of the URL to which a token belongs.
    let origin: String

    init(_ url: String) throws(TidemarkError) {
        let parts = URLComponents(string: url)
        guard let parts, let scheme = parts.scheme?.lowercased(), ["http", "https"].contains(scheme) else {
            throw Self.invalid(url, "does not start with http:// or https://")
        }
        guard let host = parts.host, !host.isEmpty else { throw Self.invalid(url, "has no host") }
        guard parts.user == nil, parts.password == nil else {
            throw Self.invalid("with a user", "holds a name or password, which end up in logs")
        }
        guard parts.query == nil, parts.fragment == nil else { throw Self.invalid(url, "has a query or a fragment") }
        let port = parts.port ?? (scheme == "https" ? 443 : 80)
        guard (1...65_535).contains(port), let string = parts.string else {
            throw Self.invalid(url, "has a port that does not exist")
        }
        isPlain = scheme == "http"
        isReadableOnTheWay = isPlain && !Loopback.contains(host)
        base = String(string.reversed().drop { $0 == "/" }.reversed())
        let hostAndPort = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]:\(port)" : "\(host):\(port)"
        self.hostAndPort = hostAndPort
        origin = "\(scheme)://\(hostAndPort.lowercased())"
    }

    func url(path: String) -> String { "\(base)/\(path)" }

    func url(zone: String, path: String) -> String {
        guard zone != "main" else { return "\(base)/\(path)" }
        return "\(base)/zones/\(Self.encoded(zone))/\(path)"
    }

    func url(zone: String, path: String, device: String) -> String {
        "\(url(zone: zone, path: path))?device=\(Self.encoded(device))"
    }

    /// Percent-encodes a name for a path or a header.
    static func encoded(_ text: String) -> String {
        let unreserved = CharacterSet(charactersIn: "-._~").union(.alphanumerics)
        return text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? text
    }

    private static func invalid(_ url: String, _ reason: String) -> TidemarkError {
        TidemarkError(
            .invalidArgument, "The server's URL \(url) \(reason).",
            fix: "Write it like http://localhost:8080 or https://sync.example.com.")
    }
}

extension ServerAddress {
    func unreachable(_ cause: String, fix: String = "Check the network and the address.") -> TidemarkError {
        TidemarkError(.unreachable, "Cannot reach \(hostAndPort): \(cause).", fix: "\(fix) \(Self.comfort)")
    }

    private static let comfort = "Changes made here are kept, and sent later."

    /// Checks that nobody on the way can read a token.
    func requireSecrecy() throws(TidemarkError) {
        guard isReadableOnTheWay else { return }
        throw TidemarkError(
            .invalidArgument, "Others on the network could read the token on its way to \(hostAndPort).",
            fix: "Use https:// for a server on another machine, or give no token (TIDEMARK_TOKEN, --token-file).")
    }

    /// Makes the error for status 401 of a server or proxy.
    func signInNeeded(hasToken: Bool, scheme: String?) -> TidemarkError {
        let isBearer = scheme.map { $0.lowercased() == "bearer" } ?? true
        let asks = isBearer ? "" : " It asks for \(scheme ?? ""); a device sends bearer tokens only."
        return TidemarkError(
            .signInNeeded,
            hasToken
                ? "\(hostAndPort) does not accept the token of this device (401).\(asks)"
                : "\(hostAndPort) requires a token, and this device has none (401).\(asks)",
            fix: "Sign in\(hasToken ? " again" : ""), or give a \(hasToken ? "valid " : "")token "
                + "by TIDEMARK_TOKEN or --token-file. \(Self.comfort)")
    }

    /// Makes the error for status 403 of a server or proxy.
    func notAllowed(hasToken: Bool) -> TidemarkError {
        TidemarkError(
            .notAllowed, "\(hostAndPort) does not let this device in (403)\(hasToken ? ", whose token it knows" : "").",
            fix: "Ask the server's operator for access, or sign in as a user with access. \(Self.comfort)")
    }

    func foreign(
        _ what: String,
        fix: String = "Check the address. A network that wants a login answers like this too: "
            + "open a page in a browser, log in, and try again."
    ) -> TidemarkError {
        TidemarkError(
            .invalidResponse, "\(hostAndPort) answered with \(what), which is not Tidemark's answer.", fix: fix)
    }
}
