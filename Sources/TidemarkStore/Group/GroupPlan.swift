package import TidemarkCore
package import TidemarkServer

/// What the change sets of a group are about to do to a zone.
///
/// Change sets that have nothing to do with each other, nor with what others did, can be written
/// together: a few statements for all of them. So each is judged as if nobody were in its way, and
/// noted here; then all are written at once, and the database is asked whether it was so. If it was
/// not, everything is undone and the group is answered one change set after another
/// (``PlannedTransaction``).
///
/// Revisions are known when a change set is noted; its new ids, and what became of its rows, are
/// not. Until then an answer has a ``Draft`` in that place.
package struct GroupPlan: Sendable {
    /// A change set that is accepted unless the database objects.
    package struct Planned: Sendable {
        /// The change set.
        package let envelope: SyncRequest.Envelope
        /// The number of its request in the group.
        package let request: Int
        /// What it is written together with.
        package let segment: Int
        /// The revision that it is to be.
        package let revision: Int64
        /// Who made it, and when.
        package let stamp: Stamp
        /// The revision that its author had.
        package let base: Int64
        /// Later ones that they know, as far as they can be about the same records.
        package let seen: [Int64]
        /// The revisions before the group that its author knows by `after`.
        package let older: [Int64]
    }

    /// A change set that is written.
    package struct Body: Sendable {
        /// As everybody receives it.
        package let all: String
        /// With its new ids alone.
        package let ids: String
        /// Whether these say enough to its author.
        package let isAsSent: Bool
    }

    /// A catch-up with change sets in it whose length was not known.
    struct CatchUpBound: Sendable {
        let knownBytes: Int
        let drafted: [Int]
        let bytesMax: Int
    }

    /// The revision before the group.
    let first: Int64
    private(set) var planned: [Planned] = []
    /// How many of them are written.
    private(set) var written = 0
    /// What became of those.
    private(set) var bodies: [Body] = []
    /// The hash of the history up to the last of those.
    private(set) var chain: String?
    private var segment = PlanSegment(number: 0)
    /// By record, the requests that name it, each with the revision that does.
    private var touched: [PlanRecords.Name: [(request: Int, revision: Int64)]] = [:]
    /// By the id of a change set, its place.
    private(set) var places: [String: Int] = [:]
    /// The fingerprint at each revision from ``first`` on, as far as it is known.
    var fingerprints: [Int64: Fingerprint] = [:]
    /// Of requests by number, the revision of which the answer names the fingerprint.
    var draftedFingerprints: [Int: Int64] = [:]
    var laps: [String: Exchange] = [:]
    var devices: Set<String> = []
    var requests = 0
    var bounds: [CatchUpBound] = []

    init(first: Int64) { self.first = first }

    /// Whether nothing is planned yet.
    var isEmpty: Bool { planned.isEmpty }

    /// What is not written yet.
    var pending: ArraySlice<Planned> { planned[written...] }

    /// The segment of a change set: that of the one before it, if they have nothing to do with each
    /// other.
    mutating func place(_ changes: PlanRecords.Changes, in tables: PlanTables) throws -> Int {
        if try !segment.add(changes, in: tables) {
            segment = PlanSegment(number: segment.number + 1)
            _ = try segment.add(changes, in: tables)
        }
        return segment.number
    }

    /// The planned revisions of a request that name the records of another change set.
    func revisions(about changes: PlanRecords.Changes, by request: Int) -> [Int64] {
        changes.records.flatMap { name, _, _ in
            touched[name, default: []].filter { $0.request == request }.map(\.revision)
        }
    }

    /// Notes a change set as accepted, and says what its place is.
    mutating func add(_ change: Planned, of changes: PlanRecords.Changes?) -> Int {
        for (name, _, _) in changes?.records ?? [] {
            touched[name, default: []].append((change.request, change.revision))
        }
        if let id = change.envelope.id { places[id] = planned.count }
        planned.append(change)
        return planned.count - 1
    }

    /// Takes in what became of change sets, in their order.
    mutating func write(_ bodies: [Body], chain: String) {
        self.bodies += bodies
        self.chain = chain
        written += bodies.count
        segment = PlanSegment(number: segment.number + 1)
    }
}

/// What is thrown when the requests of a group have to be answered one after another.
package struct NotPlain: Error { package init() {} }
