/// A zone at a revision of one of its histories: what listeners are told.
public struct ZoneRevision: Hashable, Sendable, Codable {
    /// The zone's name.
    public let zone: String
    /// The history.
    public let epoch: String
    /// The latest revision in it.
    public let revision: Int64

    /// Makes a zone's revision.
    public init(zone: String, epoch: String, revision: Int64) {
        self.zone = zone
        self.epoch = epoch
        self.revision = revision
    }

    /// Reads what an event's id says, `epoch:revision`; nil for anything else.
    public init?(zone: String, id: String) {
        guard let colon = id.lastIndex(of: ":"), colon != id.startIndex,
            let revision = Int64(id[id.index(after: colon)...]), revision >= 0
        else { return nil }
        self.init(zone: zone, epoch: String(id[..<colon]), revision: revision)
    }

    /// The id of an event, by which a listener says later where it was: `epoch:revision`.
    public var id: String { "\(epoch):\(revision)" }

    /// Whether somebody who knows `known` misses something; nil knows nothing.
    ///
    /// In one history a lower revision is an older message, overtaken on its way.
    public func isNews(to known: ZoneRevision?) -> Bool {
        guard let known, known.epoch == epoch else { return true }
        return revision > known.revision
    }
}
