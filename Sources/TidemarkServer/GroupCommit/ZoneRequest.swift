/// A request that waits for a zone's next commit.
public struct ZoneRequest: Hashable, Sendable {
    /// What is asked for.
    public enum Kind: Hashable, Sendable {
        /// A round of synchronisation, by ``SyncHandler``.
        case sync
        /// A comparison of rows, by ``ComparisonHandler``.
        case fingerprints
    }

    /// What is asked for.
    public let kind: Kind
    /// The request, JSON.
    public let body: [UInt8]

    /// Makes a request.
    public init(_ kind: Kind, body: [UInt8]) { (self.kind, self.body) = (kind, body) }
}

/// What a request is answered once its group has been committed.
public struct ZoneAnswer: Hashable, Sendable {
    /// The answer, JSON.
    public let body: [UInt8]
    /// What a round of synchronisation was about; nil for any other request.
    public let tally: SyncTally?

    /// Makes an answer.
    public init(body: [UInt8], tally: SyncTally? = nil) {
        self.body = body
        self.tally = tally
    }
}

/// What a round of synchronisation was about, in numbers.
public struct SyncTally: Hashable, Sendable {
    /// The change sets that became revisions.
    public var accepted = 0
    /// The change sets that were refused as conflicts.
    public var conflicts = 0
    /// The change sets whose verdict had been given before.
    public var repeated = 0
    /// How many revisions the device was behind the zone; nil when it only asked a question.
    public var lag: Int64?

    /// Makes a tally of nothing.
    public init() {}
}
