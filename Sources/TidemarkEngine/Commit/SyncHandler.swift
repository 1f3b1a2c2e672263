package import TidemarkCore

/// The server's core: one request in, one answer out, inside one transaction of the caller.
///
/// The life of a request:
///
/// 1. The store parses and stages it. An error refuses the whole request before any effect.
/// 2. The store absorbs the changes of other programs as a revision of their own.
/// 3. Each change set, in the device's order, gets a verdict. A stored verdict is repeated.
///    Otherwise the handler judges the change set, and the store writes and logs it at the next
///    revision. If it is refused, the store undoes it and returns the current records.
/// 4. The answer has the revisions that the device misses, then its own change sets.
///
/// The handler uses no clock, randomness or network. The same requests in the same order, at the
/// same times, give the same bytes.
package struct SyncHandler: Sendable {
    let limits: Limits

    /// Makes a handler with limits.
    package init(limits: Limits = .standard) { self.limits = limits }

    /// Answers a staged request, and counts its verdicts.
    ///
    /// When this returns, the caller commits durably, and then sends the answer. When this throws,
    /// the caller rolls back.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused whole.
    func answer(_ staged: SyncRequest, from access: ZoneAccess, in transaction: some StoreTransaction) throws
        -> ZoneAnswer
    {
        let request = access.caller == .anonymous ? staged.withoutDevice : staged
        try transaction.beginRequest(request)
        try transaction.absorbOutsideChanges()
        if let question = request.question {
            let text = try answer(question, of: request, from: access.caller, in: transaction)
            return ZoneAnswer(body: Array(text.utf8), tally: SyncTally(), device: request.device)
        }
        let start = try transaction.zone()
        try admit(request, from: access.caller, to: start, knowing: KnownState(transaction), in: transaction)
        let missed = try catchUp(request, at: start, through: start.revision, in: transaction)
        if !request.changeSets.isEmpty { try transaction.establishFingerprint() }
        let echo = missed.isEmpty ? request.echo : .all
        try transaction.recallIdentities(request)

        let verdicts = try decideAll(request, from: access, echo: echo, since: start.time, in: transaction)
        try checkSettled(request, missed, knowing: KnownState(transaction), in: transaction)
        let last = try transaction.zone().revision
        let end = missed.hasMore || echo == .verdicts ? missed.revision : last
        let notes = try request.device.map {
            try transaction.overruledNotes(
                device: $0,
                after: request.overruled,
                through: end,
                limit: limits.overruledPerAnswerMax
            )
        }
        try keepExchange(request, end: end, user: access.caller.userID, in: transaction)
        let lent = try lend(request, in: transaction)
        let canCompare = echo != .verdicts && hasShape(of: start, request)
        let fingerprint = canCompare ? try transaction.fingerprint(at: end) : nil
        // Without a fingerprint the device cannot verify its own rows, so it receives whole copies.
        let ids = fingerprint == nil || notes?.isEmpty == false ? [] : verdicts.compactMap(\.ids)
        let isAsSent = !ids.isEmpty && ids.count == verdicts.count
        let changeSets = isAsSent ? ids : try mergeChangeSets(missed, verdicts, of: request, in: transaction)
        // Compact last: the answer may contain revisions before the new horizon.
        try compact(transaction, at: transaction.zone())
        let answer = SyncAnswer(
            maxRevision: end,
            zone: start,
            hasMore: end < last,
            fingerprint: fingerprint,
            overruled: notes ?? [],
            lent: lent,
            echo: isAsSent ? .ids : echo == .verdicts ? .verdicts : .all,
            changeSets: changeSets
        )
        return ZoneAnswer(
            body: Array(answer.text.utf8),
            tally: tally(of: verdicts, lag: start.revision - request.maxRevision),
            device: request.device,
            revision: end
        )
    }

    /// Decides the change sets of a request, in their order.
    ///
    /// `time` is the last time of the zone's hybrid clock.
    private func decideAll(
        _ request: SyncRequest,
        from access: ZoneAccess,
        echo: SyncRequest.Echo,
        since time: Int64,
        in transaction: some StoreTransaction
    ) throws -> [Outcome] {
        var verdicts: [Outcome] = []
        var accepted: [Int64] = []
        var clock = HybridClock(last: time)
        for envelope in request.changeSets {
            let outcome = try placing(envelope) {
                let stamp = stamp(for: envelope, of: request, from: access, clock: &clock, at: transaction.now)
                return try decide(
                    envelope,
                    request: request,
                    access: access,
                    stamp: stamp,
                    echo: echo,
                    accepted: accepted,
                    in: transaction
                )
            }
            if let revision = outcome.revision { accepted.append(revision) }
            verdicts.append(outcome)
        }
        return verdicts
    }

    /// Keeps the exchange with the request's device, which belongs to the request's user from now on.
    func keepExchange(
        _ request: SyncRequest,
        end: Int64,
        user: String?,
        in transaction: some ZoneBooks
    ) throws {
        guard let device = request.device else { return }
        if let lap = request.lap {
            try transaction.keep(Exchange(lap: lap.next, revision: end, user: user), with: device)
        } else if let user {
            let last = try transaction.lastExchange(with: device)
            guard last?.user == nil else { return }
            let exchange = Exchange(lap: last?.lap ?? "", revision: last?.revision ?? end, user: user)
            try transaction.keep(exchange, with: device)
        }
    }

    /// Lends ids of the tables that a request names.
    func lend(_ request: SyncRequest, in transaction: some ZoneBooks) throws -> [String: [LentIDs]] {
        guard request.device != nil, !request.lend.isEmpty else { return [:] }
        guard limits.lendsIDs else { return Dictionary(uniqueKeysWithValues: request.lend.map { ($0, []) }) }
        return try transaction.lend(request.lend)
    }

    func tally(of verdicts: [Outcome], lag: Int64) -> SyncTally {
        var tally = SyncTally()
        for verdict in verdicts {
            if verdict.storedVerdict != nil {
                tally.repeats += 1
            } else if verdict.revision == nil {
                tally.conflicts += 1
            } else {
                tally.accepted += 1
            }
        }
        tally.lag = lag
        return tally
    }

    /// Reads the revisions that the device misses, or refuses a device that is far behind.
    ///
    /// Such a device takes a delta instead: its size depends on the number of changed records, not
    /// of changes. No change set has been judged yet; the device sends them again after the delta.
    func catchUp(
        _ request: SyncRequest,
        at zone: ZoneState,
        through end: Int64,
        in transaction: some ZoneBooks
    ) throws -> CatchUp {
        guard request.echo != .verdicts, request.maxRevision < end else {
            return CatchUp(bodies: [], revision: request.maxRevision, hasMore: false)
        }
        let takesDelta = request.takesDelta && request.limit == nil && request.schema == zone.schema
        let bytesMax = takesDelta ? limits.deltaBytesMin : limits.catchUpBytesMax
        let limit = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        let missed = try transaction.catchUp(
            MissedRevisions(
                after: request.maxRevision,
                through: end,
                limit: limit,
                bytesMax: bytesMax,
                bringsFirst: !takesDelta,
                device: request.isSettled ? nil : request.device
            )
        )
        let isLarge =
            missed.hasMore && missed.bodies.count < limit || missed.bodies.reduce(0) { $0 + $1.utf8.count } > bytesMax
        guard takesDelta, isLarge else { return missed }
        throw TidemarkError(
            .snapshotRequired,
            "More has changed since revision \(request.maxRevision) than change sets are good for.",
            fix: "Take GET /snapshot with `since`, and go on from its revision."
        )
    }

    /// Runs one compaction step if the log exceeds the limit by enough revisions.
    func compact(_ transaction: some ZoneBooks, at zone: ZoneState) throws {
        guard compactsLog(at: zone), let excess = excess(at: zone) else { return }
        try transaction.compact(to: zone.horizon + min(excess, Int64(limits.compactionStepMax)))
    }

    /// Whether the log exceeds the limit by enough revisions.
    func compactsLog(at zone: ZoneState) -> Bool {
        excess(at: zone).map { $0 >= Int64(max(1, limits.compactionStepMin)) } ?? false
    }

    private func excess(at zone: ZoneState) -> Int64? {
        limits.revisionsKept.map { zone.revision - Int64($0) - zone.horizon }
    }

    /// Adds the change set to the place of an error thrown by `body`.
    func placing<Result>(_ envelope: SyncRequest.Envelope, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch var error as TidemarkError {
            error.place.changeSet = envelope.index
            error.place.id = envelope.id
            throw error
        }
    }

    /// Returns the change sets of an answer: the missed revisions, then the device's own.
    func mergeChangeSets(
        _ missed: CatchUp,
        _ verdicts: [Outcome],
        of request: SyncRequest,
        in transaction: some ZoneBooks
    ) throws -> [String] {
        // A repeated change set may be among the missed revisions. If this device is its author,
        // the author's copy is already there; otherwise it replaces the body below. If more
        // revisions follow, accepted change sets come with them; conflicts come now.
        let own = zip(request.changeSets, verdicts).filter { _, verdict in
            let isMissed = missed.includes(verdict.revision, after: request.maxRevision)
            let author = verdict.storedVerdict?.device
            return isMissed ? author == nil || author != request.device : !missed.hasMore || verdict.revision == nil
        }
        let idsWithoutBody = own.compactMap { envelope, verdict in verdict.body == nil ? envelope.id : nil }
        let extent = request.echo == .verdicts ? request.echo : .all
        let copies = idsWithoutBody.isEmpty ? [:] : try transaction.authorsCopies(of: idsWithoutBody, extent)
        var bodies = missed.bodies
        for (envelope, verdict) in own {
            guard let body = verdict.body ?? envelope.id.flatMap({ copies[$0] }) else {
                throw TidemarkError(
                    .internalFailure,
                    "The verdict of a change set is missing right after its commit.",
                    fix: "Please report this.",
                    place: .init(changeSet: envelope.index, id: envelope.id)
                )
            }
            if let revision = verdict.revision, missed.includes(revision, after: request.maxRevision) {
                // Revisions are dense, so the index follows from the revision.
                bodies[Int(revision - request.maxRevision - 1)] = body
            } else {
                bodies.append(body)
            }
        }
        return bodies
    }
}

extension CatchUp {
    /// Whether the catch-up after revision `first` includes a revision.
    fileprivate func includes(_ revision: Int64?, after first: Int64) -> Bool {
        revision.map { $0 > first && $0 <= self.revision } ?? false
    }
}
