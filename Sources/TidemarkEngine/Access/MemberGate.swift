import Synchronization
package import TidemarkCore

/// The gate of a server with users: tokens say who sends a request, and memberships what they may do.
///
/// Decisions are kept until the database of users changes, so a request with a known token reads
/// nothing but that database's version, once. A revocation counts for every request that begins after its
/// commit, on every node; the server asks again before an answer goes out.
public final class MemberGate: AccessGate {
    let database: any AccessDatabase
    let now: @Sendable () -> Int64
    let random: @Sendable () -> any RandomNumberGenerator & Sendable
    /// Makes and shares zones; nil at a server with one zone.
    package let registry: ZoneRegistry?
    private let decisions = Mutex(Decisions())
    /// The moments when the tokens end that were good at their last use, by their hashes, whatever changed since.
    private let goodTokens = Mutex(LeastRecent<String, Int64>(countMax: Decisions.countMax))
    private let policy: PolicyInForce

    /// The decisions in favour of senders at one version; refusals are not kept, as strangers can make up any number.
    private struct Decisions {
        var version: Int64 = -1
        var holders: [String: TokenRegister.Entry] = [:]
        /// The providers' users who are admitted.
        var admissions: Set<String> = []
        var roles: [Membership: Role] = [:]
        /// Users without a membership, in zones where the configuration gives them a role.
        var outsiders: Set<Membership> = []
        /// The names of private zones, by user.
        var ownZones: [String: String] = [:]

        static let countMax = 10_000

        /// Forgets everything if the database has changed, or if there is too much to remember.
        mutating func follow(_ newVersion: Int64) {
            let count = holders.count + admissions.count + roles.count + outsiders.count + ownZones.count
            guard version != newVersion || count >= Self.countMax else { return }
            self = Decisions(version: newVersion)
        }
    }

    /// A user and a zone, byte for byte.
    ///
    /// Swift's texts are equal in any normalization, so a text as a key would admit a member of one zone
    /// to another zone whose name only looks the same.
    private struct Membership: Hashable {
        let user: [UInt8]
        let zone: [UInt8]

        init(user: String, zone: String) {
            self.user = Array(user.utf8)
            self.zone = Array(zone.utf8)
        }
    }

    package init(
        _ database: any AccessDatabase, host: (any ZoneHost)? = nil, policy: AccessPolicy = .ownUsers,
        now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> any RandomNumberGenerator & Sendable = { SystemRandomNumberGenerator() }
    ) {
        self.database = database
        let policy = PolicyInForce(policy)
        self.policy = policy
        self.now = now
        self.random = random
        registry = host.map { host in
            ZoneRegistry(database, host: host, openZones: { policy.current.rolesOfEverybody }, now: now, random: random)
        }
    }

    /// Decides by another policy from now on.
    public func follow(_ policy: AccessPolicy) { self.policy.follow(policy) }

    var policyChanges: Int64 { policy.changes }
    var namesOfEverybodysZones: [String] { policy.current.rolesOfEverybody.keys.sorted() }

    // MARK: Senders

    /// A token that has the form of one, before the gate looks into the database.
    private enum Shown {
        case own(Token)
        case provider(Caller.User)
    }

    /// Returns the user who holds the token; anonymous without one.
    ///
    /// A sign-in token is good for an exchange only, and an invitation for its acceptance.
    public func caller(token: String?) async throws -> Caller {
        guard let token else { return .anonymous }
        let shown = try await shown(token)
        return .user(try await user(showing: shown, at: try await database.version()))
    }

    /// Whether the token was good at its last use, and has not ended.
    public func remembers(token: String) -> Bool {
        guard Token.isOwn(token) else { return policy.current.verifier?.remembers(token) ?? false }
        guard let token = Token(token) else { return false }
        let hash = token.hash
        let now = now()
        return goodTokens.withLock { ($0.value(of: hash) ?? now) > now }
    }

    /// Returns the form of a token; a text that no server issued costs no look into the database.
    private func shown(_ text: String) async throws -> Shown {
        let policy = policy.current
        guard Token.isOwn(text) else {
            guard let verifier = policy.verifier else { throw Self.signInNeeded }
            return .provider(try await verifier.user(text))
        }
        guard let token = Token(text), token.opensRequests, policy.hasOwnUsers || token.kind == .administrator
        else { throw Self.signInNeeded }
        return .own(token)
    }

    /// Returns the user of a token that the database accepts at a version.
    private func user(showing shown: Shown, at version: Int64) async throws -> Caller.User {
        switch shown {
        case .provider(let user):
            guard try await isAdmitted(user.id, at: version) else { throw Self.signInNeeded }
            return user
        case .own(let token):
            guard let holder = try await holder(of: token, at: version) else { throw Self.signInNeeded }
            goodTokens.withLock { $0.set(holder.expires, for: token.hash) }
            return Caller.User(
                id: holder.user, expires: holder.expires, isAdministrator: holder.kind == .administrator,
                device: holder.device)
        }
    }

    /// Whether tokens of the server's own are accepted from users who are no administrators.
    var hasOwnUsers: Bool { policy.current.hasOwnUsers }

    /// Returns the holder of a valid token; the token counts as shown.
    func holder(of token: Token) async throws -> TokenRegister.Entry? {
        try await holder(of: token, at: try await database.version())
    }

    private func holder(of token: Token, at version: Int64) async throws -> TokenRegister.Entry? {
        let now = now()
        let hash = token.hash
        // A token can end while nothing else changes.
        if let known = known(at: version, { $0.holders[hash] }) { return known.expires > now ? known : nil }
        switch try await database.read({ try Tokens($0, now: now).look(token) }) {
        case .invalid: return nil
        case .changes: return try await database.transaction { try Tokens($0, now: now).show(token) }
        case .valid(let holder):
            remember(at: version) { $0.holders[hash] = holder }
            return holder
        }
    }

    /// Whether the server admits a provider's user, whom it records at first sight.
    private func isAdmitted(_ user: String, at version: Int64) async throws -> Bool {
        if known(at: version, { $0.admissions.contains(user) ? true : nil }) == true { return true }
        let now = now()
        let isAdmitted = try await database.transaction { try Members($0, now: now).admit(user) }
        // The first sight changes the database, so the next request reads the user anew.
        if isAdmitted { remember(at: version) { $0.admissions.insert(user) } }
        return isAdmitted
    }

    // MARK: Decisions

    /// Returns what the gate remembers for a version of the database, and forgets what it knew of another one.
    private func known<Decision: Sendable>(at version: Int64, _ decision: (borrowing Decisions) -> Decision?)
        -> Decision?
    {
        decisions.withLock { decisions in
            decisions.follow(version)
            return decision(decisions)
        }
    }

    /// Remembers a decision that was read at this version or a later one; a later one makes the gate forget.
    private func remember(at version: Int64, _ change: (inout Decisions) -> Void) {
        decisions.withLock { if $0.version == version { change(&$0) } }
    }

    // MARK: Zones

    /// Returns the access of a member, or the access that needs no membership, if that is the stronger one.
    ///
    /// The zone `~` is the private zone of the sender, which the server makes at the first request.
    public func access(to zone: String, token: String?, admitting admit: @Sendable (Caller) throws -> Void) async throws
        -> ZoneAccess
    {
        guard let token else {
            try admit(.anonymous)
            return try anonymousAccess(to: zone)
        }
        let shown = try await shown(token)
        let policyChanges = policyChanges
        // One read decides about sender and zone.
        let version = try await database.version()
        let user = try await user(showing: shown, at: version)
        try admit(.user(user))
        guard !user.isAdministrator else { throw Self.metricsOnly }
        var access = try await access(of: user, to: zone, at: version)
        access.version = version + policyChanges
        return access
    }

    func anonymousAccess(to zone: String) throws -> ZoneAccess {
        guard policy.current.rights(in: zone).isOpenToAnonymous else { throw Self.signInNeeded }
        return ZoneAccess(zone: zone, caller: .anonymous, role: .reader)
    }

    func access(of user: Caller.User, to zone: String, at version: Int64) async throws -> ZoneAccess {
        let caller = Caller.user(user)
        let rights = policy.current.rights(in: zone)
        let zone = zone == ZoneKind.privateAlias ? try await ownZone(of: user.id, at: version) : zone
        let membership = Membership(user: user.id, zone: zone)
        if let role = rights.ofUsers, known(at: version, { $0.outsiders.contains(membership) ? true : nil }) == true {
            return ZoneAccess(zone: zone, caller: caller, role: role)
        }
        do {
            let role = try await role(of: user.id, in: zone, at: version)
            return ZoneAccess(zone: zone, caller: caller, role: max(role, rights.ofUsers ?? role))
        } catch let error as TidemarkError where error.code == .unknownZone || error.code == .accessRevoked {
            guard let role = rights.ofUsers else { throw error }
            remember(at: version) { $0.outsiders.insert(membership) }
            return ZoneAccess(zone: zone, caller: caller, role: role)
        }
    }

    /// Returns the decision about a request of a user with a good token; throws an error of the database.
    package func decision(about user: String, in zone: String) async throws -> AccessExplanation.Decision {
        do {
            let version = try await database.version()
            return .role(try await access(of: Caller.User(id: user), to: zone, at: version).role)
        } catch let error as TidemarkError
            where [.unknownZone, .accessRevoked, .zoneGone].contains(error.code)
        { return .refusal(error.code) }
    }

    /// Returns the role of a member, for whom it makes missing tables first; throws the refusal of everybody else.
    private func role(of user: String, in zone: String, at version: Int64) async throws -> Role {
        // No zone has such a name, and PostgreSQL takes no text with NUL.
        guard !zone.utf8.contains(0) else { throw TidemarkError.unknownZone }
        let membership = Membership(user: user, zone: zone)
        if let role = known(at: version, { $0.roles[membership] }) { return role }
        let now = now()
        let (standing, record) = try await database.read { statements in
            let standing = try Members(statements, now: now).standing(of: user, in: zone)
            let mayKnow = standing != .stranger || planted(PlantedBug.namesForeignZones)
            return (standing, mayKnow ? try Zones(statements, now: now).zone(zone) : nil)
        }
        guard case .member(let role) = standing else {
            let mayKnow = standing == .former || record != nil
            throw mayKnow && record?.life != .deleted ? Self.accessRevoked : TidemarkError.unknownZone
        }
        guard record?.life != .deleted else { throw Self.zoneGone }
        if let record { try await registry?.prepare(record) }
        remember(at: version) { $0.roles[membership] = role }
        return role
    }

    private func ownZone(of user: String, at version: Int64) async throws -> String {
        guard let registry else { throw TidemarkError.unknownZone }
        if let name = known(at: version, { $0.ownZones[user] }) { return name }
        let zone = try await registry.ownZone(of: user)
        remember(at: version) { $0.ownZones[user] = zone.name }
        return zone.name
    }

    // MARK: Refusals

    static let signInNeeded = TidemarkError(
        .signInNeeded, "This server requires a valid token.",
        fix: "Send Authorization: Bearer and a token; the server's operator issues one by `tidemark user add`.")

    /// The refusal of a token of an administrator on every route but `GET /metrics`.
    package static let metricsOnly = TidemarkError(
        .notAllowed, "The token of an administrator opens GET /metrics, and nothing else.",
        fix: "Sign in with a token of `tidemark user sign-in`, or send one of `tidemark token add`.")

    private static let accessRevoked = TidemarkError(
        .accessRevoked, "You are no longer a member of this zone.",
        fix: "Ask an owner of the zone to invite you again; unsent changes are kept on the device.")

    private static let zoneGone = TidemarkError(
        .zoneGone, "This zone was deleted by one of its owners.",
        fix: "The server's operator can restore it for a time; unsent changes are kept on the device.")
}
