/// What a transaction of the server did, committed and durable.
public struct ServerStep: Sendable {
    /// The request that it served; nil when other programs wrote, or the owner did something.
    public let request: Int?
    /// The history of the zone.
    public let epoch: String
    /// The latest revision that the zone says it has.
    public let revision: Int64
    /// The revisions that it wrote into the log, oldest first.
    public let commits: [Commit]
    /// What became of the rows of the synced tables, by comparing them before and after.
    public let rows: [RowChange]
    /// The code of the error that it answered with, `unavailable` say; its transaction was rolled
    /// back then.
    public let error: String?

    /// Makes a step.
    public init(
        request: Int?,
        epoch: String,
        revision: Int64,
        commits: [Commit] = [],
        rows: [RowChange] = [],
        error: String? = nil
    ) {
        (self.request, self.epoch, self.revision) = (request, epoch, revision)
        (self.commits, self.rows, self.error) = (commits, rows, error)
    }
}

/// A revision as the server's log has it.
public struct Commit: Sendable, Equatable {
    /// Its number.
    public let revision: Int64
    /// The change set that it was, when its author gave one.
    public let changeSet: String?
    /// The UUID of the device that sent it.
    public let identity: String?
    /// What it changed.
    public let changes: [RecordChange]

    /// Makes a revision.
    public init(
        revision: Int64,
        changeSet: String? = nil,
        identity: String? = nil,
        changes: [RecordChange]
    ) {
        (self.revision, self.changeSet) = (revision, changeSet)
        (self.identity, self.changes) = (identity, changes)
    }
}

/// An answer that reached a device.
public struct Answer: Sendable {
    /// The device that it reached.
    public let device: String
    /// The number of the request.
    public let request: Int
    /// The history.
    public let epoch: String
    /// The revision that the device is at with it.
    public let maxRevision: Int64
    /// The change sets in it, in order.
    public let replies: [Reply]

    /// Makes an answer.
    public init(
        device: String,
        request: Int,
        epoch: String,
        maxRevision: Int64,
        replies: [Reply]
    ) {
        (self.device, self.request, self.epoch) = (device, request, epoch)
        (self.maxRevision, self.replies) = (maxRevision, replies)
    }
}

/// One change set of an answer.
public struct Reply: Sendable {
    /// Its id, when its author gave one.
    public let changeSet: String?
    /// The revision that it became; nil for a conflict.
    public let revision: Int64?
    /// All of it, as it stands in the answer.
    public let body: String
    /// For a conflict: each record of the truth, with its columns without the key's; nil: there is
    /// none.
    public let truth: [RecordID: Cells?]
    /// For a conflict: the records that the reasons name, and by what rule.
    public let reasons: [(record: RecordID, rule: String)]
    /// The permanent ids that it tells its author, by table.
    public let identities: [IdentityPair]

    /// Whether the change set was refused.
    public var isConflict: Bool { revision == nil }

    /// Makes a reply.
    public init(
        changeSet: String?,
        revision: Int64?,
        body: String,
        truth: [RecordID: Cells?] = [:],
        reasons: [(record: RecordID, rule: String)] = [],
        identities: [IdentityPair] = []
    ) {
        (self.changeSet, self.revision, self.body) = (changeSet, revision, body)
        (self.truth, self.reasons, self.identities) = (truth, reasons, identities)
    }
}
