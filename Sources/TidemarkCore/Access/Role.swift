/// The rights of a member in a zone; a role has all rights of the lesser ones.
public enum Role: String, CaseIterable, Codable, Comparable, Hashable, Sendable {
    /// May read the zone's rows.
    case reader
    /// May also send change sets.
    case writer
    /// May also invite, remove and promote members, and delete the zone.
    case owner

    /// Whether the first role has fewer rights than the second one.
    public static func < (first: Role, second: Role) -> Bool { first.rank < second.rank }

    /// The name in a sentence: a reader, a writer, an owner.
    package var withArticle: String { self == .owner ? "an owner" : "a \(rawValue)" }

    private var rank: Int { self == .owner ? 2 : self == .writer ? 1 : 0 }
}
