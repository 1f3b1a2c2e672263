public import TidemarkCore

/// A zone of a user, as the server lists it.
public struct ZoneSummary: Hashable, Sendable, Codable {
    /// The zone's name: `main`, or `z_` and 26 random characters; ``SyncAccount`` calls the private one `~`.
    public internal(set) var zone: String
    /// Who may have rights in the zone.
    public let kind: ZoneKind
    /// The name for people; nil if it has none.
    public let title: String?
    /// The user's own role.
    public let role: Role
    /// The number of members; nil for a user who is none, in a zone that is open to everybody.
    public let members: Int?
    /// The zone's history; nil for a zone that nobody has used yet.
    public let epoch: String?
    /// The zone's latest revision; nil for a zone that nobody has used yet.
    public let revision: Int64?

    var latest: ZoneRevision? {
        guard let epoch, let revision else { return nil }
        return ZoneRevision(zone: zone, epoch: epoch, revision: revision)
    }
}

/// A member of a zone.
public struct ZoneMember: Hashable, Sendable, Codable {
    /// The user's id.
    public let user: String
    /// The user's role.
    public let role: Role
}

/// An invitation that can still be accepted; its secret is known only to those who have its link.
public struct OpenInvitation: Hashable, Sendable, Codable {
    /// The id by which an owner revokes it.
    public let id: String
    /// The role that it gives.
    public let role: Role
    /// How many people can still accept it.
    public let uses: Int
    /// The time when it ends, in milliseconds since 1970.
    public let expires: Int64
}

/// The zone and the role that an invitation has given.
public struct Membership: Hashable, Sendable, Codable {
    /// The zone's name.
    public let zone: String
    /// The role.
    public let role: Role
}
