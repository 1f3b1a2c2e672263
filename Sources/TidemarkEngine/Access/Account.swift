public import TidemarkCore

/// A user's own view of the rights and devices at a server: `GET /me`.
public struct Account: Hashable, Sendable, Encodable {
    /// The rights in one zone.
    public struct Membership: Hashable, Sendable, Encodable {
        /// The zone.
        public let zone: String
        /// The rights.
        public let role: Role
    }

    /// A token that one of the user's devices holds.
    public struct Device: Hashable, Sendable, Encodable {
        /// The token's id.
        public let id: String
        /// The device that the token was issued to; nil for a token that the operator issued.
        public let device: String?
        /// The time of its issue, in milliseconds since 1970.
        public let created: Int64
        /// The moment when it ends, in milliseconds since 1970.
        public let expires: Int64
    }

    /// The user's id.
    public let user: String
    /// The rights, by zone.
    public let roles: [Membership]
    /// The tokens of devices that are good now, oldest first.
    public let devices: [Device]

    package init(of user: String, from database: any AccessStatements, now: Int64) throws {
        self.user = user
        roles = try database.rows(
            "SELECT zone, role FROM tidemark_member WHERE user_id = $1 AND role IS NOT NULL ORDER BY zone", [user]
        ).compactMap { row in
            guard let zone = row.text(0), let role = row.text(1).flatMap(Role.init(rawValue:)) else { return nil }
            return Membership(zone: zone, role: role)
        }
        devices = try TokenRegister(database).entries(of: user).filter { $0.kind == .device && $0.canAct(at: now) }
            .map { Device(id: $0.id, device: $0.device, created: $0.created, expires: $0.expires) }
    }
}
