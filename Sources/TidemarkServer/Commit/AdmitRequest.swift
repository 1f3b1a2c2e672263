import TidemarkCore

/// Whether a request fits what the zone is at: what refuses it whole, before it has any effect.
extension SyncHandler {
    /// Refuses a request that does not fit what the zone is at.
    func admit(_ request: SyncRequest, to zone: ZoneState, in transaction: some StoreTransaction) throws {
        try check(request, against: zone, in: transaction)
        try checkLap(request, in: transaction)
        try compareFingerprint(request, against: zone, in: transaction)
    }

    private func check(_ request: SyncRequest, against zone: ZoneState, in transaction: some StoreTransaction) throws {
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
                fix: "Take a new snapshot: the server's file was replaced or restored from a backup."
            )
        }
        // An older base can be judged for ever; only what came after it cannot be told.
        guard request.maxRevision >= zone.horizon || request.echo == .verdicts || planted(PlantedBug.forgetsHorizon)
        else {
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
        if planted(PlantedBug.believesAnyLap) { return }
        guard lap.follows(try transaction.lastExchange(with: device)?.lap) else { throw Self.identityInUse }
    }

    /// Tells them apart where a request has no lap: a device that has taken in all answers knows
    /// every revision of its own.
    func checkSettled(_ request: SyncRequest, _ missed: CatchUp, in transaction: some StoreTransaction) throws {
        guard request.isSettled, let device = request.device,
            try transaction.hasRevision(by: device, after: request.maxRevision, through: missed.revision)
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
}
