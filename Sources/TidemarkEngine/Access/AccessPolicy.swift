import Synchronization
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

        /// The role of a signed-in user without a membership, who may do at least as much as a sender without a token.
        var ofUsers: Role? { everybody ?? (isOpenToAnonymous ? .reader : nil) }
    }

    /// Whether the server's own users sign in with its own tokens; administrators' tokens are accepted in any case.
    public var hasOwnUsers: Bool
    /// Checks the tokens of identity providers; nil without any.
    public var verifier: (any TokenVerifier)?
    /// The rights that need no membership, by zone.
    public var zones: [String: ZoneRights]

    /// Names are compared byte for byte, because two zones may differ only in their normalization.
    func rights(in zone: String) -> ZoneRights {
        guard let index = zones.index(forKey: zone), zones[index].key.utf8.elementsEqual(zone.utf8) else {
            return ZoneRights()
        }
        return zones[index].value
    }

    /// The zones in which every signed-in user has a role, and the role.
    var rolesOfEverybody: [String: Role] { zones.compactMapValues(\.ofUsers) }

    /// The policy of a server with its own users only, who need a membership everywhere.
    public static let ownUsers = AccessPolicy(hasOwnUsers: true)

    /// Makes a policy.
    public init(hasOwnUsers: Bool, verifier: (any TokenVerifier)? = nil, zones: [String: ZoneRights] = [:]) {
        self.hasOwnUsers = hasOwnUsers
        self.verifier = verifier
        self.zones = zones
    }
}

/// The policy that a server follows now, which may change while it runs; safe to use from any task.
final class PolicyInForce: Sendable {
    private struct State: Sendable {
        var policy: AccessPolicy
        var changes: Int64 = 0
    }

    private let state: Mutex<State>

    init(_ policy: AccessPolicy) { state = Mutex(State(policy: policy)) }

    /// The policy of requests that begin now.
    var current: AccessPolicy { state.withLock(\.policy) }
    var changes: Int64 { state.withLock(\.changes) }

    func follow(_ policy: AccessPolicy) {
        state.withLock { state in
            state.policy = policy
            state.changes += 1
        }
    }
}
