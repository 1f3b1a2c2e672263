package import TidemarkCore
package import TidemarkServer
package import TidemarkSQLite

/// A transaction on a zone in which the change sets of a group can be written together.
///
/// What is beyond one change set after another: to say in advance what a group is going to ask, and
/// to write a segment of a plan (``GroupPlan``), whose change sets are listed in
/// `temp.tidemark_planned`.
package protocol PlannableTransaction: StoreTransaction {
    /// The requests in their temporary tables.
    var staged: StagedRequest { get }

    /// Whether no program of the app's acts on what is written: what a trigger does to a row can
    /// depend on everything before it.
    var isPlannable: Bool { get throws }

    /// What the zone's bookkeeping says about requests, as far as it can be asked at once.
    func facts(about requests: [SyncRequest]) throws -> PlanFacts

    /// The next ids of a table, in the order in which they are given; they are given then.
    func identities(_ count: Int, of table: SyncedTable) throws -> [Int64]

    /// Writes the rows of a segment, and puts what became of them into `temp.tidemark_reduced`.
    ///
    /// - Throws: ``NotPlain``, or what the database refuses with.
    func write(_ segment: StagedSets) throws

    /// How what is in `temp.tidemark_reduced` has changed the fingerprint, by change set.
    func fingerprints(of segment: StagedSets) throws -> [Int: Fingerprint]

    /// Keeps what became of a segment: revisions, log entries, verdicts.
    func keep(_ sets: [PlannedRevision], of segment: StagedSets) throws

    /// Keeps how far devices are, and what the zone is at.
    func keep(_ laps: [String: Exchange], zone: ZoneState) throws

    /// The fingerprint that is kept of a revision.
    func keptFingerprint(at revision: Int64) throws -> Fingerprint?

    /// The hash of the history up to a revision.
    func chain(at revision: Int64) throws -> String
}

/// A change set of a plan as it is kept.
package struct PlannedRevision: Sendable {
    /// What it was.
    package let planned: GroupPlan.Planned
    /// What it became.
    package let body: GroupPlan.Body
    /// The hash of the history up to it.
    package let chain: String
    /// The fingerprint of the rows after it, if the one before is known.
    package let fingerprint: Fingerprint?
}

/// What the zone's bookkeeping says about a group of requests.
package struct PlanFacts: Sendable {
    /// A revision, as everybody but its author receives it.
    package struct Recent: Sendable {
        /// The device that made it.
        package let device: String?
        /// The change set, JSON; empty when it was compacted.
        package let body: String

        /// Makes one.
        package init(device: String?, body: String) { (self.device, self.body) = (device, body) }
    }

    /// Change sets that have no verdict yet.
    package var unanswered: Set<String> = []
    /// Devices whose last exchange is known, or that had none.
    package var exchanges: [String: Exchange?] = [:]
    /// Devices for which no note is kept.
    package var unnoted: Set<String> = []
    /// The latest revisions.
    package var recent: [Int64: Recent] = [:]

    /// Makes facts that say nothing.
    package init() {}

    /// The change sets that a device missed; nil when it takes more than is known.
    package func catchUp(_ missed: MissedRevisions) -> CatchUp? {
        var bodies = [String]()
        var bytes = 0
        for next in (missed.after + 1)...missed.through {
            guard let recent = recent[next], !recent.body.isEmpty,
                missed.device == nil || recent.device != missed.device
            else { return nil }
            bytes += recent.body.utf8.count
            guard bodies.isEmpty || bodies.count < missed.limit && bytes <= missed.bytesMax else {
                return CatchUp(bodies: bodies, revision: next - 1, hasMore: true)
            }
            bodies.append(recent.body)
        }
        return CatchUp(bodies: bodies, revision: missed.through, hasMore: false)
    }
}
