/// The names and addresses by which a machine reaches only itself.
package enum Loopback {
    /// Whether a URL's host, or an address to listen on, is a loopback address.
    ///
    /// These are `localhost`, addresses that begin with 127, and `::1`, with or without brackets. A
    /// name that only resolves to such an address is none: its owner can change that.
    package static func contains(_ host: String) -> Bool {
        let host = host.lowercased()
        if ["localhost", "::1", "[::1]"].contains(host) { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127"
            && parts.allSatisfy { part in part.allSatisfy { ("0"..."9").contains($0) } && UInt8(part) != nil }
    }
}
