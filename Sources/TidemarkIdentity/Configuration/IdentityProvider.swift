/// An identity provider whose tokens the server accepts, as the configuration describes it.
package struct IdentityProvider: Hashable, Sendable {
    /// The place of the keys that verify the provider's tokens.
    package enum Keys: Hashable, Sendable {
        /// A file with a JSON Web Key Set (RFC 7517).
        case file(String)
        /// The address of a JSON Web Key Set, over https or to loopback.
        case url(String)
        /// A file with the secret of HS256.
        case secretFile(String)
    }

    /// The name, with which the ids of its users begin: `acme|248289`.
    package let name: String
    /// The claim `iss` of its tokens.
    package let issuer: String
    /// The name of this server in the claim `aud` of its tokens.
    package let audience: String
    package let keys: Keys
    package let algorithms: Set<SignatureAlgorithm>
    package let userClaim: String
    /// The types of further claims that the server takes.
    package let claims: [String: ClaimType]

    package init(
        name: String, issuer: String, audience: String, keys: Keys, algorithms: Set<SignatureAlgorithm>,
        userClaim: String = "sub", claims: [String: ClaimType] = [:]
    ) {
        self.name = name
        self.issuer = issuer
        self.audience = audience
        self.keys = keys
        self.algorithms = algorithms
        self.userClaim = userClaim
        self.claims = claims
    }
}
