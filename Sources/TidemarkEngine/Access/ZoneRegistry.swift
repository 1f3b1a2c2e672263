package import TidemarkCore

/// Makes, shares and deletes zones while the server runs: the asynchronous shell around ``Zones``,
/// ``Members`` and ``Invitations``.
///
/// Each function is one transaction of the database of users. Safe to use from any task.
package final class ZoneRegistry: Sendable {
    private let database: any AccessDatabase
    private let host: any ZoneHost
    private let openZones: @Sendable () -> [String: Role]
    private let now: @Sendable () -> Int64
    private let random: @Sendable () -> any RandomNumberGenerator & Sendable

    /// `openZones` returns the zones in which every signed-in user has a role; `now` is in milliseconds since 1970.
    package init(
        _ database: any AccessDatabase, host: any ZoneHost,
        openZones: @escaping @Sendable () -> [String: Role] = { [:] }, now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> any RandomNumberGenerator & Sendable = { SystemRandomNumberGenerator() }
    ) {
        self.database = database
        self.host = host
        self.openZones = openZones
        self.now = now
        self.random = random
    }

    /// Returns the private zone of a user, and makes it at the first call.
    package func ownZone(of user: String) async throws -> Zones.Zone {
        try await withGenerator { statements, now, generator in
            try Zones(statements, now: now).ownZone(of: user, using: &generator)
        }
    }

    /// Makes a shared zone, whose author becomes its owner; a repeated request returns the zone of the first.
    ///
    /// - Throws: `invalidArgument` for another kind, or a title that is too long.
    package func make(_ kind: ZoneKind, title: String?, by user: String, request: String) async throws -> Zones.Zone {
        guard kind == .shared, (1...128).contains(request.utf8.count), request != "~" else {
            throw TidemarkError(
                .invalidArgument, "A request for a zone has the kind shared and an id of 1 to 128 bytes.",
                fix: "Send kind shared and a random UUID as request.")
        }
        let zone = try await withGenerator { statements, now, generator in
            try Zones(statements, now: now).make(kind, title: title, by: user, request: request, using: &generator)
        }
        try await prepare(zone)
        return zone
    }

    /// Makes a planned zone's tables; does nothing for another one.
    package func prepare(_ zone: Zones.Zone) async throws {
        guard zone.life == .planned else { return }
        try await host.makeZone(zone.name)
        try await transaction { statements, now in
            let zones = Zones(statements, now: now)
            // An owner can have deleted the zone meanwhile.
            guard let current = try zones.zone(zone.name) else { return }
            try zones.record(.made, of: current)
        }
    }

    /// Returns a user's zones with the user's roles: the own ones, oldest first, then those of everybody, by name.
    package func memberships(of user: String) async throws -> [Zones.Membership] {
        let openZones = openZones()
        return try await transaction { try Zones($0, now: $1).memberships(of: user, besides: openZones) }
    }

    package func retitle(_ access: ZoneAccess, _ title: String?) async throws {
        let user = try owner(access)
        try await transaction { statements, now in
            let zones = Zones(statements, now: now)
            guard try zones.zone(access.zone) != nil else { throw Self.fixedZone }
            try zones.retitle(access.zone, title, by: user)
        }
    }

    /// Deletes a zone; the operator can restore it for ``Zones/graceDuration``.
    package func delete(_ access: ZoneAccess) async throws {
        let user = try owner(access)
        try await transaction { statements, now in
            let zones = Zones(statements, now: now)
            guard let zone = try zones.zone(access.zone) else { throw Self.fixedZone }
            guard zone.kind == .shared else {
                throw TidemarkError(
                    .notAllowed, "A private zone stays for as long as its user.",
                    fix: "Delete its records; the server's operator removes the user with the zone.")
            }
            try zones.record(.deleted, of: zone, by: user)
        }
    }

    /// Removes the rows of the zones that were deleted long ago, and returns their names.
    package func purge(deletedFor duration: Int64 = Zones.graceDuration) async throws -> [String] {
        let end = now() - duration
        let zones = try await transaction { try Zones($0, now: $1).zones(in: .deleted) }
        var names: [String] = []
        for zone in zones where zone.deleted ?? .max <= end {
            // The rows go first: a server that is killed between the two removes them again.
            try await host.removeZone(zone.name)
            try await transaction { try Zones($0, now: $1).purge(zone) }
            names.append(zone.name)
        }
        return names
    }

    /// Returns the members of a zone with their rights, by id.
    package func members(_ access: ZoneAccess) async throws -> [(user: String, role: Role)] {
        try await transaction { statements, now in
            let members = Members(statements, now: now)
            let list = try members.members(of: access.zone)
            // Everybody reads a public zone; who is a member of it is the members' affair.
            guard access.caller.isAdministrator || list.contains(where: { $0.user == access.caller.userID }) else {
                throw Self.notAllowed("see its members", by: "a member")
            }
            return list
        }
    }

    /// Changes the rights of a member; anybody else becomes one by accepting an invitation.
    ///
    /// - Throws: The same error for a user outside the zone and an unknown name, so that an owner cannot try names.
    package func set(_ role: Role, of user: String, _ access: ZoneAccess) async throws {
        let author = try owner(access)
        try await transaction { statements, now in
            try Self.requireShared(access.zone, in: statements, now: now)
            let members = Members(statements, now: now)
            guard case .member = try members.standing(of: user, in: access.zone) else { throw Self.noMember }
            try members.set(role, of: user, in: access.zone, by: author)
        }
    }

    /// Ends a membership: owners remove members, and members leave; throws `lastOwner` for the only owner.
    package func remove(_ user: String, _ access: ZoneAccess) async throws {
        let author = user == access.caller.userID ? user : try owner(access)
        try await transaction { statements, now in
            try Self.requireShared(access.zone, in: statements, now: now)
            let members = Members(statements, now: now)
            guard case .member = try members.standing(of: user, in: access.zone) else { return }
            try members.set(nil, of: user, in: access.zone, by: author)
        }
    }

    /// Makes an invitation to a shared zone, and returns the secret, which is not shown again.
    package func invite(_ access: ZoneAccess, as role: Role, uses: Int64, days: Int64) async throws -> String {
        let user = try owner(access)
        return try await withGenerator { statements, now, generator in
            try Self.requireShared(access.zone, in: statements, now: now)
            return try Invitations(statements, now: now)
                .make(to: access.zone, as: role, uses: uses, days: days, by: user, using: &generator).text
        }
    }

    /// Makes a user a member by the secret of an invitation; throws `invitationInvalid`.
    package func accept(_ secret: String, by user: String) async throws -> (zone: String, role: Role) {
        try await transaction { statements, now in
            guard let token = Token(secret) else { throw Invitations.invalid }
            return try Invitations(statements, now: now).accept(token, by: user)
        }
    }

    /// Returns the invitations to a zone that can still be accepted.
    package func invitations(_ access: ZoneAccess) async throws -> [Invitations.Invitation] {
        _ = try owner(access)
        return try await transaction { try Invitations($0, now: $1).open(to: access.zone) }
    }

    /// Ends an invitation; does nothing if there is none of that id.
    package func revokeInvitation(_ id: String, _ access: ZoneAccess) async throws {
        let user = try owner(access)
        _ = try await transaction { try Invitations($0, now: $1).revoke(id, of: access.zone, by: user) }
    }

    /// Returns the user's id if the access is an owner's.
    private func owner(_ access: ZoneAccess) throws -> String {
        guard access.role == .owner, let user = access.caller.userID else {
            throw Self.notAllowed("change it or its members", by: "an owner")
        }
        return user
    }

    private static func requireShared(_ name: String, in statements: any AccessStatements, now: Int64) throws {
        guard let zone = try Zones(statements, now: now).zone(name) else { throw fixedZone }
        guard zone.kind == .shared else {
            throw TidemarkError(
                .notAllowed, "A private zone has one member, and stays private.",
                fix: "Make a shared zone, and move the records there.")
        }
    }

    private static func notAllowed(_ action: String, by actor: String) -> TidemarkError {
        TidemarkError(
            .notAllowed, "Only \(actor) of the zone may \(action).",
            fix: "Ask \(actor) of the zone to do it, or for the role.")
    }

    private static let noMember = TidemarkError(
        .invalidArgument, "The zone has no member of this name.",
        fix: "Invite the person by POST /zones/{zone}/invitations; who accepts becomes a member.")

    private static let fixedZone = TidemarkError(
        .notAllowed, "The operator of the server decides about this zone and its members.",
        fix: "The operator uses `tidemark user role`.")

    private func transaction<Success: Sendable>(
        _ body: @escaping @Sendable (any AccessStatements, _ now: Int64) throws -> Success
    ) async throws -> Success {
        let now = now()
        return try await database.transaction { try body($0, now) }
    }

    private func withGenerator<Success: Sendable>(
        _ body:
            @escaping @Sendable (any AccessStatements, _ now: Int64, inout any RandomNumberGenerator & Sendable) throws
            -> Success
    ) async throws -> Success {
        let random = random
        return try await transaction { statements, now in
            var generator = random()
            return try body(statements, now, &generator)
        }
    }
}
