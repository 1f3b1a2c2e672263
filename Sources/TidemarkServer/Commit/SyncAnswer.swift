public import TidemarkCore

/// What a round of synchronisation is answered with.
public struct SyncAnswer: Hashable, Sendable {
    /// The revision that the device is at when it has applied all of this.
    public let maxRevision: Int64
    /// What the zone is at.
    public let zone: ZoneState
    /// Whether revisions are left.
    public let hasMore: Bool
    /// That of the zone's rows at ``maxRevision``, if it is known.
    public let fingerprint: Fingerprint?
    /// Notes of overruled values, JSON each.
    public let overruled: [String]
    /// How much of the device's own change sets is in it.
    public let echo: SyncRequest.Echo
    /// The change sets, JSON each, in the order in which they are applied.
    public let changeSets: [String]

    /// Makes an answer.
    public init(
        maxRevision: Int64,
        zone: ZoneState,
        hasMore: Bool,
        fingerprint: Fingerprint?,
        overruled: [String] = [],
        echo: SyncRequest.Echo = .all,
        changeSets: [String]
    ) {
        self.maxRevision = maxRevision
        self.zone = zone
        self.hasMore = hasMore
        self.fingerprint = fingerprint
        self.overruled = overruled
        self.echo = echo
        self.changeSets = changeSets
    }

    /// The answer as it is sent.
    public var text: String {
        let notes = overruled.isEmpty ? "" : #""overruled":[\#(overruled.joined(separator: ","))],"#
        let print = fingerprint.map { #""fingerprint":"\#($0)","# } ?? ""
        let echo =
            switch echo {
            case .all: ""
            case .ids: #""echo":"ids","#
            case .verdicts: #""answer":"verdicts","#
            }
        return #"{"maxRevision":\#(maxRevision),"epoch":"\#(zone.epoch)","schema":"\#(zone.schema)","#
            + #""more":\#(hasMore),\#(echo)\#(print)\#(notes)"#
            + #""changeSets":[\#(changeSets.joined(separator: ","))]}"#
    }
}
