/// The sender of a request, as the server has verified it.
public enum Caller: Hashable, Sendable {
    /// Any sender, at a server without identity: the owner of every zone.
    case local
    /// A sender without a token, at a server with identity.
    case anonymous
    /// A signed-in user.
    case user(User)

    /// A user of a server with identity.
    public struct User: Hashable, Sendable {
        /// The user's id: `anna` for a user of the server's own, `acme|248289` for a provider's.
        ///
        /// At most 255 bytes.
        public let id: String
        /// The moment when the token ends, in milliseconds since 1970; nil if it has no end.
        public let expires: Int64?

        /// Whether the token is one that administers the server.
        public let isAdministrator: Bool

        /// Makes a user.
        public init(id: String, expires: Int64? = nil, isAdministrator: Bool = false) {
            self.id = id
            self.expires = expires
            self.isAdministrator = isAdministrator
        }
    }

    /// Whether the sender administers the server.
    public var isAdministrator: Bool {
        switch self {
        case .local: true
        case .anonymous: false
        case .user(let user): user.isAdministrator
        }
    }

    /// The user's id; nil for a sender without one.
    public var userID: String? {
        guard case .user(let user) = self else { return nil }
        return user.id
    }
}
