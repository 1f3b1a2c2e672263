package import TidemarkCore

/// Makes, accepts and revokes invitations to zones, in one transaction of the caller.
package struct Invitations: AccessCell {
    package let session: AccessSession

    /// How long an invitation can be accepted without another choice, in days.
    package static let daysDefault: Int64 = 7
    /// The longest time for which an invitation can be accepted, in days.
    package static let daysMax: Int64 = 365
    /// The most people who can accept one invitation.
    package static let usesMax: Int64 = 1_000
    private static let day: Int64 = 86_400_000

    /// An invitation, as owners see it in a list.
    package struct Invitation: Hashable, Sendable {
        /// The public part of its secret.
        package let id: String
        /// The rights of those who accept it.
        package let role: Role
        /// How many more people can accept it.
        package let uses: Int64
        /// The moment when it ends, in milliseconds since 1970.
        package let expires: Int64
    }

    package init(_ session: AccessSession) { self.session = session }

    /// Makes an invitation; throws `invalidArgument` for uses or days outside their bounds.
    package func make(
        to zone: String, as role: Role, uses: Int64, days: Int64, by user: String,
        using generator: inout some RandomNumberGenerator
    ) throws -> Token {
        guard (1...Self.usesMax).contains(uses), (1...Self.daysMax).contains(days) else {
            throw TidemarkError(
                .invalidArgument, "An invitation is for 1 to \(Self.usesMax) people and 1 to \(Self.daysMax) days.",
                fix: "Choose uses and days within these bounds.")
        }
        let token = Token.make(.invitation, using: &generator)
        try database.rows(
            """
            INSERT INTO tidemark_invitation (id, zone, role, hash, uses, author, created, expires)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            """,
            [
                token.id, zone, role.rawValue, token.hash, "\(uses)",
                user, "\(now)", "\(now + days * Self.day)",
            ])
        try audit.append(.invitationMade, by: user, subject: token.id, zone: zone, detail: role.rawValue)
        return token
    }

    /// Makes a user a member by an invitation, and returns the zone and the member's role.
    ///
    /// A member who accepts again keeps the higher role, and uses the invitation up no further.
    ///
    /// - Throws: `invitationInvalid` for a secret that is unknown, used up, expired or revoked, or of a deleted zone.
    package func accept(_ token: Token, by user: String) throws -> (zone: String, role: Role) {
        let rows = try database.rows(
            """
            SELECT invitation.id, invitation.zone, invitation.role, invitation.uses
            FROM tidemark_invitation AS invitation
            JOIN tidemark_zones AS zone ON zone.zone = invitation.zone
            WHERE invitation.hash = $1
                AND invitation.expires > CAST($2 AS BIGINT)
                AND invitation.revoked IS NULL
                AND zone.state <> $3
            """,
            [token.hash, "\(now)", ZoneLife.deleted.rawValue])
        guard token.kind == .invitation, let row = rows.first, let id = row.text(0), let zone = row.text(1),
            let role = row.text(2).flatMap(Role.init(rawValue:)), let uses = row.integer(3)
        else { throw Self.invalid }
        if case .member(let current) = try members.standing(of: user, in: zone), current >= role || uses < 1 {
            return (zone, current)
        }
        guard uses > 0 || planted(PlantedBug.invitationTwice) else { throw Self.invalid }
        try database.rows("UPDATE tidemark_invitation SET uses = uses - 1 WHERE id = $1", [id])
        try members.set(role, of: user, in: zone, by: user)
        try audit.append(.invitationAccepted, by: user, subject: id, zone: zone)
        return (zone, role)
    }

    /// Ends an invitation, and returns whether the zone has it.
    package func revoke(_ id: String, of zone: String, by user: String) throws -> Bool {
        let rows = try database.rows(
            "UPDATE tidemark_invitation SET revoked = $1 WHERE id = $2 AND zone = $3 AND revoked IS NULL RETURNING id",
            ["\(now)", id, zone])
        guard !rows.isEmpty else { return false }
        try audit.append(.invitationRevoked, by: user, subject: id, zone: zone)
        return true
    }

    /// Returns the invitations to a zone that can still be accepted.
    package func open(to zone: String) throws -> [Invitation] {
        try database.rows(
            """
            SELECT id, role, uses, expires
            FROM tidemark_invitation
            WHERE zone = $1 AND revoked IS NULL AND uses > 0 AND expires > CAST($2 AS BIGINT)
            ORDER BY created
            """,
            [zone, "\(now)"]
        ).compactMap { row in
            guard let id = row.text(0), let role = row.text(1).flatMap(Role.init(rawValue:)) else { return nil }
            return Invitation(id: id, role: role, uses: row.integer(2) ?? 0, expires: row.integer(3) ?? 0)
        }
    }

    static let invalid = TidemarkError(
        .invitationInvalid, "This invitation cannot be accepted: it is unknown, used up, expired or revoked.",
        fix: "Ask the person who sent it for a new one.")
}
