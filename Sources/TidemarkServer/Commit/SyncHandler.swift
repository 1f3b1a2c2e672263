public import TidemarkCore

/// The server's core: one request in, one answer out, inside one transaction of the caller's.
///
/// The life of a request:
///
/// 1. The store parses and stages it. Anything wrong refuses the whole request before any effect.
/// 2. Changes that other programs made in the tables become a revision of their own.
/// 3. Each change set, in the device's order, is a verdict: one already given is repeated, else the
///    rules are judged, the rows written and logged at the next revision, or everything about it
///    undone and the truth returned.
/// 4. The answer is what the device misses, then its own change sets.
///
/// No clock, randomness or network: the same requests in the same order, at the same times, give
/// the same bytes.
public struct SyncHandler: Sendable {
    let limits: Limits

    /// Makes a handler with limits.
    public init(limits: Limits = .standard) { self.limits = limits }

    /// Answers a request.
    ///
    /// The caller commits the transaction when this returns, makes it durable, and only then sends
    /// the answer; it rolls back when this throws.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused whole.
    public func handle(_ body: [UInt8], in transaction: some StoreTransaction) throws -> String {
        try answer(transaction.stage(body, limits: limits), in: transaction).text
    }

    /// Answers a staged request, and says in numbers what it was about.
    func answer(_ request: SyncRequest, in transaction: some StoreTransaction) throws -> (
        text: String, tally: SyncTally
    ) {
        try transaction.turn(to: request)
        try transaction.absorbOutsideChanges()
        if let question = request.question { return (try answer(question, of: request, in: transaction), SyncTally()) }
        let start = try transaction.zone()
        try admit(request, to: start, in: transaction)
        let missed = try catchUp(request, at: start, in: transaction)
        if !request.changeSets.isEmpty { try transaction.establishFingerprint() }
        let echo = missed.isEmpty ? request.echo : .all
        try transaction.recallIdentities(request)

        var verdicts: [Outcome] = []
        var accepted: [Int64] = []
        var clock = HybridClock(last: start.time)
        for envelope in request.changeSets {
            let outcome = try placing(envelope) {
                let stamp = stamped(envelope, request, &clock, at: transaction.now)
                return try decide(envelope, request, stamp, echo, accepted: accepted, in: transaction)
            }
            if let revision = outcome.revision { accepted.append(revision) }
            verdicts.append(outcome)
        }
        try checkSettled(request, missed, in: transaction)
        let last = try transaction.zone().revision
        let end = missed.hasMore || echo == .verdicts ? missed.revision : last
        let notes = try request.device.map {
            try transaction.overruled(
                device: $0,
                taken: request.overruled,
                through: end,
                limit: limits.overruledPerAnswerMax
            )
        }
        if let lap = request.lap, let device = request.device {
            try transaction.keep(Exchange(lap: lap.next, revision: end), with: device)
        }
        let addsUp = echo != .verdicts && hasShape(of: start, request)
        let fingerprint = addsUp ? try transaction.fingerprint(at: end) : nil
        // Who adds up the rows for himself has to be told what they should add up to.
        let ids = fingerprint == nil || notes?.isEmpty == false ? [] : verdicts.compactMap(\.ids)
        let isAsSent = !ids.isEmpty && ids.count == verdicts.count
        let changeSets = isAsSent ? ids : try merged(missed, verdicts, of: request, in: transaction)
        // Only now: what the answer has of the log may be behind the new horizon.
        try compact(transaction)
        let answer = SyncAnswer(
            maxRevision: end,
            zone: start,
            hasMore: end < last,
            fingerprint: fingerprint,
            overruled: notes ?? [],
            echo: isAsSent ? .ids : echo == .verdicts ? .verdicts : .all,
            changeSets: changeSets
        )
        return (answer.text, tally(of: verdicts, lag: start.revision - request.maxRevision))
    }

    private func tally(of verdicts: [Outcome], lag: Int64) -> SyncTally {
        var tally = SyncTally()
        for verdict in verdicts {
            if verdict.repeated != nil {
                tally.repeated += 1
            } else if verdict.revision == nil {
                tally.conflicts += 1
            } else {
                tally.accepted += 1
            }
        }
        tally.lag = lag
        return tally
    }

    /// What others have changed; a device that is far behind is told to take a delta instead, whose
    /// cost depends on the records that changed, not on how often.
    ///
    /// Nothing of the request has been looked at yet; it comes again after the delta.
    private func catchUp(_ request: SyncRequest, at zone: ZoneState, in transaction: some StoreTransaction) throws
        -> CatchUp
    {
        guard request.echo != .verdicts else {
            return CatchUp(bodies: [], revision: request.maxRevision, hasMore: false)
        }
        let takesDelta = request.takesDelta && request.limit == nil && request.schema == zone.schema
        let bytesMax = takesDelta ? limits.deltaBytesMin : limits.catchUpBytesMax
        let limit = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        let missed = try transaction.catchUp(
            MissedRevisions(
                after: request.maxRevision,
                through: zone.revision,
                limit: limit,
                bytesMax: bytesMax,
                bringsFirst: !takesDelta,
                device: request.isSettled ? nil : request.device
            )
        )
        let isMuch =
            missed.hasMore && missed.bodies.count < limit || missed.bodies.reduce(0) { $0 + $1.utf8.count } > bytesMax
        guard takesDelta, isMuch else { return missed }
        throw TidemarkError(
            .snapshotRequired,
            "More has changed since revision \(request.maxRevision) than change sets are good for.",
            fix: "Take GET /snapshot with `since`, and go on from its revision."
        )
    }

    /// Takes a step of compaction when enough revisions are older than the limits keep.
    private func compact(_ transaction: some StoreTransaction) throws {
        guard let kept = limits.revisionsKept else { return }
        let zone = try transaction.zone()
        let old = zone.revision - Int64(kept) - zone.horizon
        guard old >= Int64(max(1, limits.compactionStepMin)) else { return }
        try transaction.compact(to: zone.horizon + min(old, Int64(limits.compactionStepMax)))
    }

    /// Adds the change set to the place of an error that is thrown while it is looked at.
    private func placing<Result>(_ envelope: SyncRequest.Envelope, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch var error as TidemarkError {
            error.place.changeSet = envelope.index
            error.place.id = envelope.id
            throw error
        }
    }

    /// The change sets of an answer: what the device misses, then what became of its own.
    private func merged(
        _ missed: CatchUp,
        _ verdicts: [Outcome],
        of request: SyncRequest,
        in transaction: some StoreTransaction
    ) throws -> [String] {
        // A repeated verdict may be among the missed revisions already: there it stands once, as
        // its author sees it, and to the device that sent it, it came so. With more to come,
        // accepted change sets follow in their turn; a conflict has no turn to wait for.
        let own = zip(request.changeSets, verdicts).filter { _, verdict in
            let isMissed = missed.includes(verdict.revision, after: request.maxRevision)
            let author = verdict.repeated?.device
            return isMissed ? author == nil || author != request.device : !missed.hasMore || verdict.revision == nil
        }
        let unknown = own.compactMap { envelope, verdict in verdict.body == nil ? envelope.id : nil }
        let extent = request.echo == .verdicts ? request.echo : .all
        let copies = unknown.isEmpty ? [:] : try transaction.authorsCopies(of: unknown, extent)
        var bodies = missed.bodies
        for (envelope, verdict) in own {
            guard let body = verdict.body ?? envelope.id.flatMap({ copies[$0] }) else {
                throw TidemarkError(
                    .internalFailure,
                    "What became of a change set is not known a moment later.",
                    fix: "Please report this.",
                    place: .init(changeSet: envelope.index, id: envelope.id)
                )
            }
            if let revision = verdict.revision, missed.includes(revision, after: request.maxRevision) {
                // Revisions are dense, so its place is known.
                bodies[Int(revision - request.maxRevision - 1)] = body
            } else {
                bodies.append(body)
            }
        }
        return bodies
    }
}

extension CatchUp {
    /// Whether a revision is among those that were missed after another one.
    fileprivate func includes(_ revision: Int64?, after first: Int64) -> Bool {
        revision.map { $0 > first && $0 <= self.revision } ?? false
    }
}
