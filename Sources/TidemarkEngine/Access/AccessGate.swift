public import TidemarkCore

/// Decides who sends a request, and what the sender may do.
///
/// The server asks it on every route but those of health checks, before it reads a request's body.
public protocol AccessGate: Sendable {
    /// Returns a request's sender, ``Caller/anonymous`` without a token; throws `signInNeeded` for an invalid one.
    func caller(token: String?) async throws -> Caller

    /// Returns the access of a request to a zone; sender and rights are decided on one state of the database.
    ///
    /// `admit` is called once with the sender, before the gate looks at the zone; its error refuses the request.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownZone`` for a zone that does not exist or that the sender may not read,
    ///   with the same text; ``TidemarkCore/ErrorCode/signInNeeded`` for an invalid token, or a sender without one;
    ///   ``TidemarkCore/ErrorCode/accessRevoked`` for a former member; the error of `admit`.
    func access(to zone: String, token: String?, admitting admit: @Sendable (Caller) throws -> Void) async throws
        -> ZoneAccess

    /// Whether the gate remembers a token as valid, which passes although too many of its address were refused.
    func remembers(token: String) -> Bool

    /// Returns the present state of the decisions, cheaply enough for several calls a second.
    func moment() async throws -> AccessMoment

    /// Checks that the gate would still admit the request; throws the refusal, or the failure of the database.
    ///
    /// This is no use of the token: a device may have replaced the token of a request that lasts.
    func confirm(_ access: ZoneAccess, token: String?) async throws
}

extension AccessGate {
    /// Returns whether the gate would still admit the request; throws the failure of the database.
    package func stillAdmits(_ access: ZoneAccess, token: String?) async throws -> Bool {
        do {
            try await confirm(access, token: token)
            return true
        } catch let error as TidemarkError where error.code != .unavailable && error.code != .storageFailed {
            return false
        }
    }
}

extension AccessGate {
    /// Returns false: the gate remembers no tokens.
    public func remembers(token: String) -> Bool { false }
}

/// The gate of a server without identity: each request acts as the owner.
public struct LocalGate: AccessGate {
    /// Makes a gate.
    public init() {}

    /// Returns the local caller; a token is ignored.
    public func caller(token: String?) async throws -> Caller { .local }

    /// Returns the owner's access.
    public func access(to zone: String, token: String?, admitting admit: @Sendable (Caller) throws -> Void) async throws
        -> ZoneAccess
    {
        try admit(.local)
        return .local(zone)
    }

    /// Returns a moment that never changes.
    public func moment() async throws -> AccessMoment { AccessMoment(time: 0, version: 0) }

    /// Admits every request.
    public func confirm(_ access: ZoneAccess, token: String?) async throws {}
}

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
    case user(User)

    /// A user of a server with identity.
    public struct User: Hashable, Sendable {
        /// The user's id, at most 255 bytes: `anna` for a user of the server's own, `acme|248289` for a provider's.
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
            id: String, expires: Int64? = nil, isAdministrator: Bool = false, device: String? = nil,
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
