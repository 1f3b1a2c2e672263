package import TidemarkCore
import TidemarkEngine

/// The planned change sets of a group.
///
/// Independent change sets can be written together with a few statements: this is optimistic
/// execution. The plan accepts each change set without looking for contention. Then the store
/// writes all of them at once and checks for contention. If there is any, the store rolls back and
/// answers the group one change set after another (``PlannedTransaction``).
///
/// The plan knows the revision of a change set before it is written, but not its new ids and rows.
/// Until then the answer has a ``Draft`` placeholder.
package struct GroupPlan: Sendable {
    /// A change set that is accepted unless the database finds contention.
    package struct PlannedChangeSet: Sendable {
        /// The change set.
        package let envelope: SyncRequest.Envelope
        /// The number of its request in the group.
        package let request: Int
        /// The segment with which it is written.
        package let segment: Int
        /// The revision that it will become.
        package let revision: Int64
        /// The author and time.
        package let stamp: Stamp
        /// The author's revision.
        package let base: Int64
        /// Later revisions that the author has seen, if they may concern the same records.
        package let seenRevisions: [Int64]
        /// The ancestors' revisions before the group.
        package let olderRevisions: [Int64]
    }

    /// The contents of a written change set.
    package struct Body: Sendable {
        /// The change set as other devices receive it, JSON.
        package let all: String
        /// The author's copy with new ids only, JSON.
        package let ids: String
        /// Whether it was committed as sent, so its author only needs ``ids``.
        package let isAsSent: Bool
    }

    /// The byte limit of a catch-up that contains placeholders.
    struct CatchUpBound: Sendable {
        let committedBytes: Int
        let draftIndexes: [Int]
        let bytesMax: Int
    }

    /// The revision before the group.
    let first: Int64
    private(set) var changeSets: [PlannedChangeSet] = []
    /// The number of written change sets.
    private(set) var writtenCount = 0
    /// The contents of the written change sets.
    private(set) var bodies: [Body] = []
    /// The hash of the history up to the last written change set.
    private(set) var chain: String?
    private var segment = PlanSegment(number: 0)
    /// The requests that name a record, each with the revision that does.
    private var usesByRecord: [PlanRecords.Name: [(request: Int, revision: Int64)]] = [:]
    /// The index of each change set by its id.
    private(set) var indexById: [String: Int] = [:]
    /// The known fingerprints at revisions from ``first`` on.
    var fingerprints: [Int64: Fingerprint] = [:]
    /// The revision whose fingerprint the answer needs, by the number of the request.
    var fingerprintRevisions: [Int: Int64] = [:]
    var laps: [String: Exchange] = [:]
    var devices: Set<String> = []
    /// The number of requests so far, which is the number of the current one.
    var requests = 0
    var bounds: [CatchUpBound] = []

    init(first: Int64) { self.first = first }

    /// Whether the plan has no change set yet.
    var isEmpty: Bool { changeSets.isEmpty }

    /// The change sets that are not written yet.
    var pending: ArraySlice<PlannedChangeSet> { changeSets[writtenCount...] }

    /// Returns a change set's segment: the current one, or a new one if it depends on the current.
    mutating func assignSegment(_ changes: PlanRecords.Changes, in tables: PlanTables) throws -> Int {
        if try !segment.add(changes, in: tables) {
            segment = PlanSegment(number: segment.number + 1)
            _ = try segment.add(changes, in: tables)
        }
        return segment.number
    }

    /// Returns the planned revisions of a request that name the same records as `changes`.
    func revisions(about changes: PlanRecords.Changes, by request: Int) -> [Int64] {
        changes.records.flatMap { name, _, _ in
            usesByRecord[name, default: []].filter { $0.request == request }.map(\.revision)
        }
    }

    /// Adds an accepted change set, and returns its index.
    mutating func add(_ changeSet: PlannedChangeSet, of changes: PlanRecords.Changes?) -> Int {
        for (name, _, _) in changes?.records ?? [] {
            usesByRecord[name, default: []].append((changeSet.request, changeSet.revision))
        }
        if let id = changeSet.envelope.id { indexById[id] = changeSets.count }
        changeSets.append(changeSet)
        return changeSets.count - 1
    }

    /// Records the contents of the next change sets, in their order.
    mutating func recordWritten(_ bodies: [Body], chain: String) {
        self.bodies += bodies
        self.chain = chain
        writtenCount += bodies.count
        segment = PlanSegment(number: segment.number + 1)
    }
}

/// Thrown when a group cannot be planned: the caller answers its requests one after another.
package struct GroupNeedsSerialExecution: Error { package init() {} }
