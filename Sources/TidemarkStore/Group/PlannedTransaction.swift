package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// A group's transaction in which change sets are noted first and written together.
///
/// To the handler it is a transaction like any other. It answers out of what the zone was at when
/// the group began and of what has been planned since; the database is asked for what is neither,
/// and written to when other requests are staged, and at the end. Whatever cannot be said before it
/// is written throws ``NotPlain``: then the caller undoes everything, and lets the same handler
/// answer the same requests in the transaction beneath.
package final class PlannedTransaction<Base: PlannableTransaction>: StoreTransaction {
    let base: Base
    let tables: PlanTables
    var plan: GroupPlan
    var records = PlanRecords()
    var state: ZoneState
    var facts = PlanFacts()
    /// What there was when the request in hand began.
    private var start: (plan: GroupPlan, state: ZoneState)?
    /// Whether the request in hand has done nothing that the plan does not undo.
    var isUndoable = true
    /// What the request in hand wants to hear of its change sets.
    private var echo = SyncRequest.Echo.all
    /// What is known of the change set in hand.
    var current = (base: Int64(0), seen: [Int64](), older: [Int64](), segment: 0)

    /// Begins a plan.
    ///
    /// - Throws: ``NotPlain``, when nothing can be planned in the zone.
    package init(_ base: Base) throws {
        guard try base.isPlannable else { throw NotPlain() }
        do { try base.absorbOutsideChanges() } catch is TidemarkError {
            // Each request is told by itself what is wrong with the rows.
            throw NotPlain()
        }
        self.base = base
        tables = PlanTables(base.staged.schema)
        state = try base.zone()
        plan = GroupPlan(first: state.revision)
    }

    /// Writes what is planned, and completes the answers that were given before.
    package func finish(_ drafts: [Result<ZoneAnswer, any Error>], bytesMax: Int) throws -> [Result<
        ZoneAnswer, any Error
    >] {
        try write()
        let answers = try plan.filled(drafts, bytesMax: bytesMax)
        if !plan.isEmpty || !plan.laps.isEmpty { try base.keep(plan.laps, zone: state) }
        return answers
    }

    // MARK: Requests

    package func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        try write()
        let request = try base.stage(body, limits: limits)
        try look(at: [request])
        return request
    }

    package func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        try write()
        guard let requests = try base.stage(together: bodies, limits: limits) else { return nil }
        try look(at: requests)
        return requests
    }

    private func look(at requests: [SyncRequest]) throws {
        records = try PlanRecords(tables, in: base.staged.db)
        facts = try base.facts(about: requests)
    }

    package func isolated<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        start = nil
        isUndoable = true
        plan.requests = plan.requests + 1
        do { return .success(try body()) } catch is DamagedLog {
            // The request that met it is told in its turn, and no other.
            throw NotPlain()
        } catch let error as TidemarkError {
            guard isUndoable else { throw NotPlain() }
            if let start { (plan, state) = start }
            return .failure(error)
        }
    }

    package func turn(to request: SyncRequest) throws {
        // Of what is being written neither the fingerprint nor the verdicts are known yet.
        guard request.maxRevision <= plan.first || plan.isEmpty, request.question == nil || plan.isEmpty else {
            throw NotPlain()
        }
        if let device = request.device { guard plan.devices.insert(device).inserted else { throw NotPlain() } }
        start = (plan, state)
        echo = request.echo
    }

    package func attempt<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch is Violation {
            // What a refusal says is found out when it is the change set's turn.
            throw NotPlain()
        }
    }

    // MARK: A change set

    package func begin(_ ord: Int, device: String?) throws -> Int64 {
        move(to: state.revision + 1)
        return state.revision
    }

    package func contentions(_ ord: Int, base: Int64, seen: [Int64], stamp: Stamp) throws -> [Contention] {
        let changes = records.changes[ord] ?? PlanRecords.Changes()
        // Of what is planned, only what is about the same records can matter.
        let planned = plan.revisions(about: changes, by: plan.requests)
        current.base = base
        current.seen = seen.filter { $0 <= plan.first } + planned
        current.segment = try plan.place(changes, in: tables)
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
                seen: current.seen,
                older: envelope.after.isEmpty ? [] : current.older
            ),
            of: records.changes[envelope.ord]
        )
        move(to: revision, time: max(state.time, stamp.time))
        // What became of it is seen when it is written.
        let ids = echo == .verdicts ? Draft.verdict(index) : Draft.ids(index)
        return LoggedChangeSet(ids: ids, isAsSent: true)
    }

    private func move(to revision: Int64, time: Int64? = nil) {
        state = ZoneState(
            epoch: state.epoch,
            revision: revision,
            horizon: state.horizon,
            schema: state.schema,
            time: time ?? state.time
        )
    }

    package func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String {
        Draft.own(plan.planned.count - 1)
    }

    // MARK: Nothing to do before it is written

    package func absorbOutsideChanges() throws {}

    package func overrule(_ overrulings: [Overruling], in ord: Int) throws {}

    package func apply(_ ord: Int) throws {}

    package func cascades(_ ord: Int, base: Int64, seen: [Int64]) throws -> [Contention] { [] }

    // MARK: What cannot be said before

    package func refuse(_ envelope: SyncRequest.Envelope, device: String?, reasons: [ConflictReason], relatedMax: Int)
        throws -> String
    { throw NotPlain() }

    package func compact(to horizon: Int64) throws { throw NotPlain() }

    package func recomputeFingerprint() throws {
        try unwritten().recomputeFingerprint()
        // What earlier requests were told is not what the rows add up to.
        plan.fingerprints[plan.first] = nil
        isUndoable = false
    }

    package func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try unwritten().compare(ranges, limits: limits)
    }

    /// The transaction beneath, if it knows all that there is.
    private func unwritten() throws -> Base {
        guard plan.isEmpty else { throw NotPlain() }
        return base
    }
}
