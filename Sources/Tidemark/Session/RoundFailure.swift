package import GRDB
package import TidemarkCore
import TidemarkSQL

/// Decides how a sync continues after an error.
///
/// | error | what follows |
/// | --- | --- |
/// | `snapshotRequired` | a snapshot, after a recall if change sets are unanswered; at most four times without newer rows |
/// | `renew`, `resync` | a recall, then a snapshot under a new identity |
/// | `predecessorMissing` | the same: the server has forgotten change sets of this device |
/// | `repair` | newer revisions, then the comparison and replacement of rows, at most twice |
/// | any refusal of a conditional GET | the whole request |
/// | `permanent`, about a record's history | both versions of the record become a conflict |
/// | `deviceTaken` | the same, under a new identity from the start: the server answers the old one nothing |
/// | `deviceTaken`, of a file without a user that has edits | the sync ends: they are the other user's |
/// | `leave` | the outbox is parked, the zone's rows are removed, and the sync ends with it |
/// | `unknownZone`, on a device that had joined | nothing is removed, and the sync ends with it |
/// | `invalidResponse`, about a pushed answer | the request |
/// | `tooLarge` | half as many change sets; a single one is divided if other programs made it, or parked |
/// | `permanent`, about one change set | the device parks it and its dependents |
/// | `serverBehind` or `tooLarge`, before one is sent | the same |
/// | an answer that cannot be applied | the same request again; the second time, a snapshot |
/// | any other | the sync ends with it |
extension SyncRound {
    /// Decides what an error means for the sync, and throws it if that ends the sync.
    package mutating func handle(_ error: TidemarkError, during outgoing: DeviceCore.Outgoing?, in db: Database) throws
        -> [DeviceEvent]
    {
        // The pushed answer is invalid, so the device sends its request.
        if outgoing?.pushedAnswer != nil, error.code == .invalidResponse { return [] }
        if outgoing?.sendsConditionalGet == true, let outcome = ConditionalGetPolicy.Outcome(refusal: error) {
            sendsConditionalGet = false
            conditionalGetOutcome = outcome
            return []
        }
        if let events = try giveUpHistory(after: error, during: outgoing, in: db) { return events }
        var error = error
        // The server names an unreadable change set by its index, because it has not read its id.
        if let ids = outgoing?.changeSets, error.place.id == nil, let index = error.place.changeSet,
            ids.indices.contains(index)
        {
            error.place.id = ids[index]
        }
        if error.code == .tooLarge, error.place.id == nil, let first = outgoing?.changeSets.first {
            changeSetsMax = max(1, (outgoing?.changeSets.count ?? 0) / 2)
            guard outgoing?.changeSets.count == 1 else { return [] }
            error.place.id = first
            if try divideLarge(error, in: db) { return [] }
        }
        switch error.recovery {
        case .resync where error.code == .snapshotRequired:
            let revision = try DeviceFile(db).revision
            // A zone that goes on changing may outrun the file that the device has just taken.
            if let last = revisionBehind, last < revision { snapshotsTaken -= 1 }
            revisionBehind = revision
            try require(.snapshot(nil), after: error)
            return []
        case .renew where error.code == .deviceTaken:
            if let exchange = outgoing?.exchange, try !exchange.isOpen(Laps(db)) { return [] }
            try Self.refuseForeignEdits(in: db)
            try require(.question(isDoubted: true), after: error)
            try core.renewIdentity(in: db, newID: environment.newID)
            return []
        case .leave: return try leave(after: error, during: outgoing, in: db)
        case .resync, .renew,
            .retry where error.code == .predecessorMissing:
            // Another process may have handled it meanwhile; then the error is about an older state.
            if let exchange = outgoing?.exchange, try !exchange.isOpen(Laps(db)) { return [] }
            try require(.question(isDoubted: true), after: error)
            return []
        case .repair:
            try requireComparison(after: error, hasOtherHistory: outgoing?.isConfirmed ?? false)
            return []
        case .permanent where outgoing?.changeSets.contains(error.place.id ?? "") == true:
            return try park(error, in: db)
        case .permanent where outgoing == nil && Self.codesBeforeSending.contains(error.code):
            // A pending change set cannot be sent: the zone dropped its table, or a value is too large.
            if try divideLarge(error, in: db) { return [] }
            if let id = error.place.id, try Outbox.contains(id, in: db) { return try park(error, in: db) }
            guard error.code == .tooLarge else { throw error }
            // The rollback of the request undid the drain that made this change set. Drain again.
            try drain(db)
            return []
        case .retry where planted(PlantedBug.parksAfterTransientError) && outgoing != nil:
            error.place.id = outgoing?.changeSets.first
            return try park(error, in: db)
        case .permanent, .retry, .signIn:
            if error.code == .unknownZone { throw try Self.missingZone(error, in: db) }
            guard Answer.isInapplicable(error) else { throw error }
            try Self.refuseDamage(db)
            try repeatOrRenew(after: error)
            return []
        }
    }

    /// Repeats the request after an inapplicable answer; the second time, requires a snapshot.
    ///
    /// Either side may be wrong about the device's rows. A snapshot makes them agree and keeps the
    /// outbox. After a third inapplicable answer, the sync ends.
    private mutating func repeatOrRenew(after error: TidemarkError) throws {
        inapplicableAnswers += 1
        switch inapplicableAnswers {
        case 1: sendsConditionalGet = false
        case 2: try require(.snapshot(nil), after: error)
        default: throw error
        }
    }

    /// Takes the zone out of the file; the next step ends the sync with the error.
    private mutating func leave(after error: TidemarkError, during outgoing: DeviceCore.Outgoing?, in db: Database)
        throws -> [DeviceEvent]
    {
        guard endingError == nil else { throw error }
        let events = try LeaveZone(
            db: db,
            // The server refused the only request that had them.
            neverSent: outgoing?.freshChangeSets ?? [], boundaries: boundaries(), now: environment.now(),
            newID: environment.newID
        ).leave()
        endingError = error
        return events
    }

    /// Refuses to send edits that wait in a file whose device is another user's than the token.
    ///
    /// A file that names its user reaches this only with that user's token.
    private static func refuseForeignEdits(in db: Database) throws {
        guard try DeviceFile(db).user == nil,
            try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false
        else { return }
        throw TidemarkError(
            .accountMismatch, "The edits that wait in this file were made on a device of another user than the token.",
            fix: "Sync once with a token of that user. Then the file can be used with this one.")
    }

    /// Returns the error for a zone that the server does not show; it tells a person whose file has joined more.
    private static func missingZone(_ error: TidemarkError, in db: Database) throws -> TidemarkError {
        let file = try DeviceFile(db)
        guard file.epoch != nil else { return error }
        return TidemarkError(
            .unknownZone, "The server has no zone \(file.zone) any more that you may read.",
            fix: "Nothing was removed here, and unsent changes are kept. Ask the zone's owner, or sign in as a member.")
    }

    /// The codes with which the device itself refuses a change set before it sends it.
    private static let codesBeforeSending: Set<ErrorCode> = [.serverBehind, .tooLarge]

    /// Throws `fileDamaged` if SQLite finds damage, which can make a correct answer inapplicable.
    private static func refuseDamage(_ db: Database) throws {
        let report = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)")
        guard let report, report != "ok" else { return }
        throw TidemarkError(
            .fileDamaged, "The file is damaged, so no answer can be applied: \(report).",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved.")
    }

    private func drain(_ db: Database) throws {
        try DeviceCore.drain(db, boundaries: boundaries(), now: environment.now(), newID: environment.newID)
    }

    /// Divides a change set that is too large, if other programs made it; returns whether it has parts to send.
    private func divideLarge(_ error: TidemarkError, in db: Database) throws -> Bool {
        guard error.code == .tooLarge, error.place.key == nil, let id = error.place.id else { return false }
        var isDivided = false
        try db.inTransaction(.immediate) {
            let schema = try DeviceFile(db).schema
            try EngineConnection.prepare(db, schema: schema)
            isDivided = try DivideLargeSet(db: db, schema: schema, limits: core.limits).divide(
                id, newID: environment.newID)
            return .commit
        }
        return isDivided
    }

    private func park(_ error: TidemarkError, in db: Database) throws -> [DeviceEvent] {
        var error = error
        let large = DivideLargeSet(db: db, schema: try DeviceFile(db).schema, limits: core.limits)
        if error.code == .tooLarge, let id = error.place.id, let size = try large.size(of: id) {
            error = error.describing(size)
        }
        return try DeviceCore.park(
            error, in: db, boundaries: boundaries(), now: environment.now(), newID: environment.newID)
    }

    private mutating func require(_ need: Need, after error: TidemarkError) throws {
        guard snapshotsTaken < Self.snapshotsMax else { throw error }
        snapshotsTaken += 1
        self.need = need
        comparison = nil
        if case .verify = purpose { throw error }
    }

    /// Starts a comparison that replaces rows that differ from the server's.
    ///
    /// `hasOtherHistory` means that the server had confirmed the same rows before. Then its history has
    /// changed, and references of pending changes may point to other records now.
    private mutating func requireComparison(after error: TidemarkError, hasOtherHistory: Bool) throws {
        guard comparisonsStarted < Self.comparisonsMax else { throw error }
        comparisonsStarted += 1
        var isAccepted = false
        if case .approved = consent { isAccepted = true }
        comparison = RowComparison(
            limits: core.limits, replaces: true, acceptsDeletion: isAccepted, hasOtherHistory: hasOtherHistory)
        // If a snapshot replaces the comparison, it is judged like one of another history.
        hasMismatch = true
    }
}
