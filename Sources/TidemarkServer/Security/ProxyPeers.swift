internal import NIOCore
public import TidemarkCore

/// The proxies that may connect without encryption, and the addresses of the clients behind them.
///
/// The server refuses every other machine, because its requests travel in the clear. This machine itself
/// always may connect.
public struct ProxyPeers: Hashable, Sendable {
    private let addresses: Set<String>

    /// Makes the list of proxies.
    ///
    /// - Parameter addresses: IPv4 or IPv6 addresses, without ports.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for anything else.
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
    /// The decision on the sender of a request.
    enum Verdict: Hashable, Sendable {
        /// The client with this address sends it, directly or through a proxy.
        case client(String)
        /// The sender is neither a proxy nor on this machine.
        case refuses(String)
    }

    /// Judges a request by the address of its connection, and by its `X-Forwarded-For`.
    ///
    /// Each proxy adds the address of its own client at the end of the header. Only the last one comes
    /// from a trusted machine.
    func verdict(peer: String?, forwardedFor: String?) -> Verdict {
        guard let peer = peer.flatMap(Self.standard) else { return .refuses("an unknown address") }
        guard addresses.contains(peer) else { return Loopback.contains(peer) ? .client(peer) : .refuses(peer) }
        let last = forwardedFor?.split(separator: ",").last?.filter { $0 != " " }
        return .client(last.flatMap(Self.standard) ?? peer)
    }

    /// Returns an address in its standard form, in which equal addresses are equal texts.
    ///
    /// An IPv4 address that an IPv6 socket reports (`::ffff:10.0.0.2`) becomes a plain one.
    private static func standard(_ text: String) -> String? {
        let prefix = "::ffff:"
        let isMapped = text.lowercased().hasPrefix(prefix) && text.contains(".")
        let plain = isMapped ? String(text.dropFirst(prefix.count)) : text
        // Text that is no address is not an error here; each caller handles it.
        return (try? SocketAddress(ipAddress: plain, port: 0))?.ipAddress
    }
}
