internal import NIOCore
public import TidemarkCore

/// The only proxies that may connect in the clear, beside this machine, and the addresses of the clients behind them.
public struct ProxyPeers: Hashable, Sendable {
    private let addresses: Set<String>

    /// Makes the list from IPv4 or IPv6 addresses without ports; throws `invalidArgument` for anything else.
    public init(_ addresses: [String]) throws(TidemarkError) {
        var parsed: Set<String> = []
        for text in addresses {
            guard let address = Self.standard(text) else {
                throw TidemarkError(
                    .invalidArgument, "\(text) is no address of a proxy.",
                    fix: "Write an IP address without a port, such as 10.0.0.2, and repeat the option for each proxy.")
            }
            parsed.insert(address)
        }
        self.addresses = parsed
    }
}

extension ProxyPeers {
    enum Verdict: Hashable, Sendable {
        /// The client with this address sends it, directly or through a proxy.
        case client(String)
        /// The sender is neither a proxy nor on this machine.
        case refuses(String)
    }

    /// Judges a request by its connection's address, and by the last `X-Forwarded-For`, which a trusted machine added.
    func verdict(peer: String?, forwardedFor: String?) -> Verdict {
        guard let peer = peer.flatMap(Self.standard) else { return .refuses("an unknown address") }
        guard addresses.contains(peer) else { return Loopback.contains(peer) ? .client(peer) : .refuses(peer) }
        let last = forwardedFor?.split(separator: ",").last?.filter { $0 != " " }
        return .client(last.flatMap(Self.standard) ?? peer)
    }

    /// Returns an address in its standard form, an IPv4 one without `::ffff:`, so that equal addresses are equal texts.
    private static func standard(_ text: String) -> String? {
        let prefix = "::ffff:"
        let isMapped = text.lowercased().hasPrefix(prefix) && text.contains(".")
        let plain = isMapped ? String(text.dropFirst(prefix.count)) : text
        // Text that is no address is not an error here; each caller handles it.
        return (try? SocketAddress(ipAddress: plain, port: 0))?.ipAddress
    }
}
