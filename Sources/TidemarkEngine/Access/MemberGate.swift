import Synchronization
import TidemarkCore

/// The gate of a server with users: tokens say who sends a request, and memberships what they may do.
///
/// Decisions are kept until the database of users changes, so a request with a known token reads
/// nothing but that database's version. A revocation counts for every request that begins after its
/// commit, on every node.
public final class MemberGate: AccessGate, TokenIssuer {
    private let database: any AccessDatabase
    private let now: @Sendable () -> Int64
    private let random: @Sendable () -> any RandomNumberGenerator & Sendable
    private let decisions = Mutex(Decisions())

    /// The decisions that hold for one version of the database.
    private struct Decisions {
        var version: Int64 = -1
        var holders: [String: Tokens.Holder] = [:]
        var standings: [Membership: Members.Standing] = [:]

        static let countMax = 10_000

        /// Forgets everything if the database has changed, or if there is too much to remember.
        mutating func follow(_ newVersion: Int64) {
            guard version != newVersion || holders.count + standings.count > Self.countMax else { return }
            self = Decisions(version: newVersion)
        }
    }

    private struct Membership: Hashable {
        let user: String
        let zone: String
    }

    package init(
        _ database: any AccessDatabase,
        now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> any RandomNumberGenerator & Sendable = { SystemRandomNumberGenerator() }
    ) {
        self.database = database
        self.now = now
        self.random = random
    }

    /// Returns the user who holds the token; anonymous without one.
    public func caller(token: String?) async throws -> Caller {
        guard let text = token else { return .anonymous }
        guard let token = Token(text), let holder = try await holder(of: token) else { throw Self.signInNeeded }
        return .user(
            Caller.User(id: holder.user, expires: holder.expires, isAdministrator: holder.kind == .administrator)
        )
    }

    /// Returns the access of a member.
    public func access(of caller: Caller, to zone: String) async throws -> ZoneAccess {
        guard case .user(let user) = caller else { throw Self.signInNeeded }
        switch try await standing(of: Membership(user: user.id, zone: zone)) {
        case .stranger: throw Self.unknownZone
        case .former:
            throw TidemarkError(
                .accessRevoked,
                "You are no longer a member of this zone.",
                fix: "Ask an owner of the zone to invite you again; unsent changes are kept on the device."
            )
        case .member(let role): return ZoneAccess(zone: zone, caller: caller, role: role)
        }
    }

    /// Returns the holder of a token that may be exchanged; the token counts as shown.
    package func holder(of token: Token) async throws -> Tokens.Holder? {
        let version = try await database.version()
        let now = now()
        let hash = token.hash
        let known = decisions.withLock { decisions in
            decisions.follow(version)
            return decisions.holders[hash]
        }
        // A token can end while nothing else changes.
        if let known { return known.expires > now ? known : nil }
        guard let holder = try await database.transaction({ try Tokens($0, now: now).show(token) }) else { return nil }
        // The first use changes the database, so the next request reads the holder anew.
        if !holder.isFirst { decisions.withLock { if $0.version == version { $0.holders[hash] = holder } } }
        return holder
    }

    /// Exchanges a valid token for a device token.
    public func exchange(_ token: String, device: String) async throws -> IssuedToken {
        guard let shown = Token(token), let holder = try await holder(of: shown) else { throw Self.signInNeeded }
        let now = now()
        let random = random
        let issued = try await database.transaction { statements in
            var generator = random()
            return try Tokens(statements, now: now).exchange(holder, device: device, using: &generator)
        }
        return IssuedToken(token: issued.text, expires: now + Tokens.deviceDuration, user: holder.user)
    }

    /// Revokes a valid token.
    public func revoke(_ token: String) async throws {
        guard let shown = Token(token), let holder = try await holder(of: shown) else { throw Self.signInNeeded }
        let now = now()
        try await database.transaction { statements in
            try Tokens(statements, now: now).revoke(id: holder.token)
            try Audit(statements, now: now).append(.tokenRevoked, by: holder.user, subject: holder.token)
        }
    }

    private func standing(of membership: Membership) async throws -> Members.Standing {
        let version = try await database.version()
        let known = decisions.withLock { decisions in
            decisions.follow(version)
            return decisions.standings[membership]
        }
        if let known { return known }
        let now = now()
        let standing = try await database.transaction {
            try Members($0, now: now).standing(of: membership.user, in: membership.zone)
        }
        decisions.withLock { if $0.version == version { $0.standings[membership] = standing } }
        return standing
    }

    private static let signInNeeded = TidemarkError(
        .signInNeeded,
        "This server requires a valid token.",
        fix: "Send Authorization: Bearer and a token; the server's operator issues one by `tidemark user add`."
    )

    private static let unknownZone = TidemarkError(
        .unknownZone,
        "There is no zone of that name that you may read.",
        fix: "Check the zone's name, or ask one of its owners to invite you."
    )
}
