package import TidemarkCore

/// The facts that decide about a user's requests to a zone; see ``MemberGate/decision(about:in:)`` for the decision.
package struct AccessExplanation: Hashable, Sendable {
    /// A change of rights, and the user who made it.
    package struct Change: Hashable, Sendable {
        /// The time, in milliseconds since 1970.
        package let time: Int64
        /// The user who made it; nil for a command on the server.
        package let author: String?
    }

    /// The result for the user's next request.
    package enum Outcome: String, CaseIterable, Sendable {
        /// A device with one of the tokens may sync.
        case mayWrite
        /// A device with one of the tokens may take changes in, but its own are refused.
        case mayRead
        case hasNoToken
        case isFormerMember
        /// The user never was a member of the zone.
        case isNoMember
        case zoneIsMissing
        case zoneIsDeleted
        case isDisabled
        case isUnknown
    }

    package let user: String
    package let zone: String
    /// The change that made the server know the user; nil for an unknown one.
    package let added: Change?
    /// The change that disabled the user; nil for one who may sign in.
    package let disabled: Change?
    /// The rights in the zone by a membership.
    package let standing: Members.Standing
    package let decision: Decision
    package let hasZone: Bool
    /// The role that every signed-in user has in the zone by the access file; nil for none.
    package let roleOfEverybody: Role?
    package let roleChange: Change?
    /// The user's tokens that a request can show now.
    package let tokens: [TokenRegister.Entry]

    package var outcome: Outcome {
        if added == nil { return .isUnknown }
        if disabled != nil { return .isDisabled }
        switch decision {
        case .refusal(.zoneGone): return .zoneIsDeleted
        case _ where !hasZone: return .zoneIsMissing
        case .refusal(.accessRevoked): return .isFormerMember
        case .refusal: return .isNoMember
        case .role(let role):
            // A sign-in token acts too: its device exchanges it first.
            let canAct = !needsToken || tokens.contains { $0.kind != .administrator }
            guard canAct else { return .hasNoToken }
            return role < .writer ? .mayRead : .mayWrite
        }
    }

    /// The server's decision about a user with a good token.
    package enum Decision: Hashable, Sendable {
        case role(Role)
        case refusal(ErrorCode)
    }

    /// Whether the user signs in with tokens of the server's own.
    private let needsToken: Bool

    /// Reads the facts at `now`, in milliseconds since 1970; zones that the database of users names need no `hasZone`.
    package init(
        of user: String, in zone: String, decision: Decision, policy: AccessPolicy, hasZone: Bool,
        from database: any AccessStatements, now: Int64
    ) throws {
        self.user = user
        self.zone = zone
        self.decision = decision
        roleOfEverybody = policy.rights(in: zone).ofUsers
        needsToken = policy.hasOwnUsers && !user.contains(Self.providerSeparator)
        self.hasZone = try hasZone || Zones(database, now: now).zone(zone) != nil
        let row = try database.rows("SELECT created, disabled FROM tidemark_user WHERE id = $1", [user]).first
        let author = { (action: Audit.Action, zone: String?) in
            try Self.author(of: action, subject: user, zone: zone, from: database)
        }
        added = try row?.integer(0).map { Change(time: $0, author: try author(.userAdded, nil)) }
        disabled = try row?.integer(1).map { Change(time: $0, author: try author(.userDisabled, nil)) }
        standing = try Members(database, now: now).standing(of: user, in: zone)
        let since = try database.rows(
            "SELECT since FROM tidemark_member WHERE user_id = $1 AND zone = $2", [user, zone]
        ).first?.integer(0)
        roleChange = try since.map { Change(time: $0, author: try author(.roleChanged, zone)) }
        tokens = try TokenRegister(database).entries(of: user).filter { $0.canAct(at: now) }
    }

    /// The separator of a provider's name and its user's, who comes with tokens of the provider.
    private static let providerSeparator: Character = "|"

    /// Returns the user who caused the latest event of a kind; nil for the operator.
    private static func author(
        of action: Audit.Action, subject: String, zone: String?, from database: any AccessStatements
    ) throws -> String? {
        try database.rows(
            """
            SELECT user_id
            FROM tidemark_audit
            WHERE action = $1 AND subject = $2 AND COALESCE(zone, '') = $3
            ORDER BY time DESC
            LIMIT 1
            """,
            [action.rawValue, subject, zone ?? ""]
        ).first?.text(0)
    }
}
