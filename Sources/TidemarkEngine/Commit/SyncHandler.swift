package import TidemarkCore

/// The rules about a request as a whole: who may send it, what it misses, and what its answer repeats.
package struct SyncHandler: Sendable {
    let limits: Limits

    package init(limits: Limits = .standard) { self.limits = limits }

    struct Outcome {
        /// The author's copy; nil if the handler looks it up on demand.
        let body: String?
        /// The revision it became; nil for a conflict.
        let revision: Int64?
        /// The author's copy with new ids only.
        var ids: String?
        /// The stored verdict, for a change set that was decided before.
        var storedVerdict: Verdict?
        /// The verdict for a client without rows; nil if the handler looks it up on demand.
        var verdict: WriteVerdict?
    }

    /// Returns author and time of a change set, by the author's clock if its skew is acceptable, else the server's.
    func stamp(
        for envelope: SyncRequest.Envelope, of request: SyncRequest, from access: ZoneAccess, clock: inout HybridClock,
        at now: Int64
    ) -> Stamp {
        let time =
            envelope.time.map { clock.admit($0, at: now, skewMax: limits.clockSkewMillisecondsMax) }
            ?? clock.next(at: now)
        return Stamp(time: time, device: request.device, user: access.caller.userID)
    }

    /// Whether a stored verdict is about a change set of this device, or of another one of the same user.
    func isOwn(_ verdict: Verdict, of request: SyncRequest, from caller: Caller) -> Bool {
        guard caller != .local, let device = verdict.device, device != request.device,
            !planted(PlantedBug.recallOfAnybody)
        else { return true }
        return verdict.owner == nil || verdict.owner == caller.userID
    }

    /// The most related records in a refusal: none for a device that keeps its rows, or a client that has none.
    func relatedMax(_ request: SyncRequest) -> Int { request.echo == .all ? limits.relatedRecordsMax : 0 }

    func lend(_ request: SyncRequest, in transaction: some CommitTransaction) throws -> [String: [LentIDs]] {
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
        _ request: SyncRequest, for access: ZoneAccess, at zone: ZoneState, through end: Int64,
        in transaction: some CommitTransaction
    ) throws -> CatchUp {
        guard request.echo != nil, request.maxRevision < end else {
            return CatchUp(bodies: [], revision: request.maxRevision, hasMore: false)
        }
        let takesDelta = request.takesDelta && request.limit == nil && request.schema == zone.schema
        let bytesMax = takesDelta ? limits.deltaBytesMin : limits.catchUpBytesMax
        let limit = min(request.limit ?? .max, limits.revisionsPerAnswerMax)
        let missed = try LogReader(transaction, for: access).catchUp(
            MissedRevisions(
                after: request.maxRevision, through: end, limit: limit, bytesMax: bytesMax, bringsFirst: !takesDelta,
                device: request.isSettled ? nil : request.device))
        let isLarge =
            missed.hasMore && missed.bodies.count < limit || missed.bodies.reduce(0) { $0 + $1.utf8.count } > bytesMax
        guard takesDelta, isLarge else { return missed }
        throw TidemarkError(
            .snapshotRequired, "More has changed since revision \(request.maxRevision) than change sets are good for.",
            fix: "Take GET /snapshot with `since`, and go on from its revision.")
    }

    /// Runs one compaction step if the log exceeds the limit by enough revisions.
    func compact(_ transaction: some CommitTransaction, at zone: ZoneState) throws {
        guard compactsLog(at: zone), let excess = excess(at: zone) else { return }
        try transaction.compact(to: zone.horizon + min(excess, Int64(limits.compactionStepMax)))
    }

    func compactsLog(at zone: ZoneState) -> Bool {
        excess(at: zone).map { $0 >= Int64(max(1, limits.compactionStepMin)) } ?? false
    }

    private func excess(at zone: ZoneState) -> Int64? {
        limits.revisionsKept.map { zone.revision - Int64($0) - zone.horizon }
    }

    /// Returns the change sets of an answer: the missed revisions, then the device's own.
    func mergeChangeSets(
        _ missed: CatchUp, _ verdicts: [Outcome], of request: SyncRequest, in transaction: some CommitTransaction
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
        let copies = idsWithoutBody.isEmpty ? [:] : try transaction.authorsCopies(of: idsWithoutBody, .all)
        var bodies = missed.bodies
        for (envelope, verdict) in own {
            guard let body = verdict.body ?? envelope.id.flatMap({ copies[$0] }) else {
                throw Self.missingVerdict(envelope)
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

    static func missingVerdict(_ envelope: SyncRequest.Envelope) -> TidemarkError {
        TidemarkError(
            .internalFailure, "The verdict of a change set is missing right after its commit.",
            fix: "Please report this.", place: .init(changeSet: envelope.index, id: envelope.id))
    }
}

extension CatchUp {
    /// Whether the catch-up after revision `first` includes a revision.
    fileprivate func includes(_ revision: Int64?, after first: Int64) -> Bool {
        revision.map { $0 > first && $0 <= self.revision } ?? false
    }
}

/// What a transaction knows of a device and a revision; a commit knows it without a query.
struct KnownState {
    let exchange: (String) throws -> Exchange?
    let fingerprint: (Int64) throws -> Fingerprint?
}

/// Checks that refuse a whole request before it has any effect.
extension SyncHandler {
    func admit(
        _ request: SyncRequest, from caller: Caller, to zone: ZoneState, knowing known: KnownState,
        in transaction: some CommitTransaction
    ) throws {
        try checkOwner(request, caller, knowing: known)
        try check(request, against: zone, in: transaction)
        try checkLap(request, known)
        try compareFingerprint(request, against: zone, known)
    }

    /// Refuses another user's device, whose overruled values, temporary ids and verdicts are its user's alone.
    func checkOwner(_ request: SyncRequest, _ caller: Caller, knowing known: KnownState) throws {
        guard let user = caller.userID, let device = request.device,
            let owner = try known.exchange(device)?.user, owner != user,
            !planted(PlantedBug.deviceOfAnybody)
        else { return }
        throw Self.deviceTaken
    }

    package static let deviceTaken = TidemarkError(
        .deviceTaken, "This device id belongs to another user.",
        fix: "The device takes a new identity and a new snapshot; the outbox is kept.")

    private func check(_ request: SyncRequest, against zone: ZoneState, in transaction: some CommitTransaction) throws {
        if let epoch = request.epoch, epoch != zone.epoch, !planted(PlantedBug.ignoresEpoch) {
            let end = try transaction.end(of: epoch)
            throw TidemarkError(
                .epochMismatch,
                end.map {
                    """
                    The zone has begun a new history, because a backup was restored or a table made again: the one that \
                    this device knows ended at revision \($0).
                    """
                } ?? "The zone has another history than the one this device knows.",
                fix: "Take a new snapshot; the outbox is kept and offered again.")
        }
        guard request.maxRevision <= zone.revision else {
            throw TidemarkError(
                .revisionAhead,
                "maxRevision is \(request.maxRevision), but the zone has only reached \(zone.revision).",
                fix: "Take a new snapshot: the server's file was replaced or restored from a backup.")
        }
        // The server can judge any older base, but cannot send compacted revisions.
        guard request.maxRevision >= zone.horizon || request.echo == nil || planted(PlantedBug.forgetsHorizon)
        else {
            throw TidemarkError(
                .snapshotRequired, "The log begins at revision \(zone.horizon), after \(request.maxRevision).",
                fix: "Start from GET /snapshot, which holds all rows, and go on from its revision.")
        }
    }

    /// Refuses a request whose session nonce does not follow the last answered one: two files have one identity.
    private func checkLap(_ request: SyncRequest, _ known: KnownState) throws {
        guard let lap = request.lap, let device = request.device else { return }
        if planted(PlantedBug.believesAnyLap) { return }
        guard lap.follows(try known.exchange(device)?.lap) else { throw Self.identityInUse }
    }

    /// Detects two files with one identity, or a forgotten device, without a lap: a settled device has its revisions.
    func checkSettled(
        _ request: SyncRequest, _ missed: CatchUp, knowing known: KnownState, in transaction: some CommitTransaction
    ) throws {
        guard request.isSettled, let device = request.device else { return }
        if try transaction.hasRevision(by: device, after: request.maxRevision, through: missed.revision)
            || known.exchange(device)?.lap == Exchange.forgottenLap
        {
            throw Self.identityInUse
        }
    }

    private static let identityInUse = TidemarkError(
        .identityInUse,
        "The server has seen this device in another state: the device's file or the server's is an older copy, "
            + "or the device's file was copied and both are in use.",
        fix: "The device takes a new identity and a new snapshot; the outbox is kept.")

    /// Refuses a device whose rows differ from the zone's rows at the same revision.
    private func compareFingerprint(_ request: SyncRequest, against zone: ZoneState, _ known: KnownState) throws {
        guard let fingerprint = request.fingerprint, hasShape(of: zone, request),
            let expected = try known.fingerprint(request.maxRevision), fingerprint != expected
        else { return }
        throw TidemarkError(
            .fingerprintMismatch,
            "The device's rows are not those of revision \(request.maxRevision): \(fingerprint) is not \(expected).",
            fix: "Compare the rows by POST /fingerprints and replace those that differ.")
    }

    /// Whether the request has the zone's schema: fingerprints of different columns are incomparable.
    func hasShape(of zone: ZoneState, _ request: SyncRequest) -> Bool {
        request.schema == nil || request.schema == zone.schema
    }
}
