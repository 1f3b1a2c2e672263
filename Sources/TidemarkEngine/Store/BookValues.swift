package import TidemarkCore

/// What a transaction knows of its zone's books, so that it asks them once.
///
/// It is of one thread. A return to a savepoint takes back all that was learned since.
package final class BookState {
    /// The hash of the zone's schema.
    let schema: String
    /// The zone's state and what belongs to its latest revision; nil until it is read.
    package var head: CommitHead?
    /// The ids that new records have got in this transaction, by table.
    package var assigned: [Int: Set<Int64>] = [:]
    /// Stored fingerprints, by revision.
    var fingerprints: [Int64: Fingerprint] = [:]
    /// The change sets that the oldest device of the requests misses, by revision.
    var recent: [Int64: (device: String?, body: String)] = [:]

    /// The ways of the store with the zone, which it says before any question.
    let ways: ZoneWays

    /// Knows nothing yet; `schema` is the hash of the zone's.
    package init(schema: String, ways: ZoneWays) {
        self.schema = schema
        self.ways = ways
    }

    /// Knows the head.
    package init(_ head: CommitHead, ways: ZoneWays) {
        schema = head.state.schema
        self.ways = ways
        self.head = head
    }

    /// All that is known, for a return to a savepoint.
    typealias Memory = (
        head: CommitHead?, assigned: [Int: Set<Int64>], fingerprints: [Int64: Fingerprint],
        recent: [Int64: (device: String?, body: String)]
    )
    var memory: Memory {
        get { (head, assigned, fingerprints, recent) }
        set { (head, assigned, fingerprints, recent) = newValue }
    }

    /// The zone's state; an empty one before it is read.
    var state: ZoneState { head?.state ?? ZoneState(epoch: "", revision: 0, horizon: 0, schema: schema) }
}

extension RowReader { package var ways: ZoneWays { books.ways } }

/// The state of a zone at the beginning of a commit.
package struct CommitHead: Sendable {
    package var state: ZoneState
    /// The hash of its history.
    package var chain: String
    /// The stored fingerprint of its rows.
    package var fingerprint: Fingerprint?
    /// Whether other programs have changed rows that no revision has.
    package var hasOutsideChanges: Bool
    /// The revision of the rows that existed before the zone.
    package let adopted: Int64
    /// The number of the last note of overruled values.
    var notes: Int64
}

/// What a group of requests asks of the books.
package struct FactsQuery: Sendable {
    /// The ids of change sets.
    package var changeSets: [String] = []
    package var devices: Set<String> = []
    /// The temporary ids that devices name without creating their records in the same change set.
    package var temporaryIDs: [DeviceID: Set<TemporaryName>] = [:]
    /// The temporary ids of new records.
    ///
    /// One that already has a permanent id was used before. They are not looked for if the insertion of the permanent
    /// id finds this.
    package var newTemporaryIDs: [DeviceID: [TemporaryName]] = [:]
    /// The lowest revision of a requesting device; nil without requests.
    package var oldest: Int64?

    /// A device.
    package typealias DeviceID = String

    /// Makes an empty query.
    package init() {}
}

/// A temporary id.
package struct TemporaryName: Hashable, Sendable {
    /// The place of the table in ``TidemarkCore/SyncSchema/tables``.
    package let table: Int
    /// The temporary id, as the wire has it: negative.
    package let id: Int64

    /// Makes a name.
    package init(table: Int, id: Int64) {
        self.table = table
        self.id = id
    }
}

/// What the books say about a group of requests.
package struct Facts: Sendable {
    /// The stored verdicts, by the id of the change set.
    package var verdicts: [String: Verdict] = [:]
    /// The last exchange with each device that had one.
    package var exchanges: [String: Exchange] = [:]
    package var devicesWithNotes: Set<String> = []
    /// The permanent ids that devices got for temporary ones.
    package var permanentIDs: [FactsQuery.DeviceID: [TemporaryName: Int64]] = [:]

    /// Makes empty facts.
    package init() {}
}

/// What a commit stores.
package struct ZoneCommit {
    /// The revisions, in their order.
    package var revisions: [CommittedRevision] = []
    /// The verdicts on refused change sets, and what their authors sent, for people who look at conflicts.
    package var refusals: [Refusal] = []
    /// The last exchange with each device that had one.
    package var exchanges: [String: Exchange] = [:]
    /// The ids from which the next ones are sought, by the place of the table: the server has assigned lower ones.
    package var nextIDs: [Int: Int64] = [:]
    package let zone: ZoneState
    /// The time of the commit by the server's clock, in milliseconds since 1970.
    let committed: Int64

    /// Makes an empty commit.
    package init(zone: ZoneState, at committed: Int64) {
        self.zone = zone
        self.committed = committed
    }
}

/// A revision to store.
package struct CommittedRevision {
    /// The change of a record.
    package struct Entry {
        package let name: RecordID
        /// The kind of change.
        package let operation: Operation
        /// The places of the columns that an update changed.
        package let columns: [Int]
        /// The row before; nil for a creation.
        package let before: [Value]?
    }

    package let revision: Int64
    /// The change set; nil for the changes of other programs.
    package let envelope: SyncRequest.Envelope?
    /// The author and time.
    package let stamp: Stamp
    /// The changes.
    package var entries: [Entry]
    /// The text that devices get.
    package let text: RevisionText
    /// The hash of the history up to this revision.
    package let chain: String
    /// The fingerprint of the rows at this revision, if that of the previous one is known.
    package let fingerprint: Fingerprint?
    /// The change set with only the ids of its new records, JSON.
    package let ids: String
    /// The whole author's copy; only for a change set with overruled values.
    package let authorsCopy: String?
    /// Whether it was committed as sent, so that its author only needs ``ids``.
    package let isAsSent: Bool
    /// The permanent ids of its new records.
    package let permanentIDs: [(name: TemporaryName, id: Int64)]
    /// The overruled values of other devices: a JSON array of records each.
    package let notes: [(device: String, records: String)]
}

/// The verdict on a refused change set.
package struct Refusal: Sendable {
    /// The change set.
    package let envelope: SyncRequest.Envelope
    package let device: String?
    /// The device's revision.
    package let base: Int64
    /// The answer that a retry gets again, JSON.
    package let text: String
    /// The records as the author sent them, JSON; nil if they are too long to be kept for people.
    package let sent: String?
}

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
            epoch: epoch, revision: revision ?? self.revision, horizon: horizon ?? self.horizon, schema: schema,
            time: time ?? self.time)
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
    package let device: String?
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

extension RangeSet<Int64> {
    mutating func insert(_ revision: Int64) { insert(contentsOf: revision..<revision + 1) }
}

/// The revisions that the author of a change set had made when it made this one.
///
/// There may be 10,000 change sets, and each keeps them; those of the request are one range.
struct SeenRevisions {
    /// Those of its ancestors that came in earlier requests.
    var ancestors = RangeSet<Int64>()
    /// Those of the same request.
    var accepted = RangeSet<Int64>()

    func contains(_ revision: Int64) -> Bool { accepted.contains(revision) || ancestors.contains(revision) }
}

/// The ancestors of a change set.
package struct Ancestry: Hashable, Sendable {
    /// The revisions of its ancestors, which are the author's own changes.
    package var revisions = RangeSet<Int64>()
    /// Whether a direct predecessor was refused.
    package var isRefused = false
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
