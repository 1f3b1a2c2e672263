public import TidemarkCore

/// What has led from one revision of a zone to a later one, small enough to be told at once to
/// everybody who listens.
///
/// It is the very answer that a device with that tag would be given, so a device that has the tag
/// has nothing left to ask. Made once, and shared by all to whom it is told.
public final class ZoneChange: Sendable {
    /// What the zone was at before.
    public let base: ZoneRevision
    /// What a device has for whom it is.
    public let since: ZoneTag
    /// What the zone is at now.
    public let end: ZoneRevision
    /// The devices whose change sets are in it; they know them already.
    public let authors: Set<String>
    /// The answer, JSON, in one line.
    public let answer: String

    /// Makes a change.
    public init(base: ZoneRevision, since: ZoneTag, end: ZoneRevision, authors: Set<String>, answer: String) {
        self.base = base
        self.since = since
        self.end = end
        self.authors = authors
        self.answer = answer
    }
}

extension ZoneChange: Hashable {
    /// Whether both are one and the same: it is made once.
    public static func == (a: ZoneChange, b: ZoneChange) -> Bool { a === b }

    /// Hashes which one it is.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
