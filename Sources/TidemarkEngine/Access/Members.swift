package import TidemarkCore

/// Users and their rights in zones, in one transaction of the caller.
package struct Members: AccessCell {
    package let session: AccessSession

    package static let userBytesMax = 255

    /// A user, as lists show it.
    package struct User: Hashable, Sendable {
        package let id: String
        /// The time when the server first knew it, in milliseconds since 1970.
        package let created: Int64
        package let isDisabled: Bool
        package let roles: [String: Role]
    }

    /// The rights of a user in a zone.
    package enum Standing: Hashable, Sendable {
        /// The user never was a member.
        case stranger
        case former
        case member(Role)

        fileprivate var role: Role? { if case .member(let role) = self { role } else { nil } }
    }

    package init(_ session: AccessSession) { self.session = session }

    /// Adds a user, if new; throws `invalidArgument` for an id that is empty, too long or has control characters.
    package func add(_ user: String) throws {
        guard (1...Self.userBytesMax).contains(user.utf8.count), user != "~",
            !user.hasHiddenCharacters
        else {
            throw TidemarkError(
                .invalidArgument, "A user's name has 1 to \(Self.userBytesMax) bytes, without control characters.",
                fix: "Choose a name such as anna.")
        }
        let added = try database.rows(
            "INSERT INTO tidemark_user (id, created) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id",
            [user, "\(now)"])
        if !added.isEmpty { try audit.append(.userAdded, subject: user) }
    }

    /// Removes a user with all tokens, rights and invitations, and deletes and returns the zones without other members.
    ///
    /// A deleted zone can be restored for ``Zones/graceDuration``. What the user wrote into the zones of others stays.
    ///
    /// - Throws: `invalidArgument` for an unknown user; `lastOwner` when a zone with other members would have no owner.
    package func remove(_ user: String) throws -> [String] {
        try require(user)
        let zones = Zones(session)
        var left: [String] = []
        for name in try database.rows(
            "SELECT zone FROM tidemark_member WHERE user_id = $1 AND role IS NOT NULL ORDER BY zone", [user]
        ).compactMap({ $0.text(0) }) {
            let others = try members(of: name).filter { $0.user != user }
            if try standing(of: user, in: name) == .member(.owner), !others.isEmpty,
                !others.contains(where: { $0.role == .owner })
            {
                throw Self.lastOwner(user, of: name)
            }
            if others.isEmpty { left.append(name) }
        }
        var deleted: [String] = []
        for zone in try left.compactMap({ try zones.zone($0) }) {
            if try zones.record(.deleted, of: zone) != nil { deleted.append(zone.name) }
        }
        try database.rows(
            "UPDATE tidemark_invitation SET revoked = $1 WHERE author = $2 AND revoked IS NULL", ["\(now)", user])
        for statement in [
            // Another user of this name gets a private zone of its own.
            "UPDATE tidemark_zones SET request = zone WHERE author = $1",
            "DELETE FROM tidemark_member WHERE user_id = $1", "DELETE FROM tidemark_token WHERE user_id = $1",
            "DELETE FROM tidemark_user WHERE id = $1",
        ] { try database.rows(statement, [user]) }
        try audit.append(.userRemoved, subject: user)
        return deleted
    }

    func isKnown(_ user: String) throws -> Bool {
        try !database.rows("SELECT 1 FROM tidemark_user WHERE id = $1", [user]).isEmpty
    }

    func isDisabled(_ user: String) throws -> Bool {
        try !database.rows("SELECT 1 FROM tidemark_user WHERE id = $1 AND disabled IS NOT NULL", [user]).isEmpty
    }

    /// Throws `invalidArgument` when there is no such user.
    package func require(_ user: String) throws {
        guard try !isKnown(user) else { return }
        throw TidemarkError(
            .invalidArgument, "There is no user \(user).",
            fix: "`tidemark user list` shows all users; `tidemark user add \(user)` adds this one.")
    }

    /// Records a provider's user at first sight, and returns whether nobody has disabled it.
    package func admit(_ user: String) throws -> Bool {
        let rows = try database.rows("SELECT disabled FROM tidemark_user WHERE id = $1", [user])
        if let row = rows.first { return row.text(0) == nil }
        try add(user)
        return true
    }

    /// Refuses a user from now on, or admits it again; returns whether there is such a user.
    @discardableResult package func set(_ user: String, isDisabled: Bool) throws -> Bool {
        let rows = try database.rows("SELECT disabled FROM tidemark_user WHERE id = $1", [user])
        guard let row = rows.first else { return false }
        guard (row.integer(0) != nil) != isDisabled else { return true }
        try database.rows("UPDATE tidemark_user SET disabled = $1 WHERE id = $2", [isDisabled ? "\(now)" : nil, user])
        try audit.append(isDisabled ? .userDisabled : .userEnabled, subject: user)
        return true
    }

    /// Gives a user rights in a zone, nil takes them; nothing changes if they are so already.
    ///
    /// - Throws: `invalidArgument` for an unknown user; `lastOwner` when the zone would have no owner.
    package func set(_ role: Role?, of user: String, in zone: String, by author: String? = nil) throws {
        try require(user)
        let standing = try standing(of: user, in: zone)
        // A stranger without rights must stay one: a former member learns that the zone exists.
        guard standing.role != role else { return }
        if standing == .member(.owner), role != .owner {
            let others = try database.rows(
                "SELECT 1 FROM tidemark_member WHERE zone = $1 AND role = $2 AND user_id <> $3",
                [zone, Role.owner.rawValue, user])
            guard !others.isEmpty else { throw Self.lastOwner(user, of: zone) }
        }
        try database.rows(
            """
            INSERT INTO tidemark_member (zone, user_id, role, since)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT (zone, user_id) DO UPDATE SET role = excluded.role, since = excluded.since
            """,
            [zone, user, role?.rawValue, "\(now)"])
        try audit.append(.roleChanged, by: author, subject: user, zone: zone, detail: role?.rawValue ?? "none")
    }

    private static func lastOwner(_ user: String, of zone: String) -> TidemarkError {
        TidemarkError(
            .lastOwner, "\(user) is the only owner of zone \(zone).",
            fix: "Make another member the owner first, or delete the zone.")
    }

    package func standing(of user: String, in zone: String) throws -> Standing {
        let rows = try database.rows("SELECT role FROM tidemark_member WHERE user_id = $1 AND zone = $2", [user, zone])
        guard let row = rows.first else { return .stranger }
        return row.text(0).flatMap(Role.init(rawValue:)).map(Standing.member) ?? .former
    }

    /// Returns the members of a zone with their rights, by id.
    package func members(of zone: String) throws -> [(user: String, role: Role)] {
        try database.rows(
            "SELECT user_id, role FROM tidemark_member WHERE zone = $1 AND role IS NOT NULL ORDER BY user_id", [zone]
        ).compactMap { row in
            guard let user = row.text(0), let role = row.text(1).flatMap(Role.init(rawValue:)) else { return nil }
            return (user, role)
        }
    }

    /// Returns all users, by id.
    package func users() throws -> [User] {
        // Swift's texts are equal in any normalization, and the database's only byte for byte.
        var roles: [[UInt8]: [String: Role]] = [:]
        for row in try database.rows("SELECT user_id, zone, role FROM tidemark_member WHERE role IS NOT NULL", []) {
            guard let user = row.text(0), let zone = row.text(1), let role = row.text(2).flatMap(Role.init(rawValue:))
            else { continue }
            roles[Array(user.utf8), default: [:]][zone] = role
        }
        // Sorted here, because the order of PostgreSQL depends on the database's collation.
        return try database.rows("SELECT id, created, disabled FROM tidemark_user", []).map { row in
            let id = row.text(0) ?? ""
            return User(
                id: id, created: row.integer(1) ?? 0, isDisabled: row.integer(2) != nil,
                roles: roles[Array(id.utf8)] ?? [:])
        }.sorted { $0.id < $1.id }
    }
}
