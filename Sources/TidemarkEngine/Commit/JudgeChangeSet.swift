import TidemarkCore

/// The verdict on one change set: the stored one, or a new one by the rules, the rows and the log.
extension SyncHandler {
    /// The outcome of a change set.
    struct Outcome {
        /// The author's copy; nil if the handler looks it up on demand.
        let body: String?
        /// The revision it became; nil for a conflict.
        let revision: Int64?
        /// The author's copy with new ids only.
        var ids: String?
        /// The stored verdict, for a change set that was decided before.
        var storedVerdict: Verdict?
    }

    /// Returns the author and time of a change set.
    ///
    /// The time is from the author's clock if its skew is acceptable, else from the server's.
    func stamp(
        for envelope: SyncRequest.Envelope,
        of request: SyncRequest,
        from access: ZoneAccess,
        clock: inout HybridClock,
        at now: Int64
    ) -> Stamp {
        let time =
            envelope.time.map { clock.admit($0, at: now, skewMax: limits.clockSkewMillisecondsMax) }
            ?? clock.next(at: now)
        return Stamp(time: time, device: request.device, user: access.caller.userID)
    }

    /// Returns the stored verdict of a change set, or judges it and writes it in a savepoint.
    func decide(
        _ envelope: SyncRequest.Envelope,
        request: SyncRequest,
        access: ZoneAccess,
        stamp: Stamp,
        echo: SyncRequest.Echo,
        accepted: [Int64],
        in transaction: some StoreTransaction
    ) throws -> Outcome {
        if let id = envelope.id, let verdict = try transaction.verdict(of: id) {
            // Id and content identify the change set. The sender may have a new device id.
            guard verdict.hash == envelope.hash || planted(PlantedBug.ignoresContentHash),
                try isOwn(verdict, of: request, from: access.caller, KnownState(transaction))
            else {
                throw TidemarkError(
                    .changeSetIdReused,
                    "This change set id stands for another content.",
                    fix: "Give every change set 128 new random bits as its id."
                )
            }
            return Outcome(body: nil, revision: verdict.revision, storedVerdict: verdict)
        }
        if planted(PlantedBug.refusesEverything) { throw TidemarkError(.constraintViolated, "No.", fix: "Give up.") }
        let ancestry = try transaction.ancestry(of: envelope.after)
        do {
            return try transaction.attempt {
                guard access.role >= .writer else {
                    throw Violation.conflict([ConflictReason(table: "", key: "", columns: [], rule: .forbidden)])
                }
                // Check this first: the change set may use temporary ids of the refused one.
                guard !ancestry.isRefused else {
                    throw Violation.conflict([ConflictReason(table: "", key: "", columns: [], rule: .predecessor)])
                }
                let revision = try transaction.begin(envelope.ord, device: request.device)
                let base = request.base
                let ownRevisions = ancestry.revisions + accepted
                let seenRevisions = planted(PlantedBug.forgetsOwnCommits) ? [] : ownRevisions
                let overrulings = try judgeAll(
                    transaction.contentions(envelope.ord, base: base, seenRevisions: seenRevisions, stamp: stamp),
                    by: transaction.policy
                )
                try transaction.overrule(overrulings, in: envelope.ord)
                try transaction.apply(envelope.ord)
                _ = try judgeAll(
                    transaction.cascades(envelope.ord, base: base, seenRevisions: seenRevisions),
                    by: transaction.policy
                )
                let logged = try transaction.log(envelope, revision: revision, stamp: stamp)
                if echo == .verdicts { return Outcome(body: logged.ids, revision: revision) }
                if echo == .ids, envelope.id != nil, logged.isAsSent {
                    return Outcome(body: nil, revision: revision, ids: logged.ids)
                }
                let copy = try logged.whole ?? transaction.authorsCopy(envelope, revision: revision, stamp: stamp)
                return Outcome(body: copy, revision: revision)
            }
        } catch Violation.conflict(let reasons) {
            let body = try transaction.refuse(
                envelope,
                of: request,
                reasons: reasons,
                relatedMax: relatedMax(request)
            )
            return Outcome(body: body, revision: nil)
        } catch Violation.refusal(let error) {
            if planted(PlantedBug.swallowsRefusal) { return Outcome(body: "{}", revision: nil) }
            throw error
        }
    }

    /// Whether a stored verdict is about a change set of the caller: of this device, or of another
    /// device that belongs to the same user.
    func isOwn(_ verdict: Verdict, of request: SyncRequest, from caller: Caller, _ known: KnownState) throws -> Bool {
        guard caller != .local, let device = verdict.device, device != request.device,
            !planted(PlantedBug.recallOfAnybody)
        else { return true }
        let owner = try known.exchange(device)?.user
        return owner == nil || owner == caller.userID
    }

    /// The most related records in a refusal.
    func relatedMax(_ request: SyncRequest) -> Int {
        let requestMax = request.echo == .verdicts ? 0 : request.related
        return min(requestMax ?? .max, limits.relatedRecordsMax)
    }
}
