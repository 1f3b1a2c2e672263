/// The names and addresses by which a machine reaches itself and nobody else.
public enum Loopback {
    /// Whether a host of a URL, or an address to listen on, is this machine's own: `localhost`, an
    /// address that begins with 127, or `::1`, with or without brackets.
    ///
    /// A name that merely resolves to such an address is not: who owns the name can change that.
    public static func contains(_ host: String) -> Bool {
        let host = host.lowercased()
        if ["localhost", "::1", "[::1]"].contains(host) { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127"
            && parts.allSatisfy { part in part.allSatisfy { ("0"..."9").contains($0) } && UInt8(part) != nil }
    }
}
