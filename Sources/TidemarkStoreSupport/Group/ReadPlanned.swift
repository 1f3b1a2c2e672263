package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Reads while a group is planned: from the plan, then from the facts, else from the database.
extension PlannedTransaction {
    package var now: Int64 { base.now }

    package func zone() throws -> ZoneState { state }

    package func end(of epoch: String) throws -> Int64? { try base.end(of: epoch) }

    package func policy(of table: String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy]) {
        try base.policy(of: table)
    }

    package func lastExchange(with device: String) throws -> Exchange? {
        if let exchange = plan.laps[device] { return exchange }
        if let exchange = facts.exchanges[device] { return exchange }
        return try base.lastExchange(with: device)
    }

    package func keep(_ exchange: Exchange, with device: String) throws { plan.laps[device] = exchange }

    package func verdict(of id: String) throws -> Verdict? {
        if let index = plan.indexById[id] {
            let changeSet = plan.changeSets[index]
            return Verdict(
                device: changeSet.stamp.device,
                hash: changeSet.envelope.hash,
                revision: changeSet.revision,
                isAsSent: false
            )
        }
        return facts.idsWithoutVerdict.contains(id) ? nil : try base.verdict(of: id)
    }

    package func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String] {
        let otherIds = ids.filter { plan.indexById[$0] == nil }
        var copies = otherIds.isEmpty ? [:] : try base.authorsCopies(of: otherIds, extent)
        for id in ids {
            guard let index = plan.indexById[id] else { continue }
            copies[id] = extent == .verdicts ? Draft.verdict(index) : Draft.own(index)
        }
        return copies
    }

    package func idsWithVerdict(_ ids: [String]) throws -> [String] { try base.idsWithVerdict(ids) }

    package func ancestry(of ids: [String]) throws -> Ancestry {
        var revisions = [Int64]()
        var otherIds = [String]()
        for id in ids {
            guard let index = plan.indexById[id] else {
                otherIds.append(id)
                continue
            }
            let ancestor = plan.changeSets[index]
            // The handler passes the accepted revisions of the same request itself.
            guard ancestor.request == plan.requests else { throw GroupNeedsSerialExecution() }
            revisions += ancestor.olderRevisions + [ancestor.revision]
        }
        let rest = otherIds.isEmpty ? Ancestry(revisions: [], isRefused: false) : try base.ancestry(of: otherIds)
        current.olderRevisions = (revisions + rest.revisions).filter { $0 <= plan.first }
        return Ancestry(revisions: revisions + rest.revisions, isRefused: rest.isRefused)
    }

    package func recallIdentities(_ request: SyncRequest) throws {
        guard let first = request.changeSets.first else { return }
        let list = ChangeSetStaging.list(of: first.ord)
        if records.requestsWithOlderIds.contains(list) { try base.recallIdentities(request) }
    }

    /// Reads the fingerprint before the group, from which those of planned revisions follow.
    package func establishFingerprint() throws { _ = try fingerprint(at: plan.first) }

    package func fingerprint(at revision: Int64) throws -> Fingerprint? {
        // An answer has the fingerprint that the handler reads last.
        plan.fingerprintRevisions[plan.requests] = nil
        guard revision > plan.first else {
            if let fingerprint = plan.fingerprints[revision] { return fingerprint }
            // Before the first write, the rows are still those of this revision.
            guard plan.writtenCount == 0 || revision < plan.first else { throw GroupNeedsSerialExecution() }
            let fingerprint = try base.fingerprint(at: revision)
            plan.fingerprints[revision] = fingerprint
            return fingerprint
        }
        guard try fingerprint(at: plan.first) != nil else { return nil }
        plan.fingerprintRevisions[plan.requests] = revision
        return Fingerprint.none
    }

    package func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws
        -> [String]
    {
        if facts.devicesWithoutNotes.contains(device) { return [] }
        isUndoable = cursor == 0
        return try base.overruledNotes(device: device, after: cursor, through: revision, limit: limit)
    }

    package func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        let isPlanned = plan.changeSets.contains {
            $0.stamp.device == device && $0.revision > revision && $0.revision <= last
        }
        return try isPlanned || base.hasRevision(by: device, after: revision, through: last)
    }

    package func catchUp(_ missed: MissedRevisions) throws -> CatchUp {
        var catchUp = CatchUp(bodies: [], revision: missed.after, hasMore: false)
        guard missed.after < missed.through else { return catchUp }
        let committed = missed.through(min(missed.through, plan.first))
        if committed.after < committed.through { catchUp = try facts.catchUp(committed) ?? base.catchUp(committed) }
        return try plan.extend(catchUp, to: missed)
    }
}
