package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// What is known while a group is planned: out of the plan, out of what was asked at once, and only
/// else out of the database.
extension PlannedTransaction {
    package var now: Int64 { base.now }

    package func zone() throws -> ZoneState { state }

    package func end(of epoch: String) throws -> Int64? { try base.end(of: epoch) }

    package func policy(of table: String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy]) {
        try base.policy(of: table)
    }

    package func lastExchange(with device: String) throws -> Exchange? {
        if let known = facts.exchanges[device] { return known }
        return try base.lastExchange(with: device)
    }

    package func keep(_ exchange: Exchange, with device: String) throws { plan.laps[device] = exchange }

    package func verdict(of id: String) throws -> Verdict? {
        if let index = plan.places[id] {
            let planned = plan.planned[index]
            return Verdict(
                device: planned.stamp.device,
                hash: planned.envelope.hash,
                revision: planned.revision,
                isAsSent: false
            )
        }
        return facts.unanswered.contains(id) ? nil : try base.verdict(of: id)
    }

    package func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String] {
        let others = ids.filter { plan.places[$0] == nil }
        var copies = others.isEmpty ? [:] : try base.authorsCopies(of: others, extent)
        for id in ids {
            guard let index = plan.places[id] else { continue }
            copies[id] = extent == .verdicts ? Draft.verdict(index) : Draft.own(index)
        }
        return copies
    }

    package func known(_ ids: [String]) throws -> [String] { try base.known(ids) }

    package func ancestry(of ids: [String]) throws -> Ancestry {
        var revisions = [Int64]()
        var others = [String]()
        for id in ids {
            guard let index = plan.places[id] else {
                others.append(id)
                continue
            }
            let ancestor = plan.planned[index]
            // Within a request, those before it are known as accepted.
            guard ancestor.request == plan.requests else { throw NotPlain() }
            revisions += ancestor.older + [ancestor.revision]
        }
        let rest = others.isEmpty ? Ancestry(revisions: [], isRefused: false) : try base.ancestry(of: others)
        current.older = (revisions + rest.revisions).filter { $0 <= plan.first }
        return Ancestry(revisions: revisions + rest.revisions, isRefused: rest.isRefused)
    }

    package func recallIdentities(_ request: SyncRequest) throws {
        guard let first = request.changeSets.first else { return }
        if records.unknown.contains(ChangeSetStaging.list(of: first.ord)) { try base.recallIdentities(request) }
    }

    /// With that of the revision before the group, that of each planned one will be known.
    package func establishFingerprint() throws { _ = try fingerprint(at: plan.first) }

    package func fingerprint(at revision: Int64) throws -> Fingerprint? {
        // An answer has the one that is asked for last.
        plan.draftedFingerprints[plan.requests] = nil
        guard revision > plan.first else {
            if let known = plan.fingerprints[revision] { return known }
            // The rows are those of that revision as long as nothing is written.
            guard plan.written == 0 || revision < plan.first else { throw NotPlain() }
            let known = try base.fingerprint(at: revision)
            plan.fingerprints[revision] = known
            return known
        }
        guard try fingerprint(at: plan.first) != nil else { return nil }
        plan.draftedFingerprints[plan.requests] = revision
        return Fingerprint.none
    }

    package func overruled(device: String, taken: Int64, through revision: Int64, limit: Int) throws -> [String] {
        if facts.unnoted.contains(device) { return [] }
        isUndoable = taken == 0
        return try base.overruled(device: device, taken: taken, through: revision, limit: limit)
    }

    package func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        let isPlanned = plan.planned.contains {
            $0.stamp.device == device && $0.revision > revision && $0.revision <= last
        }
        return try isPlanned || base.hasRevision(by: device, after: revision, through: last)
    }

    package func catchUp(_ missed: MissedRevisions) throws -> CatchUp {
        var found = CatchUp(bodies: [], revision: missed.after, hasMore: false)
        guard missed.after < missed.through else { return found }
        let committed = missed.through(min(missed.through, plan.first))
        if committed.after < committed.through { found = try facts.catchUp(committed) ?? base.catchUp(committed) }
        return try plan.caughtUp(found, of: missed)
    }
}
