internal import Foundation

/// The part of a client's address by which the server counts failed sign-ins.
enum ClientNetwork {
    /// The bytes of an IPv6 address that its owner cannot choose freely.
    private static let prefixBytes = 8
    /// The first bytes of an IPv4 address in the form of an IPv6 one.
    private static let mappedPrefix: [UInt8] = Array(repeating: 0, count: 10) + [0xff, 0xff]

    /// Returns an IPv4 address, or the first 64 bits of an IPv6 address; one text for all without an address.
    static func name(of address: String?) -> String {
        guard let text = address else { return "local" }
        var bytes = in6_addr()
        // The zone of a link-local address is no part of its number.
        guard inet_pton(AF_INET6, String(text.prefix { $0 != "%" }), &bytes) == 1 else { return text }
        return withUnsafeBytes(of: bytes) { bytes in
            bytes.starts(with: mappedPrefix)
                ? bytes.suffix(4).map(String.init).joined(separator: ".")
                : bytes.prefix(prefixBytes).map(String.init).joined(separator: ":")
        }
    }
}
