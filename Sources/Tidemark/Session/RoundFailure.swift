package import GRDB
package import TidemarkCore

/// What an error means for a sync.
///
/// | error | what follows |
/// | --- | --- |
/// | `snapshotRequired` | a snapshot, after a question if something was sent; at most four times |
/// | `renew`, `resync` | a question, then a snapshot under a new identity |
/// | `predecessorMissing` | the same: the server has forgotten what this device did |
/// | `repair` | what is new is taken in, then the rows are compared and replaced, at most twice |
/// | any refusal of a short question | the same question in full |
/// | `invalidResponse`, about what was told unasked | the question |
/// | `tooLarge` | half as many change sets; a single one is parked |
/// | `permanent`, about one change set | that one is parked with what depends on it |
/// | `serverBehind` or `tooLarge`, before one is sent | the same |
/// | an answer that cannot be applied | the same request again; the second time, a snapshot |
/// | any other | the sync ends with it |
extension SyncRound {
    /// Decides what an error means for the sync.
    ///
    /// - Throws: The error, when it ends the sync.
    package mutating func failed(_ error: TidemarkError, during outgoing: DeviceCore.Outgoing?, in db: Database) throws
        -> [SyncEvent]
    {
        // Told unasked what is no answer, the device asks.
        if outgoing?.told != nil, error.code == .invalidResponse { return [] }
        if outgoing?.asksShort == true, let outcome = ShortQuestions.Outcome(refusal: error) {
            asksShort = false
            shortOutcome = outcome
            return []
        }
        var error = error
        // A change set that cannot be read is refused before its id is: its place is its index.
        if let sent = outgoing?.changeSets, error.place.id == nil, let index = error.place.changeSet,
            sent.indices.contains(index)
        {
            error.place.id = sent[index]
        }
        if error.code == .tooLarge, error.place.id == nil, let first = outgoing?.changeSets.first {
            changeSetsMax = max(1, (outgoing?.changeSets.count ?? 0) / 2)
            guard outgoing?.changeSets.count == 1 else { return [] }
            error.place.id = first
        }
        switch error.recovery {
        case .resync where error.code == .snapshotRequired:
            try require(.snapshot(nil), after: error)
            return []
        case .resync, .renew,
            .retry where error.code == .predecessorMissing:
            // Another process may have dealt with it meanwhile: then this was about an older state.
            if let exchange = outgoing?.exchange, try !exchange.isOpen(Laps(db)) { return [] }
            try require(.question(isDoubted: true), after: error)
            return []
        case .repair:
            try requireComparison(after: error, hasOtherHistory: outgoing?.isConfirmed ?? false)
            return []
        case .permanent where outgoing?.changeSets.contains(error.place.id ?? "") == true:
            return try park(error, in: db)
        case .permanent where outgoing == nil && Self.codesBeforeSending.contains(error.code):
            // Caught while it waited, on a table that the zone has dropped, it cannot be written;
            // nor when a value in it is too large.
            if let id = error.place.id, try isWaiting(id, in: db) { return try park(error, in: db) }
            guard error.code == .tooLarge else { throw error }
            // It was drained for this request, and is captured again: the transaction is undone.
            try drain(db)
            return []
        case .retry where planted(PlantedBug.parksAfterTransientError) && outgoing != nil:
            error.place.id = outgoing?.changeSets.first
            return try park(error, in: db)
        case .permanent, .retry, .signIn:
            guard AnswerCheck.isInapplicable(error) else { throw error }
            try Self.refuseDamage(db)
            try repeatOrRenew(after: error)
            return []
        }
    }

    /// Asks again after an answer that cannot be applied, and then takes the rows anew.
    ///
    /// Either side may be wrong about what the device has; a snapshot makes them agree and keeps
    /// the outbox. A server whose answers fit no file gets three requests, then the sync ends.
    private mutating func repeatOrRenew(after error: TidemarkError) throws {
        inapplicableAnswers += 1
        switch inapplicableAnswers {
        case 1: asksShort = false
        case 2: try require(.snapshot(nil), after: error)
        default: throw error
        }
    }

    /// What a change set is refused with before it is sent.
    private static let codesBeforeSending: Set<ErrorCode> = [.serverBehind, .tooLarge]

    /// An answer that does not fit may be right, and the file damaged: SQLite can tell.
    private static func refuseDamage(_ db: Database) throws {
        let words = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)")
        guard let words, words != "ok" else { return }
        throw TidemarkError(
            .fileDamaged,
            "The file is damaged, so no answer can be applied: \(words).",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved."
        )
    }

    private func isWaiting(_ id: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset WHERE id = ?)", arguments: [id])
            ?? false
    }

    private func drain(_ db: Database) throws {
        try DeviceCore.drain(db, boundaries: boundaries(), now: environment.now(), newID: environment.newID)
    }

    /// Parks the change set that an error is about.
    private func park(_ error: TidemarkError, in db: Database) throws -> [SyncEvent] {
        try DeviceCore.park(error, in: db, boundaries: boundaries(), now: environment.now(), newID: environment.newID)
    }

    private mutating func require(_ need: Need, after error: TidemarkError) throws {
        guard snapshotsTaken < Self.snapshotsMax else { throw error }
        snapshotsTaken += 1
        self.need = need
        comparison = nil
        if case .verify = purpose { throw error }
    }

    /// Has the rows compared with the server's, and those that differ replaced.
    ///
    /// When the server had once confirmed the same rows, its history is another one than before:
    /// what waits may refer to records that are others now.
    private mutating func requireComparison(after error: TidemarkError, hasOtherHistory: Bool) throws {
        guard comparisonsStarted < Self.comparisonsMax else { throw error }
        comparisonsStarted += 1
        var isAccepted = false
        if case .given = consent { isAccepted = true }
        comparison = RowComparison(
            limits: core.limits,
            replaces: true,
            acceptsDeletion: isAccepted,
            hasOtherHistory: hasOtherHistory
        )
        // A snapshot that is taken instead is judged like one of another history.
        hasMismatch = true
    }
}
