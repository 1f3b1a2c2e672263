import TidemarkCore

/// The state of a zone.
public struct ZoneState: Hashable, Sendable {
    /// The random id of this history.
    package let epoch: String
    /// The latest revision.
    package let revision: Int64
    /// The compaction horizon: a device at an earlier revision needs a snapshot.
    package let horizon: Int64
    /// The hash of the zone's schema.
    package let schema: String
    /// The last time of the zone's hybrid clock.
    package let time: Int64

    /// Makes a state.
    package init(epoch: String, revision: Int64, horizon: Int64, schema: String, time: Int64 = 0) {
        self.epoch = epoch
        self.revision = revision
        self.horizon = horizon
        self.schema = schema
        self.time = time
    }

    /// The same zone after more revisions, or a compaction.
    package func with(revision: Int64? = nil, horizon: Int64? = nil, time: Int64? = nil) -> ZoneState {
        ZoneState(
            epoch: epoch,
            revision: revision ?? self.revision,
            horizon: horizon ?? self.horizon,
            schema: schema,
            time: time ?? self.time
        )
    }
}

/// The last request of a device that the server answered.
package struct Exchange: Hashable, Sendable {
    /// The request's session nonce; empty for a device that sends none.
    package let lap: String
    /// The device's revision after the answer.
    package let revision: Int64
    /// The user to whom the device belongs; nil for a device that only requests without identity named.
    package let user: String?

    /// The nonce of a device that the server has forgotten: none of its requests follows it.
    package static let forgottenLap = "forgotten"

    /// Makes an exchange.
    package init(lap: String, revision: Int64, user: String?) {
        self.lap = lap
        self.revision = revision
        self.user = user
    }
}

/// The stored verdict of a change set.
package struct Verdict: Hashable, Sendable {
    /// The device that sent it.
    package let device: String?
    /// The hash of its content.
    package let hash: String
    /// The revision it became, or nil when it was refused as a conflict.
    package let revision: Int64?
    /// Whether it was committed as sent, so its author only needs the new ids.
    package let isAsSent: Bool
    /// The user to whom the device belongs.
    package let owner: String?

    /// Makes a verdict.
    package init(device: String?, hash: String, revision: Int64?, isAsSent: Bool, owner: String? = nil) {
        self.device = device
        self.hash = hash
        self.revision = revision
        self.isAsSent = isAsSent
        self.owner = owner
    }
}

/// The ancestors of a change set.
package struct Ancestry: Hashable, Sendable {
    /// The revisions of its ancestors, which are the author's own changes.
    package let revisions: [Int64]
    /// Whether a direct predecessor was refused.
    package let isRefused: Bool

    /// Makes an ancestry.
    package init(revisions: [Int64], isRefused: Bool) {
        self.revisions = revisions
        self.isRefused = isRefused
    }
}

/// Change sets for a device that is behind.
package struct CatchUp: Hashable, Sendable {
    /// The change sets, JSON each.
    package let bodies: [String]
    /// The revision of the last change set, or the device's revision when there is none.
    package let revision: Int64
    /// Whether later revisions remain.
    package let hasMore: Bool

    /// Whether the device misses nothing.
    package var isEmpty: Bool { bodies.isEmpty && !hasMore }

    /// Makes a catch-up.
    package init(bodies: [String], revision: Int64, hasMore: Bool) {
        self.bodies = bodies
        self.revision = revision
        self.hasMore = hasMore
    }
}
