/// What a transaction of the server did, committed and durable.
///
/// The first one of a history, without a request, tells the rows that the zone begins with: in
/// `rows`, as creations, at `revision`.
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
    /// The permanent ids that it gave, by the UUID of the device that had asked for them.
    public let assigned: [String: [IdentityPair]]
    /// What it answered, whether or not that ever arrives; nil without a request, or with an error.
    public let answer: Answer?
    /// The code of the error that it answered with, `unavailable` say; its transaction was rolled
    /// back then.
    public let error: String?
    /// The server's wall clock, in milliseconds since 1970; nil: no policy asks it.
    public let wall: Int64?

    /// Makes a step.
    public init(
        request: Int?,
        epoch: String,
        revision: Int64,
        commits: [Commit] = [],
        rows: [RowChange] = [],
        assigned: [String: [IdentityPair]] = [:],
        answer: Answer? = nil,
        error: String? = nil,
        wall: Int64? = nil
    ) {
        self.request = request
        self.epoch = epoch
        self.revision = revision
        self.commits = commits
        self.rows = rows
        self.assigned = assigned
        self.answer = answer
        self.error = error
        self.wall = wall
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
    /// When it was made, by the hybrid clock, as the log has it; 0: no policy asks.
    public let time: Int64

    /// Makes a revision.
    public init(
        revision: Int64,
        changeSet: String? = nil,
        identity: String? = nil,
        changes: [RecordChange],
        time: Int64 = 0
    ) {
        self.revision = revision
        self.changeSet = changeSet
        self.identity = identity
        self.changes = changes
        self.time = time
    }
}

/// An answer as it left the server.
public struct Answer: Sendable {
    /// The history.
    public let epoch: String
    /// The revision that the device is at with it.
    public let maxRevision: Int64
    /// The change sets in it, in order.
    public let replies: [Reply]

    /// Makes an answer.
    public init(epoch: String, maxRevision: Int64, replies: [Reply]) {
        self.epoch = epoch
        self.maxRevision = maxRevision
        self.replies = replies
    }
}

/// One change set of an answer.
public struct Reply: Sendable {
    /// Its id, when its author gave one.
    public let changeSet: String?
    /// The revision that it became; nil for a conflict.
    public let revision: Int64?
    /// All of it, as it stands in the answer; nil where ids alone came back.
    public let body: String?
    /// For a conflict: each record of the truth, with its columns without the key's; nil: there is
    /// none.
    public let truth: [RecordID: Cells?]
    /// For a conflict: the records that the reasons name, and by what rule.
    public let reasons: [(record: RecordID, rule: String)]

    /// Whether the change set was refused.
    public var isConflict: Bool { revision == nil }

    /// Makes a reply.
    public init(
        changeSet: String?,
        revision: Int64?,
        body: String?,
        truth: [RecordID: Cells?] = [:],
        reasons: [(record: RecordID, rule: String)] = []
    ) {
        self.changeSet = changeSet
        self.revision = revision
        self.body = body
        self.truth = truth
        self.reasons = reasons
    }
}
