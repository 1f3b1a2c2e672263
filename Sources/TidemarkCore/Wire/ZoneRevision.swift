/// A zone's epoch and latest revision, as pushed to listeners.
public struct ZoneRevision: Hashable, Sendable, Codable {
    /// The zone's name.
    public let zone: String
    /// The epoch.
    public let epoch: String
    /// The latest revision in the epoch.
    public let revision: Int64

    /// Creates a zone's revision.
    public init(zone: String, epoch: String, revision: Int64) {
        self.zone = zone
        self.epoch = epoch
        self.revision = revision
    }

    /// Parses an event's id, `epoch:revision`; nil for any other text.
    public init?(zone: String, id: String) {
        guard let colon = id.lastIndex(of: ":"), colon != id.startIndex,
            let revision = Int64(id[id.index(after: colon)...]), revision >= 0
        else { return nil }
        self.init(zone: zone, epoch: String(id[..<colon]), revision: revision)
    }

    /// The id of an event, `epoch:revision`, with which a listener resumes the stream.
    public var id: String { "\(epoch):\(revision)" }

    /// Whether this revision is new to a listener at the revision `listener`, or at none.
    ///
    /// In the same epoch a lower revision is an older message that arrived late.
    public func isNews(to listener: ZoneRevision?) -> Bool {
        guard let listener, listener.epoch == epoch else { return true }
        return revision > listener.revision
    }
}
