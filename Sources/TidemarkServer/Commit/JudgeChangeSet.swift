import TidemarkCore

/// The verdict on one change set: the one that was given before, or the rules, the rows and the
/// log.
extension SyncHandler {
    /// What became of a change set.
    struct Outcome {
        /// As its author receives it; nil when that is looked up if somebody needs it.
        let body: String?
        /// The revision it became; nil for a conflict.
        let revision: Int64?
        /// Its new ids alone.
        var ids: String?
        /// The verdict, when it had been given before.
        var repeated: Verdict?
    }

    /// Who made a change set, and when: by its author's clock, as far as that can be believed, else
    /// by the server's.
    func stamped(_ envelope: SyncRequest.Envelope, _ request: SyncRequest, _ clock: inout HybridClock, at now: Int64)
        -> Stamp
    {
        let time =
            envelope.time.map { clock.admit($0, at: now, skewMax: limits.clockSkewMillisecondsMax) }
            ?? clock.next(at: now)
        return Stamp(time: time, device: request.device)
    }

    func decide(
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
            return Outcome(body: nil, revision: verdict.revision, repeated: verdict)
        }
        if planted(PlantedBug.refusesEverything) { throw TidemarkError(.constraintViolated, "No.", fix: "Give up.") }
        let ancestry = try transaction.ancestry(of: envelope.after)
        do {
            return try transaction.attempt {
                // Before anything else: its temporary ids may be those of the refused one.
                guard !ancestry.isRefused else {
                    throw Violation.conflict([ConflictReason(table: "", key: "", columns: [], rule: .predecessor)])
                }
                let revision = try transaction.begin(envelope.ord, device: request.device)
                let base = request.maxRevision
                let own = ancestry.revisions + accepted
                let seen = planted(PlantedBug.forgetsOwnCommits) ? [] : own
                let overrulings = try judgeAll(
                    transaction.contentions(envelope.ord, base: base, seen: seen, stamp: stamp),
                    in: transaction
                )
                try transaction.overrule(overrulings, in: envelope.ord)
                try transaction.apply(envelope.ord)
                _ = try judgeAll(transaction.cascades(envelope.ord, base: base, seen: seen), in: transaction)
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
                device: request.device,
                reasons: reasons,
                relatedMax: relatedMax(request)
            )
            return Outcome(body: body, revision: nil)
        } catch Violation.refusal(let error) {
            if planted(PlantedBug.swallowsRefusal) { return Outcome(body: "{}", revision: nil) }
            throw error
        }
    }

    /// How many related records a refusal brings along.
    private func relatedMax(_ request: SyncRequest) -> Int {
        let wanted = request.echo == .verdicts ? 0 : request.related
        return min(wanted ?? .max, limits.relatedRecordsMax)
    }

    /// Judges contended records.
    ///
    /// - Returns: Those in which a policy decided between two values.
    private func judgeAll(_ contentions: [Contention], in transaction: some StoreTransaction) throws -> [Overruling] {
        var reasons = [ConflictReason]()
        var overrulings = [Overruling]()
        for contention in contentions {
            let policy = try transaction.policy(of: contention.table)
            switch judge(contention, policy: policy.table, columns: policy.columns) {
            case .merge: continue
            case .overrule(let mine, let theirs):
                overrulings.append(Overruling(contention: contention, mine: mine, theirs: theirs))
            case .conflict(let rule, let columns):
                reasons.append(
                    ConflictReason(
                        table: contention.table,
                        key: contention.key,
                        columns: columns.sorted(),
                        rule: Self.mistaken(rule)
                    )
                )
            }
        }
        if !reasons.isEmpty { throw Violation.conflict(reasons) }
        return overrulings
    }

    /// The rule, unless a planted bug takes it for another one.
    private static func mistaken(_ rule: ConflictRule) -> ConflictRule {
        if planted(PlantedBug.mistakesForDeleted) { return .deleted }
        if planted(PlantedBug.mistakesForExisting) { return .exists }
        if planted(PlantedBug.mistakesForOrphan) { return .parentDeleted }
        if planted(PlantedBug.mistakesForReferenced) { return .referenced }
        return planted(PlantedBug.mistakesForUnique) ? .unique : rule
    }
}
