/// A request that waits for a zone's next commit.
package struct ZoneRequest: Hashable, Sendable {
    /// The route of a request.
    package enum Kind: Hashable, Sendable {
        /// A round of synchronisation, by ``SyncHandler``.
        case sync
        /// A comparison of rows, by ``ComparisonHandler``.
        case fingerprints
    }

    /// The route.
    package let kind: Kind
    /// The request, JSON.
    package let body: [UInt8]
    /// The rights of its sender.
    package let access: ZoneAccess

    /// Makes a request.
    package init(_ kind: Kind, body: [UInt8], access: ZoneAccess) {
        self.kind = kind
        self.body = body
        self.access = access
    }
}

/// The answer to a request, sent after its group is committed.
package struct ZoneAnswer: Hashable, Sendable {
    /// The answer, JSON.
    package let body: [UInt8]
    /// The counts of a sync request; nil for any other request.
    package let tally: SyncTally?
    /// The device that sent a sync request; nil if the request names none.
    package let device: String?
    /// The device's revision after the answer; nil for a question.
    package let revision: Int64?

    /// Makes an answer.
    package init(body: [UInt8], tally: SyncTally? = nil, device: String? = nil, revision: Int64? = nil) {
        self.body = body
        self.tally = tally
        self.device = device
        self.revision = revision
    }
}

/// The answer to a request, or the error that refuses it.
package typealias ZoneResult = Result<ZoneAnswer, any Error>

extension [ZoneResult] {
    /// Whether any request has an effect; a transaction without one is rolled back, which needs no flush.
    package var haveEffect: Bool { contains { if case .success = $0 { true } else { false } } }
}

/// Counts of one sync request, for metrics.
package struct SyncTally: Hashable, Sendable {
    /// The change sets that became revisions.
    package var accepted = 0
    /// The change sets that were refused as conflicts.
    package var conflicts = 0
    /// The change sets that had a stored verdict.
    package var repeats = 0
    /// How many revisions the device was behind the zone; nil for a question.
    package var lag: Int64?

    /// Makes a tally of zeros.
    package init() {}
}
