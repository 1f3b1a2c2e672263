package import TidemarkCore
package import TidemarkEngine
package import TidemarkSQL

/// A transaction on a zone that can write the change sets of a group together.
///
/// It reads bookkeeping for a whole group in advance. It writes a segment of a plan
/// (``GroupPlan``), whose change sets are listed in `temp.tidemark_planned`.
package protocol PlannableTransaction: StoreTransaction {
    /// The staged requests in their temporary tables.
    var staged: StagedRequest { get }

    /// Whether the tables have no triggers of the app.
    ///
    /// The effect of a trigger may depend on all earlier writes.
    var isPlannable: Bool { get throws }

    /// Reads the zone's bookkeeping about several requests, as far as few statements can.
    func facts(about requests: [SyncRequest]) throws -> PlanFacts

    /// Takes the next ids of a table, in ascending order.
    func reserveIdentities(_ count: Int, of table: SyncedTable) throws -> [Int64]

    /// Writes the rows of a segment, and puts the changes into `temp.tidemark_reduced`.
    ///
    /// - Throws: ``GroupNeedsSerialExecution``, or the error of the database.
    func write(_ segment: StagedSets) throws

    /// Returns each change set's effect on the fingerprint, from `temp.tidemark_reduced`.
    func fingerprints(of segment: StagedSets) throws -> [Int: Fingerprint]

    /// Stores a segment's revisions, log entries and verdicts.
    func keep(_ sets: [PlannedRevision], of segment: StagedSets) throws

    /// Stores the devices' last exchanges and the zone's state.
    func keep(_ laps: [String: Exchange], zone: ZoneState) throws

    /// Returns the stored fingerprint of a revision.
    func storedFingerprint(at revision: Int64) throws -> Fingerprint?

    /// Returns the hash of the history up to a revision.
    func chain(at revision: Int64) throws -> String
}

/// A written change set of a plan, to be stored as a revision.
package struct PlannedRevision: Sendable {
    /// The planned change set.
    package let changeSet: GroupPlan.PlannedChangeSet
    /// Its contents.
    package let body: GroupPlan.Body
    /// The hash of the history up to this revision.
    package let chain: String
    /// The fingerprint of the rows at this revision, if the previous one is known.
    package let fingerprint: Fingerprint?
}

/// The zone's bookkeeping about a group of requests, read in advance.
package struct PlanFacts: Sendable {
    /// A revision as devices other than its author receive it.
    package struct Recent: Sendable {
        /// The author's device.
        package let device: String?
        /// The change set, JSON; empty when it was compacted.
        package let body: String

        /// Makes a recent revision.
        package init(device: String?, body: String) {
            self.device = device
            self.body = body
        }
    }

    /// The ids of change sets that have no verdict yet.
    package var idsWithoutVerdict: Set<String> = []
    /// The last exchange of each device; a nil value means that there was none.
    package var exchanges: [String: Exchange?] = [:]
    /// The devices that have no notes of overruled values.
    package var devicesWithoutNotes: Set<String> = []
    /// The latest revisions.
    package var recent: [Int64: Recent] = [:]

    /// Makes empty facts.
    package init() {}

    /// Returns the change sets that a device missed; nil when ``recent`` lacks one of them.
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
