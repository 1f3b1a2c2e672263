/// A host and an optional port, from the header `Host` or an origin.
struct Authority: Hashable, Sendable {
    /// The host in lower case; an IPv6 address keeps its brackets.
    let host: String
    /// The port, if there is one.
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

    /// Whether the page belongs to the server with this `Host`.
    ///
    /// A proxy may terminate TLS, so the server does not know its own scheme. `Sec-Fetch-Site`
    /// distinguishes `http` from `https`.
    func isOwn(of server: Authority) -> Bool {
        guard let standard = Self.defaultPorts[scheme] else { return false }
        return host == server.host && port == server.port ?? standard
    }

    private static let defaultPorts = ["http": 80, "https": 443]
}
