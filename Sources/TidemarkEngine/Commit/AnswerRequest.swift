import TidemarkCore

/// The answer to a request whose change sets are written.
extension GroupRun {
    /// Makes the answer, and notes the exchange with the device.
    mutating func render(_ turn: Turn, missed: CatchUp) throws -> ZoneAnswer {
        let request = turn.request
        let outcomes = turn.outcomes.compactMap { $0 }
        try sync.checkSettled(request, missed, knowing: known, in: zone)
        let last = turn.start.revision + turn.addedCount
        let end = missed.hasMore || turn.echo == .verdicts ? missed.revision : last
        let notes = try notes(for: request, through: end)
        try noteExchange(request, end: end, user: turn.incoming.access.caller.userID)
        let lent = try sync.lend(request, in: zone)
        let canCompare = turn.echo != .verdicts && sync.hasShape(of: turn.start, request)
        let fingerprint = canCompare ? try ledger.fingerprints[end] ?? zone.fingerprint(at: end) : nil
        // Without a fingerprint the device cannot verify its own rows, so it receives whole copies.
        let ids = fingerprint == nil || !notes.isEmpty ? [] : outcomes.compactMap(\.ids)
        let isAsSent = !ids.isEmpty && ids.count == outcomes.count
        let changeSets = isAsSent ? ids : try sync.mergeChangeSets(missed, outcomes, of: request, in: zone)
        // Compact last: the answer may contain revisions before the new horizon.
        if sync.compactsLog(at: ledger.state) {
            try sync.compact(zone, at: ledger.state)
            ledger.state = try zone.head().state
        }
        let answer = SyncAnswer(
            maxRevision: end,
            zone: turn.start,
            hasMore: end < last,
            fingerprint: fingerprint,
            overruled: notes,
            lent: lent,
            echo: isAsSent ? .ids : turn.echo == .verdicts ? .verdicts : .all,
            changeSets: changeSets
        )
        return ZoneAnswer(
            body: Array(answer.text.utf8),
            tally: sync.tally(of: outcomes, lag: turn.start.revision - request.maxRevision),
            device: request.device,
            revision: end
        )
    }

    /// Returns the notes of the device's overruled values, and forgets those that it has applied.
    private func notes(for request: SyncRequest, through end: Int64) throws -> [String] {
        guard let device = request.device, ledger.facts.devicesWithNotes.contains(device) else { return [] }
        return try zone.overruledNotes(
            device: device,
            after: request.overruled,
            through: end,
            limit: limits.overruledPerAnswerMax
        )
    }

    /// Notes the exchange with the request's device, which belongs to the request's user from now on.
    private mutating func noteExchange(_ request: SyncRequest, end: Int64, user: String?) throws {
        guard let device = request.device else { return }
        let last = try known.exchange(device)
        if let lap = request.lap {
            ledger.exchanges[device] = Exchange(lap: lap.next, revision: end, user: last?.user ?? user)
        } else if let user, last?.user == nil {
            ledger.exchanges[device] = Exchange(lap: last?.lap ?? "", revision: last?.revision ?? end, user: user)
        }
    }
}
