/// A transaction of the server, committed and durable.
///
/// The first one of a history, without a request, has the rows of the zone at its beginning: in
/// `rows`, as creations, at `revision`.
package struct ServerStep: Sendable {
    /// The request that it served; nil if other programs wrote, or the owner did something.
    package let request: Int?
    /// The history of the zone.
    package let epoch: String
    /// The zone's own latest revision.
    package let revision: Int64
    /// The revisions that it wrote into the log, oldest first.
    package let commits: [Commit]
    /// The changes of the synced tables' rows, by comparing them before and after.
    package let rows: [RowChange]
    /// The permanent ids that it gave, by the UUID of the device that needed them.
    package let assigned: [String: [IdentityPair]]
    /// The answer, whether or not it ever arrives; nil without a request, or with an error.
    package let answer: Answer?
    /// The code of the error in the answer, for instance `unavailable`; the transaction was rolled
    /// back then.
    package let error: String?
    /// The server's wall clock, in milliseconds since 1970; nil if no policy needs it.
    package let wall: Int64?

    /// Makes a step.
    package init(
        request: Int?, epoch: String, revision: Int64, commits: [Commit] = [], rows: [RowChange] = [],
        assigned: [String: [IdentityPair]] = [:], answer: Answer? = nil, error: String? = nil, wall: Int64? = nil
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

/// A revision in the server's log.
package struct Commit: Sendable, Equatable {
    /// Its number.
    package let revision: Int64
    /// The id of its change set, if it has one.
    package let changeSet: String?
    /// The UUID of the device that sent it.
    package let identity: String?
    /// Its changes.
    package let changes: [RecordChange]
    /// The time in the log, by the hybrid clock; 0 if no policy needs it.
    package let time: Int64

    /// Makes a revision.
    package init(
        revision: Int64, changeSet: String? = nil, identity: String? = nil, changes: [RecordChange], time: Int64 = 0
    ) {
        self.revision = revision
        self.changeSet = changeSet
        self.identity = identity
        self.changes = changes
        self.time = time
    }
}

/// An answer as it left the server.
package struct Answer: Sendable {
    /// The history.
    package let epoch: String
    /// The revision that the device is at with it.
    package let maxRevision: Int64
    /// The change sets in it, in order.
    package let replies: [Reply]
    /// The ids that it lends.
    package let lent: [Places]

    /// Places of equal width at equal distances, in which a device has all ids of a table.
    package struct Places: Sendable {
        /// The table.
        package let table: String
        /// The first id of the first place.
        package let first: Int64
        /// The last id in question.
        package let last: Int64
        /// The distance between two places.
        package let stride: Int64
        /// The ids in a place.
        package let width: Int64

        /// Makes places.
        package init(table: String, first: Int64, last: Int64, stride: Int64, width: Int64) {
            self.table = table
            self.first = first
            self.last = last
            self.stride = stride
            self.width = width
        }
    }

    /// Makes an answer.
    package init(epoch: String, maxRevision: Int64, replies: [Reply], lent: [Places] = []) {
        self.epoch = epoch
        self.maxRevision = maxRevision
        self.replies = replies
        self.lent = lent
    }
}

/// One change set of an answer.
package struct Reply: Sendable {
    /// Its id, if it has one.
    package let changeSet: String?
    /// Its revision; nil for a conflict.
    package let revision: Int64?
    /// Its text in the answer; nil where ids alone came back.
    package let body: String?
    /// For a conflict: each record of the truth, with its columns without the key's; nil if it does
    /// not exist.
    package let truth: [RecordID: Cells?]
    /// For a conflict: the records that the reasons name, and the rule of each.
    package let reasons: [(record: RecordID, rule: String)]

    /// Whether the change set was refused.
    package var isConflict: Bool { revision == nil }

    /// Makes a reply.
    package init(
        changeSet: String?, revision: Int64?, body: String?, truth: [RecordID: Cells?] = [:],
        reasons: [(record: RecordID, rule: String)] = []
    ) {
        self.changeSet = changeSet
        self.revision = revision
        self.body = body
        self.truth = truth
        self.reasons = reasons
    }
}
