package import TidemarkCore

package struct ListenAddress: Sendable {
    package let host: String
    package let port: Int

    /// Parses HOST:PORT; an IPv6 address needs brackets.
    package init(_ text: String) throws(TidemarkError) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65_535).contains(port), colon != text.startIndex
        else {
            throw TidemarkError(
                .invalidArgument, "\(text) is no address to listen on.",
                fix: "Write HOST:PORT, for instance 127.0.0.1:8080.")
        }
        let name = text[..<colon]
        let isBracketed = name.hasPrefix("[") && name.hasSuffix("]")
        host = String(isBracketed ? name.dropFirst().dropLast() : name)
        self.port = port
    }

    /// Returns the URL of a server that listens on this host, with the actual port.
    package func url(port: Int, isEncrypted: Bool = false) -> String {
        "\(isEncrypted ? "https" : "http")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}
