/// Who may have rights in a zone.
public enum ZoneKind: String, CaseIterable, Codable, Hashable, Sendable {
    /// Its one member, for whom the server made it.
    case `private`
    /// Its members, who are invited.
    case shared
    /// Everybody who is signed in may read it; members write.
    case `public`

    /// The user's own private zone, in a path or a command; the server answers with the zone's name.
    package static let privateAlias = "~"
}
