package import TidemarkCore

/// What a transaction knows of a device and a revision; a commit knows it without a query.
struct KnownState {
    /// Returns the last exchange with a device.
    let exchange: (String) throws -> Exchange?
    /// Returns the fingerprint of the zone's rows at a revision.
    let fingerprint: (Int64) throws -> Fingerprint?
}

/// Checks that refuse a whole request before it has any effect.
extension SyncHandler {
    /// Refuses a request that does not match the zone's state.
    func admit(
        _ request: SyncRequest,
        from caller: Caller,
        to zone: ZoneState,
        knowing known: KnownState,
        in transaction: some CommitTransaction
    ) throws {
        try checkOwner(request, caller, knowing: known)
        try check(request, against: zone, in: transaction)
        try checkLap(request, known)
        try compareFingerprint(request, against: zone, known)
    }

    /// Refuses a request that names a device of another user.
    ///
    /// A device's overruled values, temporary ids and verdicts are its user's alone. Another member who
    /// learns the device's id can neither read nor delete them.
    func checkOwner(_ request: SyncRequest, _ caller: Caller, knowing known: KnownState) throws {
        guard let user = caller.userID, let device = request.device,
            let owner = try known.exchange(device)?.user, owner != user,
            !planted(PlantedBug.deviceOfAnybody)
        else { return }
        throw Self.deviceTaken
    }

    /// The refusal of a device of another user.
    package static let deviceTaken = TidemarkError(
        .deviceTaken,
        "This device id belongs to another user.",
        fix: "The device takes a new identity and a new snapshot; the outbox is kept."
    )

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
        // The server can judge any older base, but cannot send compacted revisions.
        guard request.maxRevision >= zone.horizon || request.echo == nil || planted(PlantedBug.forgetsHorizon)
        else {
            throw TidemarkError(
                .snapshotRequired,
                "The log begins at revision \(zone.horizon), after \(request.maxRevision).",
                fix: "Start from GET /snapshot, which holds all rows, and go on from its revision."
            )
        }
    }

    /// Refuses a request whose session nonce does not follow the last one that the server answered.
    ///
    /// Two files with one identity are detected in this way.
    private func checkLap(_ request: SyncRequest, _ known: KnownState) throws {
        guard let lap = request.lap, let device = request.device else { return }
        if planted(PlantedBug.believesAnyLap) { return }
        guard lap.follows(try known.exchange(device)?.lap) else { throw Self.identityInUse }
    }

    /// Detects two files with one identity, and a forgotten device, when the request has no lap.
    ///
    /// A settled device has applied every revision of its own.
    func checkSettled(
        _ request: SyncRequest,
        _ missed: CatchUp,
        knowing known: KnownState,
        in transaction: some CommitTransaction
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
        fix: "The device takes a new identity and a new snapshot; the outbox is kept."
    )

    /// Refuses a device whose rows differ from the zone's rows at the same revision.
    private func compareFingerprint(_ request: SyncRequest, against zone: ZoneState, _ known: KnownState) throws {
        guard let fingerprint = request.fingerprint, hasShape(of: zone, request),
            let expected = try known.fingerprint(request.maxRevision), fingerprint != expected
        else { return }
        throw TidemarkError(
            .fingerprintMismatch,
            "The device's rows are not those of revision \(request.maxRevision): \(fingerprint) is not \(expected).",
            fix: "Compare the rows by POST /fingerprints and replace those that differ."
        )
    }

    /// Whether the request has the zone's schema: fingerprints of different columns are incomparable.
    func hasShape(of zone: ZoneState, _ request: SyncRequest) -> Bool {
        request.schema == nil || request.schema == zone.schema
    }
}
