public import TidemarkCore

/// The tokens that a server accepts, and the rights that need no membership.
public struct AccessPolicy: Sendable {
    /// The rights in a zone that need no membership.
    public struct ZoneRights: Hashable, Sendable {
        /// The role that every signed-in user has; nil for none.
        public var everybody: Role?
        /// Whether a request without a token may read the zone.
        public var isOpenToAnonymous: Bool

        /// Makes rights; by default nobody has any.
        public init(everybody: Role? = nil, isOpenToAnonymous: Bool = false) {
            self.everybody = everybody
            self.isOpenToAnonymous = isOpenToAnonymous
        }

        /// The role that a signed-in user has without a membership.
        ///
        /// A signed-in user may do at least as much as a sender without a token.
        var ofUsers: Role? { everybody ?? (isOpenToAnonymous ? .reader : nil) }
    }

    /// Whether the server's own users sign in with its own tokens.
    ///
    /// Tokens of administrators are accepted in any case.
    public var hasOwnUsers: Bool
    /// Checks the tokens of identity providers; nil without any.
    public var verifier: (any TokenVerifier)?
    /// The rights that need no membership, by zone.
    public var zones: [String: ZoneRights]

    /// Returns the rights in a zone that need no membership.
    ///
    /// Names are compared byte for byte, because two zones may differ only in their normalization.
    func rights(in zone: String) -> ZoneRights {
        guard let index = zones.index(forKey: zone), zones[index].key.utf8.elementsEqual(zone.utf8) else {
            return ZoneRights()
        }
        return zones[index].value
    }

    /// The policy of a server with its own users only, who need a membership everywhere.
    public static let ownUsers = AccessPolicy(hasOwnUsers: true)

    /// Makes a policy.
    public init(
        hasOwnUsers: Bool,
        verifier: (any TokenVerifier)? = nil,
        zones: [String: ZoneRights] = [:]
    ) {
        self.hasOwnUsers = hasOwnUsers
        self.verifier = verifier
        self.zones = zones
    }
}
