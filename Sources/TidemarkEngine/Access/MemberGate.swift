import Synchronization
import TidemarkCore

/// The gate of a server with users: tokens say who sends a request, and memberships what they may do.
///
/// Decisions are kept until the database of users changes, so a request with a known token reads
/// nothing but that database's version. A revocation counts for every request that begins after its
/// commit, on every node.
public final class MemberGate: AccessGate {
    let database: any AccessDatabase
    let now: @Sendable () -> Int64
    let random: @Sendable () -> any RandomNumberGenerator & Sendable
    /// Makes and shares zones; nil at a server with one zone.
    package let registry: ZoneRegistry?
    private let decisions = Mutex(Decisions())
    private let policy: Mutex<AccessPolicy>

    /// The decisions in favour of senders that hold for one version of the database.
    ///
    /// Refusals are not kept: a stranger can make up any number of tokens and names of zones.
    private struct Decisions {
        var version: Int64 = -1
        var holders: [String: Tokens.Holder] = [:]
        /// The providers' users who are admitted.
        var admissions: Set<String> = []
        var roles: [Membership: Role] = [:]
        /// The names of private zones, by user.
        var ownZones: [String: String] = [:]

        static let countMax = 10_000

        /// Forgets everything if the database has changed, or if there is too much to remember.
        mutating func follow(_ newVersion: Int64) {
            let count = holders.count + admissions.count + roles.count + ownZones.count
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
        _ database: any AccessDatabase,
        host: (any ZoneHost)? = nil,
        policy: AccessPolicy = .ownUsers,
        now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> any RandomNumberGenerator & Sendable = { SystemRandomNumberGenerator() }
    ) {
        self.database = database
        self.policy = Mutex(policy)
        self.now = now
        self.random = random
        registry = host.map { ZoneRegistry(database, host: $0, now: now, random: random) }
    }

    /// Decides by another policy from now on.
    public func follow(_ policy: AccessPolicy) { self.policy.withLock { $0 = policy } }

    // MARK: Senders

    /// Returns the user who holds the token; anonymous without one.
    ///
    /// A sign-in token is good for an exchange only, and an invitation for its acceptance.
    public func caller(token: String?) async throws -> Caller {
        guard let text = token else { return .anonymous }
        let policy = policy.withLock { $0 }
        guard Token.isOwn(text) else {
            guard let verifier = policy.verifier else { throw Self.signInNeeded }
            let user = try await verifier.user(text)
            guard try await isAdmitted(user.id) else { throw Self.signInNeeded }
            return .user(user)
        }
        guard let token = Token(text), token.opensRequests, policy.hasOwnUsers || token.kind == .administrator,
            let holder = try await holder(of: token)
        else { throw Self.signInNeeded }
        return .user(
            Caller.User(
                id: holder.user,
                expires: holder.expires,
                isAdministrator: holder.kind == .administrator,
                device: holder.device
            )
        )
    }

    /// Whether tokens of the server's own are accepted from users who are no administrators.
    var hasOwnUsers: Bool { policy.withLock(\.hasOwnUsers) }

    /// Returns the holder of a valid token; the token counts as shown.
    func holder(of token: Token) async throws -> Tokens.Holder? {
        let version = try await database.version()
        let now = now()
        let hash = token.hash
        let known = decisions.withLock { decisions in
            decisions.follow(version)
            return decisions.holders[hash]
        }
        // A token can end while nothing else changes.
        if let known { return known.expires > now ? known : nil }
        switch try await database.read({ try Tokens($0, now: now).look(token) }) {
        case .invalid: return nil
        case .changes: return try await database.transaction { try Tokens($0, now: now).show(token) }
        case .valid(let holder):
            // The look was at this version or a later one, and a later one makes the gate forget.
            decisions.withLock { if $0.version == version { $0.holders[hash] = holder } }
            return holder
        }
    }

    /// Whether the server admits a provider's user, whom it records at first sight.
    private func isAdmitted(_ user: String) async throws -> Bool {
        let version = try await database.version()
        let isKnown = decisions.withLock { decisions in
            decisions.follow(version)
            return decisions.admissions.contains(user)
        }
        if isKnown { return true }
        let now = now()
        let isAdmitted = try await database.transaction { try Members($0, now: now).admit(user) }
        // The first sight changes the database, so the next request reads the user anew.
        if isAdmitted { decisions.withLock { if $0.version == version { $0.admissions.insert(user) } } }
        return isAdmitted
    }

    // MARK: Zones

    /// Returns the access of a member, or the access that needs no membership, if that is the stronger one.
    ///
    /// The zone `~` is the private zone of the sender, which the server makes at the first request.
    public func access(of caller: Caller, to zone: String) async throws -> ZoneAccess {
        let rights = policy.withLock { $0.rights(in: zone) }
        guard case .user(let user) = caller else {
            guard rights.isOpenToAnonymous else { throw Self.signInNeeded }
            return ZoneAccess(zone: zone, caller: caller, role: .reader)
        }
        let zone = zone == ZoneName.ownZone ? try await ownZone(of: user.id) : zone
        do {
            let role = try await role(of: user.id, in: zone)
            return ZoneAccess(zone: zone, caller: caller, role: max(role, rights.ofUsers ?? role))
        } catch let error as TidemarkError where error.code == .unknownZone || error.code == .accessRevoked {
            guard let role = rights.ofUsers else { throw error }
            return ZoneAccess(zone: zone, caller: caller, role: role)
        }
    }

    /// Returns the role of a member of a zone, whose tables are made first if that is still to be done.
    ///
    /// - Throws: The refusal of everybody else.
    private func role(of user: String, in zone: String) async throws -> Role {
        // No zone has such a name, and PostgreSQL takes no text with NUL.
        guard !zone.utf8.contains(0) else { throw Self.unknownZone }
        let version = try await database.version()
        let membership = Membership(user: user, zone: zone)
        let known = decisions.withLock { decisions in
            decisions.follow(version)
            return decisions.roles[membership]
        }
        if let known { return known }
        let now = now()
        let (standing, record) = try await database.read { statements in
            let standing = try Members(statements, now: now).standing(of: user, in: zone)
            let mayKnow = standing != .stranger || planted(PlantedBug.namesForeignZones)
            return (standing, mayKnow ? try Zones(statements, now: now).zone(zone) : nil)
        }
        guard case .member(let role) = standing else {
            let mayKnow = standing == .former || record != nil
            throw mayKnow && record?.life != .deleted ? Self.accessRevoked : Self.unknownZone
        }
        guard record?.life != .deleted else { throw Self.zoneGone }
        if let record { try await registry?.prepare(record) }
        decisions.withLock { if $0.version == version { $0.roles[membership] = role } }
        return role
    }

    private func ownZone(of user: String) async throws -> String {
        guard let registry else { throw Self.unknownZone }
        let version = try await database.version()
        let known = decisions.withLock { decisions in
            decisions.follow(version)
            return decisions.ownZones[user]
        }
        if let known { return known }
        let zone = try await registry.ownZone(of: user)
        decisions.withLock { if $0.version == version { $0.ownZones[user] = zone.name } }
        return zone.name
    }

    // MARK: Refusals

    static let signInNeeded = TidemarkError(
        .signInNeeded,
        "This server requires a valid token.",
        fix: "Send Authorization: Bearer and a token; the server's operator issues one by `tidemark user add`."
    )

    static let unknownZone = TidemarkError(
        .unknownZone,
        "There is no zone of that name that you may read.",
        fix: "Check the zone's name, or ask one of its owners to invite you."
    )

    private static let accessRevoked = TidemarkError(
        .accessRevoked,
        "You are no longer a member of this zone.",
        fix: "Ask an owner of the zone to invite you again; unsent changes are kept on the device."
    )

    private static let zoneGone = TidemarkError(
        .zoneGone,
        "This zone was deleted by one of its owners.",
        fix: "The server's operator can restore it for a time; unsent changes are kept on the device."
    )
}
