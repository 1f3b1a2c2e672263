package import TidemarkCore

/// The answer to a sync request.
package struct SyncAnswer: Hashable, Sendable {
    /// The device's revision after it applies the answer.
    package let maxRevision: Int64
    /// The zone's state.
    package let zone: ZoneState
    /// Whether later revisions remain.
    package let hasMore: Bool
    /// The fingerprint of the zone's rows at ``maxRevision``, if it is known.
    package let fingerprint: Fingerprint?
    /// Notes of overruled values, JSON each.
    package let overruled: [String]
    /// The ids that the device is lent, by table.
    package let lent: [String: [LentIDs]]
    /// How much of the device's own change sets the answer repeats.
    package let echo: SyncRequest.Echo
    /// The change sets, JSON each, in the order in which they are applied.
    package let changeSets: [String]

    /// Makes an answer.
    package init(
        maxRevision: Int64,
        zone: ZoneState,
        hasMore: Bool,
        fingerprint: Fingerprint?,
        overruled: [String] = [],
        lent: [String: [LentIDs]] = [:],
        echo: SyncRequest.Echo = .all,
        changeSets: [String]
    ) {
        self.maxRevision = maxRevision
        self.zone = zone
        self.hasMore = hasMore
        self.fingerprint = fingerprint
        self.overruled = overruled
        self.lent = lent
        self.echo = echo
        self.changeSets = changeSets
    }

    /// The answer as JSON.
    package var text: String {
        let notes = overruled.isEmpty ? "" : #""overruled":[\#(overruled.joined(separator: ","))],"#
        let fingerprintMember = fingerprint.map { #""fingerprint":"\#($0)","# } ?? ""
        let lent = lent.isEmpty ? "" : #""lent":{\#(lentMembers.joined(separator: ","))},"#
        let echo =
            switch echo {
            case .all: ""
            case .ids: #""echo":"ids","#
            }
        return #"{"maxRevision":\#(maxRevision),"epoch":"\#(zone.epoch)","schema":"\#(zone.schema)","#
            + #""more":\#(hasMore),\#(echo)\#(fingerprintMember)\#(notes)\#(lent)"#
            + #""changeSets":[\#(changeSets.joined(separator: ","))]}"#
    }

    /// Each table's lent ids: arrays of first, last, stride and width.
    private var lentMembers: [String] {
        lent.sorted { $0.key < $1.key }.map { table, ids in
            let list = ids.map { "[\($0.first),\($0.last),\($0.stride),\($0.width)]" }.joined(separator: ",")
            return "\(JSONText.quote(table)):[\(list)]"
        }
    }
}
