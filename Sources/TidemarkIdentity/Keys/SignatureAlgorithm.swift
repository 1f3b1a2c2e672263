/// An algorithm with which an identity provider signs its tokens (RFC 7518, section 3.1; RFC 8037).
package enum SignatureAlgorithm: String, Hashable, Sendable, CaseIterable {
    case rs256 = "RS256"
    case es256 = "ES256"
    case edDSA = "EdDSA"
    /// A secret that the provider and the server share. No provider has it beside keys of another kind.
    case hs256 = "HS256"

    /// The algorithms whose keys a provider can publish.
    static let published = allCases.filter { $0 != .hs256 }
}
