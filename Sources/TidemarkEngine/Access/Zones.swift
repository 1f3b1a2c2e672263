package import TidemarkCore

/// Makes, lists and deletes zones, in one transaction of the caller.
package struct Zones: AccessCell {
    package let session: AccessSession

    /// How long a deleted zone can be restored, in milliseconds: 30 days.
    package static let graceDuration: Int64 = 30 * 86_400_000
    package static let titleBytesMax = 255
    package static let zonesPerUserMax = 1_000
    private static let ownZoneRequest = "~"

    package struct Zone: Hashable, Sendable {
        package let name: String
        /// Who may have rights in it.
        package let kind: ZoneKind
        /// What people call it.
        package let title: String?
        /// The user who made it; nil for a zone that the operator named.
        package let author: String?
        package let life: ZoneLife
        /// When it was deleted, in milliseconds since 1970.
        package let deleted: Int64?
    }

    /// A zone as a user sees it in a list.
    package struct Membership: Hashable, Sendable {
        package let zone: Zone
        package let role: Role
        /// The number of members; nil for a user who is none, and sees no members.
        package let members: Int64?
    }

    package init(_ session: AccessSession) { self.session = session }

    /// Returns the user's private zone, planned if it is missing; a deleted one keeps rows and name for a restore.
    package func ownZone(of user: String, using generator: inout some RandomNumberGenerator) throws -> Zone {
        let known = try zones("author = $1 AND request = $2", [user, Self.ownZoneRequest]).first
        if known?.life == .deleted {
            try database.rows("UPDATE tidemark_zones SET request = zone WHERE zone = $1", [known?.name])
        }
        return try make(.private, title: nil, by: user, request: Self.ownZoneRequest, using: &generator)
    }

    /// Plans a zone, whose author becomes its owner; a repeated request returns the zone of the first one.
    ///
    /// - Throws: `invalidArgument` for a title that is too long or too many zones.
    package func make(
        _ kind: ZoneKind, title: String?, by user: String, request: String,
        using generator: inout some RandomNumberGenerator
    ) throws -> Zone {
        try Self.check(title)
        let known = try zones("author = $1 AND request = $2", [user, request])
        if let zone = known.first { return zone }
        let count = try database.rows("SELECT count(*) FROM tidemark_zones WHERE author = $1", [user])
        guard count.first?.integer(0) ?? 0 < Self.zonesPerUserMax else {
            throw TidemarkError(
                .invalidArgument, "One user may make \(Self.zonesPerUserMax) zones.",
                fix: "Delete one that is not needed.")
        }
        let zone = Zone(
            name: ZoneName.make(using: &generator), kind: kind, title: title, author: user, life: .planned, deleted: nil
        )
        try database.rows(
            """
            INSERT INTO tidemark_zones (zone, kind, title, author, request, created, state)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [zone.name, kind.rawValue, title, user, request, "\(now)", zone.life.rawValue])
        try audit.append(.zoneMade, by: user, zone: zone.name, detail: kind.rawValue)
        try members.set(.owner, of: user, in: zone.name, by: user)
        return zone
    }

    /// Returns a zone; nil for one that was not made while the server ran.
    package func zone(_ name: String) throws -> Zone? { try zones("zone = $1", [name]).first }
    /// Returns all zones, oldest first.
    package func all() throws -> [Zone] { try zones("zone <> $1", [""]) }
    package func zones(in life: ZoneLife) throws -> [Zone] { try zones("state = $1", [life.rawValue]) }

    /// Returns a user's zones with the user's roles: those that the operator named, then the others, oldest first.
    package func memberships(of user: String) throws -> [Membership] {
        let owner = planted(PlantedBug.titlesOfAnybody) ? "zone.author AND $1 = $1" : "$1"
        return try database.rows(
            """
            SELECT \(Self.columns), member.role,
                (SELECT count(*) FROM tidemark_member AS other
                    WHERE other.zone = member.zone AND other.role IS NOT NULL), member.zone
            FROM tidemark_member AS member
            LEFT JOIN tidemark_zones AS zone ON zone.zone = member.zone
            WHERE member.user_id = \(owner) AND member.role IS NOT NULL AND COALESCE(zone.state, '') <> $2
            ORDER BY COALESCE(zone.created, 0), member.zone
            """,
            [user, ZoneLife.deleted.rawValue]
        ).compactMap { row in
            let named = row.text(8).map {
                Zone(name: $0, kind: .shared, title: nil, author: nil, life: .ready, deleted: nil)
            }
            guard let zone = Self.zone(row) ?? named, let role = row.text(6).flatMap(Role.init(rawValue:)) else {
                return nil
            }
            return Membership(zone: zone, role: role, members: row.integer(7))
        }
    }

    /// Returns a user's zones that are not deleted, oldest first, and then those that are open to everybody.
    ///
    /// The stronger one of a membership and the role in `openZones` counts.
    package func memberships(of user: String, besides openZones: [String: Role]) throws -> [Membership] {
        // A zone of everybody that the operator named is listed as one of everybody, also for its members.
        var list = try memberships(of: user).filter { membership in
            membership.zone.author != nil
                || !openZones.keys.contains { $0.utf8.elementsEqual(membership.zone.name.utf8) }
        }
        for (name, role) in openZones.sorted(by: { $0.key < $1.key }) {
            if let index = list.firstIndex(where: { $0.zone.name.utf8.elementsEqual(name.utf8) }) {
                let own = list[index]
                list[index] = Membership(zone: own.zone, role: max(own.role, role), members: own.members)
                continue
            }
            let known = try zone(name)
            guard known?.life ?? .ready == .ready else { continue }
            let zone = Zone(
                name: name, kind: .public, title: known?.title, author: known?.author, life: .ready, deleted: nil)
            guard case .member(let own) = try members.standing(of: user, in: name) else {
                list.append(Membership(zone: zone, role: role, members: nil))
                continue
            }
            let count = try members.members(of: name).count
            list.append(Membership(zone: zone, role: max(own, role), members: Int64(count)))
        }
        return list
    }

    /// Returns the zones with tables in which a user has or had a role, also those that the operator made.
    package func names(everOf user: String) throws -> [String] {
        try database.rows(
            """
            SELECT member.zone
            FROM tidemark_member AS member
            LEFT JOIN tidemark_zones AS zone ON zone.zone = member.zone
            WHERE member.user_id = $1 AND COALESCE(zone.state, $2) = $2
            """,
            [user, ZoneLife.ready.rawValue]
        ).compactMap { $0.text(0) }
    }

    /// Records an event in the life of a zone, and returns the state after it; nil if the event cannot happen.
    @discardableResult package func record(_ event: ZoneLife.Event, of zone: Zone, by user: String? = nil) throws
        -> ZoneLife?
    {
        guard let life = zone.life.after(event) else { return nil }
        guard life != zone.life else { return life }
        try database.rows(
            "UPDATE tidemark_zones SET state = $1, deleted = $2 WHERE zone = $3",
            [life.rawValue, life == .deleted ? "\(now)" : nil, zone.name])
        switch event {
        case .made: break
        case .deleted: try audit.append(.zoneDeleted, by: user, zone: zone.name)
        case .restored: try audit.append(.zoneRestored, by: user, zone: zone.name)
        }
        return life
    }

    package func retitle(_ zone: String, _ title: String?, by user: String) throws {
        try Self.check(title)
        try database.rows("UPDATE tidemark_zones SET title = $1 WHERE zone = $2", [title, zone])
        try audit.append(.zoneRenamed, by: user, zone: zone)
    }

    /// Removes a deleted zone from all lists; its rows must be gone.
    package func purge(_ zone: Zone) throws {
        for table in ["tidemark_invitation", "tidemark_member", "tidemark_zones"] {
            try database.rows("DELETE FROM \(table) WHERE zone = $1", [zone.name])
        }
        try audit.append(.zonePurged, zone: zone.name)
    }

    private static let columns = "zone.zone, zone.kind, zone.title, zone.author, zone.state, zone.deleted"

    private func zones(_ condition: String, _ parameters: [String?]) throws -> [Zone] {
        try database.rows(
            "SELECT \(Self.columns) FROM tidemark_zones AS zone WHERE zone.\(condition) ORDER BY zone.created",
            parameters
        ).compactMap(Self.zone)
    }

    private static func zone(_ row: AccessRow) -> Zone? {
        guard let name = row.text(0), let kind = row.text(1).flatMap(ZoneKind.init(rawValue:)),
            let author = row.text(3), let life = row.text(4).flatMap(ZoneLife.init(rawValue:))
        else { return nil }
        return Zone(name: name, kind: kind, title: row.text(2), author: author, life: life, deleted: row.integer(5))
    }

    private static func check(_ title: String?) throws {
        guard let title else { return }
        guard (1...titleBytesMax).contains(title.utf8.count), !title.hasHiddenCharacters else {
            throw TidemarkError(
                .invalidArgument,
                "A zone's title has 1 to \(titleBytesMax) bytes, without control characters; this one has "
                    + "\(title.utf8.count) bytes.", fix: "Choose a title such as Shopping; without one, leave it out.")
        }
    }
}
