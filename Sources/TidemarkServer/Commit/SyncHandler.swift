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
        try answer(body, in: transaction).text
    }

    /// Answers a request, and says in numbers what it was about.
    func answer(
        _ body: [UInt8],
        in transaction: some StoreTransaction
    ) throws -> (text: String, tally: SyncTally) {
        let request = try transaction.stage(body, limits: limits)
        try transaction.absorbOutsideChanges()
        if let question = request.question {
            return (try answer(question, of: request, in: transaction), SyncTally())
        }
        let start = try transaction.zone()
        try admit(request, to: start, in: transaction)
        let missed = try catchUp(request, at: start, in: transaction)
        let echo = missed.isEmpty ? request.echo : .all
        try transaction.recallIdentities(device: request.device)

        var verdicts: [Outcome] = []
        var accepted: [Int64] = []
        var clock = HybridClock(last: start.time)
        for envelope in request.changeSets {
            let outcome = try placing(envelope) {
                let stamp = stamped(envelope, request, &clock, at: transaction.now)
                return try decide(
                    envelope,
                    request,
                    stamp,
                    echo,
                    accepted: accepted,
                    in: transaction
                )
            }
            if let revision = outcome.revision { accepted.append(revision) }
            verdicts.append(outcome)
        }
        try checkSettled(request, missed, in: transaction)
        let end = missed.hasMore ? missed.revision : try transaction.zone().revision
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
        try compact(transaction)
        let fingerprint = hasShape(of: start, request) ? try transaction.fingerprint(at: end) : nil
        // Who adds up the rows for himself has to be told what they should add up to.
        let ids = fingerprint == nil || notes?.isEmpty == false ? [] : verdicts.compactMap(\.ids)
        let isAsSent = !ids.isEmpty && ids.count == verdicts.count
        let answer = SyncAnswer(
            maxRevision: end,
            zone: start,
            hasMore: missed.hasMore,
            fingerprint: fingerprint,
            overruled: notes ?? [],
            echo: isAsSent ? .ids : .all,
            changeSets: isAsSent ? ids : merged(missed, verdicts, after: request.maxRevision)
        )
        return (answer.text, tally(of: verdicts, lag: start.revision - request.maxRevision))
    }

    private func tally(of verdicts: [Outcome], lag: Int64) -> SyncTally {
        var tally = SyncTally()
        for verdict in verdicts {
            if verdict.isRepeated {
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

    /// Refuses a request that does not fit what the zone is at.
    func admit(
        _ request: SyncRequest,
        to zone: ZoneState,
        in transaction: some StoreTransaction
    ) throws {
        try check(request, against: zone, in: transaction)
        try checkLap(request, in: transaction)
        try compareFingerprint(request, against: zone, in: transaction)
    }

    /// What others have changed; a device that is far behind is told to take a delta instead, whose
    /// cost depends on the records that changed, not on how often.
    ///
    /// Nothing of the request has been looked at yet; it comes again after the delta.
    private func catchUp(
        _ request: SyncRequest,
        at zone: ZoneState,
        in transaction: some StoreTransaction
    ) throws -> CatchUp {
        let takesDelta =
            request.takesDelta && request.limit == nil && request.schema == zone.schema
        let bytesMax = takesDelta ? limits.deltaBytesMin : limits.catchUpBytesMax
        let limit = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        let missed = try transaction.catchUp(
            MissedRevisions(
                after: request.maxRevision,
                through: zone.revision,
                limit: limit,
                bytesMax: bytesMax,
                device: request.isSettled ? nil : request.device
            )
        )
        let isMuch =
            missed.hasMore && missed.bodies.count < limit
            || missed.bodies.reduce(0) { $0 + $1.utf8.count } > bytesMax
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

    // MARK: One change set

    /// What became of a change set.
    private struct Outcome {
        let body: String
        /// The revision it became; nil for a conflict.
        let revision: Int64?
        /// Its new ids alone, when they were asked for and say enough.
        var ids: String?
        /// Whether the verdict had been given before.
        var isRepeated = false
    }

    /// Who made a change set, and when: by its author's clock, as far as that can be believed, else
    /// by the server's.
    private func stamped(
        _ envelope: SyncRequest.Envelope,
        _ request: SyncRequest,
        _ clock: inout HybridClock,
        at now: Int64
    ) -> Stamp {
        let time =
            envelope.time.map {
                clock.admit($0, at: now, skewMax: limits.clockSkewMillisecondsMax)
            } ?? clock.next(at: now)
        return Stamp(time: time, device: request.device)
    }

    private func decide(
        _ envelope: SyncRequest.Envelope,
        _ request: SyncRequest,
        _ stamp: Stamp,
        _ echo: SyncRequest.Echo,
        accepted: [Int64],
        in transaction: some StoreTransaction
    ) throws -> Outcome {
        if let id = envelope.id, let verdict = try transaction.verdict(of: id) {
            // Whoever has 128 random bits and the content has the change set: a device may have
            // taken a new identity since.
            guard verdict.hash == envelope.hash || planted(PlantedBug.ignoresContentHash) else {
                throw TidemarkError(
                    .changeSetIdReused,
                    "This change set id stands for another content.",
                    fix: "Give every change set 128 new random bits as its id."
                )
            }
            return Outcome(body: verdict.body, revision: verdict.revision, isRepeated: true)
        }
        let ancestry = try transaction.ancestry(of: envelope.after)
        do {
            return try transaction.attempt {
                // Before anything else: its temporary ids may be those of the refused one.
                guard !ancestry.isRefused else {
                    throw Violation.conflict([
                        ConflictReason(table: "", key: "", columns: [], rule: .predecessor)
                    ])
                }
                let revision = try transaction.begin(envelope.ord, device: request.device)
                let (base, own) = (request.maxRevision, ancestry.revisions + accepted)
                let seen = planted(PlantedBug.forgetsOwnCommits) ? [] : own
                let overrulings = try judgeAll(
                    transaction.contentions(envelope.ord, base: base, seen: seen, stamp: stamp),
                    in: transaction
                )
                try transaction.overrule(overrulings, in: envelope.ord)
                try transaction.apply(envelope.ord)
                _ = try judgeAll(
                    transaction.cascades(envelope.ord, base: base, seen: seen),
                    in: transaction
                )
                let body = try transaction.log(envelope, revision: revision, stamp: stamp)
                var outcome = Outcome(body: body, revision: revision)
                if echo == .ids {
                    outcome.ids = try transaction.echo(envelope, revision: revision, stamp: stamp)
                }
                return outcome
            }
        } catch Violation.conflict(let reasons) {
            let body = try transaction.refuse(
                envelope,
                device: request.device,
                reasons: reasons,
                relatedMax: limits.relatedRecordsMax
            )
            return Outcome(body: body, revision: nil)
        } catch Violation.refusal(let error) {
            if planted(PlantedBug.swallowsRefusal) { return Outcome(body: "{}", revision: nil) }
            throw error
        }
    }

    /// Judges contended records.
    ///
    /// - Returns: Those in which a policy decided between two values.
    private func judgeAll(
        _ contentions: [Contention],
        in transaction: some StoreTransaction
    ) throws -> [Overruling] {
        var (reasons, overrulings) = ([ConflictReason](), [Overruling]())
        for contention in contentions {
            let policy = try transaction.policy(of: contention.table)
            switch judge(contention, policy: policy.table, columns: policy.columns) {
            case .merge: continue
            case .overrule(let mine, let theirs):
                overrulings.append(
                    Overruling(contention: contention, mine: mine, theirs: theirs)
                )
            case .conflict(let rule, let columns):
                reasons.append(
                    ConflictReason(
                        table: contention.table,
                        key: contention.key,
                        columns: columns.sorted(),
                        rule: rule
                    )
                )
            }
        }
        if !reasons.isEmpty { throw Violation.conflict(reasons) }
        return overrulings
    }

    /// Adds the change set to the place of an error that is thrown while it is looked at.
    private func placing<Result>(
        _ envelope: SyncRequest.Envelope,
        _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch var error as TidemarkError {
            error.place.changeSet = envelope.ord
            error.place.id = envelope.id
            throw error
        }
    }

    // MARK: The whole

    private func check(
        _ request: SyncRequest,
        against zone: ZoneState,
        in transaction: some StoreTransaction
    ) throws {
        if let epoch = request.epoch, epoch != zone.epoch, !planted(PlantedBug.ignoresEpoch) {
            let end = try transaction.end(of: epoch)
            throw TidemarkError(
                .epochMismatch,
                end.map {
                    "The zone was restored from a backup: the history that this device knows ended at revision \($0)."
                } ?? "The zone has another history than the one this device knows.",
                fix: "Take a new snapshot; the outbox is kept and offered again."
            )
        }
        guard request.maxRevision <= zone.revision else {
            throw TidemarkError(
                .revisionAhead,
                "maxRevision is \(request.maxRevision), but the zone has only reached \(zone.revision).",
                fix:
                    "Take a new snapshot: the server's file was replaced or restored from a backup."
            )
        }
        guard request.maxRevision >= zone.horizon else {
            throw TidemarkError(
                .snapshotRequired,
                "The log begins at revision \(zone.horizon), after \(request.maxRevision).",
                fix: "Start from GET /snapshot, which holds all rows, and go on from its revision."
            )
        }
    }

    /// Tells two files with one identity apart: each request says what the server must have seen
    /// last.
    private func checkLap(_ request: SyncRequest, in transaction: some StoreTransaction) throws {
        guard let lap = request.lap, let device = request.device else { return }
        guard lap.follows(try transaction.lastExchange(with: device)?.lap) else {
            throw Self.identityInUse
        }
    }

    /// Tells them apart where a request has no lap: a device that has taken in all answers knows
    /// every revision of its own.
    private func checkSettled(
        _ request: SyncRequest,
        _ missed: CatchUp,
        in transaction: some StoreTransaction
    ) throws {
        guard request.isSettled, let device = request.device,
            try transaction.hasRevision(
                by: device,
                after: request.maxRevision,
                through: missed.revision
            )
        else { return }
        throw Self.identityInUse
    }

    private static let identityInUse = TidemarkError(
        .identityInUse,
        "The server has seen this device in another state: the device's file or the server's is an older copy, or the device's file was copied and both are in use.",
        fix: "The device takes a new identity and a new snapshot; the outbox is kept."
    )

    /// A device at a revision has the rows of that revision, or something is wrong: its rows, or
    /// the history that it knows under the same numbers.
    private func compareFingerprint(
        _ request: SyncRequest,
        against zone: ZoneState,
        in transaction: some StoreTransaction
    ) throws {
        guard let mine = request.fingerprint, hasShape(of: zone, request),
            let known = try transaction.fingerprint(at: request.maxRevision), mine != known
        else { return }
        throw TidemarkError(
            .fingerprintMismatch,
            "The device's rows are not those of revision \(request.maxRevision): \(mine) is not \(known).",
            fix: "Compare the rows by POST /fingerprints and replace those that differ."
        )
    }

    /// Over other columns, the same rows have another fingerprint.
    func hasShape(of zone: ZoneState, _ request: SyncRequest) -> Bool {
        request.schema == nil || request.schema == zone.schema
    }

    private func answer(
        _ question: SyncRequest.Question,
        of request: SyncRequest,
        in transaction: some StoreTransaction
    ) throws -> String {
        let zone = try transaction.zone()
        let verdicts = try question.recall.compactMap { try transaction.verdict(of: $0)?.body }
        let known = try transaction.known(question.known).map { "\"\($0)\"" }
        let seen = try seen(by: request, at: zone, in: transaction)
        return #"{"maxRevision":\#(zone.revision),"epoch":"\#(zone.epoch)","more":false,"#
            + #""seen":\#(seen.map(String.init) ?? "null"),"known":[\#(known.joined(separator: ","))],"#
            + #""changeSets":[\#(verdicts.joined(separator: ","))]}"#
    }

    /// The revision up to which the zone still is what the device has seen of it, as far as the
    /// server can tell: by the fingerprint, or because it remembers having brought the device
    /// there.
    private func seen(
        by request: SyncRequest,
        at zone: ZoneState,
        in transaction: some StoreTransaction
    ) throws -> Int64? {
        if let mine = request.fingerprint, request.epoch == zone.epoch, hasShape(of: zone, request),
            request.maxRevision <= zone.revision,
            try transaction.fingerprint(at: request.maxRevision) == mine
        {
            return request.maxRevision
        }
        return try request.device.flatMap { try transaction.lastExchange(with: $0)?.revision }
    }

    /// The change sets of an answer: what the device misses, then what became of its own.
    private func merged(
        _ missed: CatchUp,
        _ verdicts: [Outcome],
        after revision: Int64
    ) -> [String] {
        // A repeated verdict may be among the missed revisions already: there it stands once, as
        // its author sees it. Revisions are dense, so its place is known.
        var bodies = missed.bodies
        var own: [String] = []
        for verdict in verdicts {
            if let accepted = verdict.revision, accepted > revision, accepted <= missed.revision {
                bodies[Int(accepted - revision - 1)] = verdict.body
            } else if !missed.hasMore || verdict.revision == nil {
                // With more to come, accepted change sets follow in their turn; a conflict has no
                // turn to wait for.
                own.append(verdict.body)
            }
        }
        return bodies + own
    }
}
