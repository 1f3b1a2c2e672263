public import TidemarkCore

/// The decision that a caller may use a zone, and with which rights.
///
/// Every function of ``SyncService`` that reads or writes a zone takes one, without a default. So a
/// route that does not decide about its caller does not compile.
public struct ZoneAccess: Hashable, Sendable {
    /// The zone's name.
    public let zone: String
    /// The sender of the request.
    public let caller: Caller
    /// The caller's rights in the zone.
    public let role: Role
    /// The name of the device that the request states, for operators; it gives no rights.
    package var deviceName: String?
    /// The network of the sender's address, by which senders without a token share readers; it gives no rights.
    package var network: String?
    /// The version of the decisions at which the gate decided; nil if it does not count.
    package var version: Int64?

    package init(zone: String, caller: Caller, role: Role) {
        self.zone = zone
        self.caller = caller
        self.role = role
    }

    /// Returns the access of a server without identity, and of a program that embeds a store: the owner's.
    public static func local(_ zone: String) -> ZoneAccess { ZoneAccess(zone: zone, caller: .local, role: .owner) }
}

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

        /// Whether the token is one that reads the server's metrics, and nothing else.
        public let isAdministrator: Bool
        /// The device that the token was issued to; nil for a token of any device.
        public let device: String?
        /// The facts about the user that the server's configuration takes from a provider's token.
        public let claims: [String: Claim]

        /// A fact about a user, as a provider's token states it.
        public enum Claim: Hashable, Sendable {
            case text(String)
            case texts([String])
            case integer(Int64)
            case integers([Int64])
            case boolean(Bool)
        }

        /// Makes a user.
        public init(
            id: String,
            expires: Int64? = nil,
            isAdministrator: Bool = false,
            device: String? = nil,
            claims: [String: Claim] = [:]
        ) {
            self.id = id
            self.expires = expires
            self.isAdministrator = isAdministrator
            self.device = device
            self.claims = claims
        }
    }

    /// Whether the sender may read the server's metrics.
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
