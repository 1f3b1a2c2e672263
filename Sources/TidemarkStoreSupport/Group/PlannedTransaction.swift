package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// A group's transaction that plans change sets first and writes them together.
///
/// The handler uses it like any other transaction. It answers from the zone's state at the start of
/// the group and from the plan, and reads the database for the rest. It writes when it stages more
/// requests, and at the end. If an answer depends on a write, it throws
/// ``GroupNeedsSerialExecution``: then the caller rolls back, and the same handler answers the same
/// requests in the base transaction.
package final class PlannedTransaction<Base: PlannableTransaction>: StoreTransaction {
    let base: Base
    let tables: PlanTables
    var plan: GroupPlan
    var records = PlanRecords()
    var state: ZoneState
    var facts = PlanFacts()
    /// The plan and state when the current request began.
    private var start: (plan: GroupPlan, state: ZoneState)?
    /// Whether restoring ``start`` undoes all effects of the current request.
    var isUndoable = true
    /// How much of its change sets the answer to the current request repeats.
    private var echo = SyncRequest.Echo.all
    /// The properties of the current change set.
    var current = (base: Int64(0), seenRevisions: [Int64](), olderRevisions: [Int64](), segment: 0)

    /// Begins a plan.
    ///
    /// - Throws: ``GroupNeedsSerialExecution`` when the zone allows no plan.
    package init(_ base: Base) throws {
        guard try base.isPlannable else { throw GroupNeedsSerialExecution() }
        do { try base.absorbOutsideChanges() } catch is TidemarkError {
            // In serial execution, each request gets the error about the rows by itself.
            throw GroupNeedsSerialExecution()
        }
        self.base = base
        tables = PlanTables(base.staged.schema)
        state = try base.zone()
        plan = GroupPlan(first: state.revision)
    }

    /// Writes the plan, and completes the answers.
    package func finish(_ drafts: [Result<ZoneAnswer, any Error>], bytesMax: Int) throws -> [Result<
        ZoneAnswer, any Error
    >] {
        try write()
        let answers = try plan.complete(drafts, bytesMax: bytesMax)
        if !plan.isEmpty || !plan.laps.isEmpty { try base.keep(plan.laps, zone: state) }
        return answers
    }

    // MARK: Requests

    package func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        try write()
        let request = try base.stage(body, limits: limits)
        try readFacts(about: [request])
        return request
    }

    package func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        try write()
        guard let requests = try base.stage(together: bodies, limits: limits) else { return nil }
        try readFacts(about: requests)
        return requests
    }

    private func readFacts(about requests: [SyncRequest]) throws {
        records = try PlanRecords(tables, in: base.staged.db)
        facts = try base.facts(about: requests)
    }

    package func isolated<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        start = nil
        isUndoable = true
        plan.requests += 1
        do { return .success(try body()) } catch is DamagedLog {
            // In serial execution, only the request that reads the damaged entry gets this error.
            throw GroupNeedsSerialExecution()
        } catch let error as TidemarkError {
            guard isUndoable else { throw GroupNeedsSerialExecution() }
            if let start {
                plan = start.plan
                state = start.state
            }
            return .failure(error)
        }
    }

    package func beginRequest(_ request: SyncRequest) throws {
        // Planned change sets have no fingerprint and no stored verdict yet.
        guard request.maxRevision <= plan.first || plan.isEmpty, request.question == nil || plan.isEmpty else {
            throw GroupNeedsSerialExecution()
        }
        if let device = request.device {
            guard plan.devices.insert(device).inserted else { throw GroupNeedsSerialExecution() }
        }
        start = (plan, state)
        echo = request.echo
    }

    package func attempt<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch is Violation {
            // In serial execution, the change set gets its refusal.
            throw GroupNeedsSerialExecution()
        }
    }

    // MARK: A change set

    package func begin(_ ord: Int, device: String?) throws -> Int64 {
        advance(to: state.revision + 1)
        return state.revision
    }

    package func contentions(_ ord: Int, base: Int64, seenRevisions: [Int64], stamp: Stamp) throws -> [Contention] {
        let changes = records.changes[ord] ?? PlanRecords.Changes()
        // Only planned revisions about the same records can matter.
        let plannedRevisions = plan.revisions(about: changes, by: plan.requests)
        current.base = base
        current.seenRevisions = seenRevisions.filter { $0 <= plan.first } + plannedRevisions
        current.segment = try plan.assignSegment(changes, in: tables)
        return []
    }

    package func log(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> LoggedChangeSet {
        let index = plan.add(
            .init(
                envelope: envelope,
                request: plan.requests,
                segment: current.segment,
                revision: revision,
                stamp: stamp,
                base: current.base,
                seenRevisions: current.seenRevisions,
                olderRevisions: envelope.after.isEmpty ? [] : current.olderRevisions
            ),
            of: records.changes[envelope.ord]
        )
        advance(to: revision, time: max(state.time, stamp.time))
        // `Draft.fill` corrects this assumption after the write.
        let ids = echo == .verdicts ? Draft.verdict(index) : Draft.ids(index)
        return LoggedChangeSet(ids: ids, isAsSent: true)
    }

    private func advance(to revision: Int64, time: Int64? = nil) {
        state = ZoneState(
            epoch: state.epoch,
            revision: revision,
            horizon: state.horizon,
            schema: state.schema,
            time: time ?? state.time
        )
    }

    package func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String {
        Draft.own(plan.changeSets.count - 1)
    }

    // MARK: No effect before the write

    package func absorbOutsideChanges() throws {}

    package func overrule(_ overrulings: [Overruling], in ord: Int) throws {}

    package func apply(_ ord: Int) throws {}

    package func cascades(_ ord: Int, base: Int64, seenRevisions: [Int64]) throws -> [Contention] { [] }

    // MARK: Impossible before the write

    package func refuse(
        _ envelope: SyncRequest.Envelope,
        of request: SyncRequest,
        reasons: [ConflictReason],
        relatedMax: Int
    )
        throws -> String
    { throw GroupNeedsSerialExecution() }

    package func compact(to horizon: Int64) throws { throw GroupNeedsSerialExecution() }

    package func lend(_ tables: [String]) throws -> [String: [LentIDs]] {
        // Lent ids depend on no planned change set, but a refused request must lend none.
        isUndoable = false
        return try base.lend(tables)
    }

    package func recomputeFingerprint() throws {
        try baseWithoutPlan().recomputeFingerprint()
        // The fingerprint read before may differ from the recomputed one.
        plan.fingerprints[plan.first] = nil
        isUndoable = false
    }

    package func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try baseWithoutPlan().compare(ranges, limits: limits)
    }

    /// Returns the base transaction if the plan is empty.
    private func baseWithoutPlan() throws -> Base {
        guard plan.isEmpty else { throw GroupNeedsSerialExecution() }
        return base
    }
}
