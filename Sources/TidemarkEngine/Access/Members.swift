package import TidemarkCore

/// Users and their rights in zones, in one transaction of the caller.
package struct Members {
    private let database: any AccessStatements
    private let now: Int64

    /// The most bytes of a user's id.
    package static let userBytesMax = 255

    /// A user, as lists show it.
    package struct User: Hashable, Sendable {
        /// The id.
        package let id: String
        /// The time when the server first knew it, in milliseconds since 1970.
        package let created: Int64
        /// Whether the user is refused.
        package let isDisabled: Bool
        /// The rights by zone.
        package let roles: [String: Role]
    }

    /// The rights of a user in a zone.
    package enum Standing: Hashable, Sendable {
        /// The user never was a member.
        case stranger
        /// The user was a member.
        case former
        /// The user is a member.
        case member(Role)
    }

    package init(_ database: any AccessStatements, now: Int64) {
        self.database = database
        self.now = now
    }

    /// Adds a user; one that is there stays as it is.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for an id that is empty, too long, or has
    ///   control characters.
    package func add(_ user: String) throws {
        guard (1...Self.userBytesMax).contains(user.utf8.count), user != "~",
            !user.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else {
            throw TidemarkError(
                .invalidArgument,
                "A user's name has 1 to \(Self.userBytesMax) bytes, without control characters.",
                fix: "Choose a name such as anna."
            )
        }
        let added = try database.rows(
            "INSERT INTO tidemark_user (id, created) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id",
            [user, "\(now)"]
        )
        if !added.isEmpty { try Audit(database, now: now).append(.userAdded, subject: user) }
    }

    /// Refuses a user from now on, or admits it again.
    ///
    /// - Returns: Whether there is such a user.
    package func set(_ user: String, isDisabled: Bool) throws -> Bool {
        let rows = try database.rows(
            "UPDATE tidemark_user SET disabled = $1 WHERE id = $2 RETURNING id",
            [isDisabled ? "\(now)" : nil, user]
        )
        guard !rows.isEmpty else { return false }
        try Audit(database, now: now).append(isDisabled ? .userDisabled : .userEnabled, subject: user)
        return true
    }

    /// Gives a user rights in a zone; nil takes them.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/lastOwner`` when the zone would have no owner.
    package func set(_ role: Role?, of user: String, in zone: String, by author: String? = nil) throws {
        let standing = try standing(of: user, in: zone)
        if standing == .member(.owner), role != .owner {
            let others = try database.rows(
                "SELECT 1 FROM tidemark_member WHERE zone = $1 AND role = $2 AND user_id <> $3",
                [zone, Role.owner.rawValue, user]
            )
            guard !others.isEmpty else {
                throw TidemarkError(
                    .lastOwner,
                    "\(user) is the only owner of zone \(zone).",
                    fix: "Make another member the owner first, or delete the zone."
                )
            }
        }
        try database.rows(
            """
            INSERT INTO tidemark_member (zone, user_id, role, since)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT (zone, user_id) DO UPDATE SET role = excluded.role, since = excluded.since
            """,
            [zone, user, role?.rawValue, "\(now)"]
        )
        try Audit(database, now: now)
            .append(.roleChanged, by: author, subject: user, zone: zone, detail: role?.rawValue ?? "none")
    }

    /// Returns the rights of a user in a zone.
    package func standing(of user: String, in zone: String) throws -> Standing {
        let rows = try database.rows(
            "SELECT role FROM tidemark_member WHERE user_id = $1 AND zone = $2",
            [user, zone]
        )
        guard let row = rows.first else { return .stranger }
        return row.text(0).flatMap(Role.init(rawValue:)).map(Standing.member) ?? .former
    }

    /// Returns all users, by id.
    package func users() throws -> [User] {
        var roles: [String: [String: Role]] = [:]
        for row in try database.rows("SELECT user_id, zone, role FROM tidemark_member WHERE role IS NOT NULL", []) {
            guard let user = row.text(0), let zone = row.text(1), let role = row.text(2).flatMap(Role.init(rawValue:))
            else { continue }
            roles[user, default: [:]][zone] = role
        }
        return try database.rows("SELECT id, created, disabled FROM tidemark_user ORDER BY id", []).map { row in
            let id = row.text(0) ?? ""
            return User(
                id: id,
                created: row.integer(1) ?? 0,
                isDisabled: row.integer(2) != nil,
                roles: roles[id] ?? [:]
            )
        }
    }
}
