import TidemarkCore

/// One sync as a state machine, without a database, a network or a clock.
///
/// ``SyncRound`` is its shell: it tells the machine what has happened (``Event``), and does what the machine says
/// (``Action``). Each step begins with what the file says, because another process may have synced since.
///
/// | state | the device next | it ends by |
/// | --- | --- | --- |
/// | `exchanging` | sends change sets, or only asks for revisions | an answer |
/// | `recalling` | asks which of its change sets the server knows | the answer: `fetchingSnapshot` |
/// | `fetchingSnapshot` | takes all rows, or a delta | the snapshot: `exchanging` |
/// | `fetchingRows` | takes rows to compare rebuilt tables with | the comparison, or kept rows: `exchanging` |
/// | `fetchingSchema` | asks for the zone's tables | the answer: `exchanging` |
/// | `confirming` | has the server compute its fingerprint | the answer: the state before |
/// | `even` | nothing: both sides have the same state | |
/// | `left` | nothing: the zone is out of the file | |
///
/// A comparison of rows (``Aim``) runs beside `exchanging`: it asks for the latest revision first.
struct SyncMachine: Sendable {
    /// What the device needs from the server next.
    enum State: Hashable, Sendable {
        case exchanging(Exchange)
        /// With the file's state at the request.
        case recalling(Doubt, of: FileState?)
        /// With the server's knowledge of the outbox, and the file's state that both are about.
        case fetchingSnapshot(Recall?, of: FileState?)
        case fetchingRows(KeptRows?)
        case fetchingSchema
        indirect case confirming(then: State)
        case even
        case left(TidemarkError)
    }

    /// What a request is for.
    enum Exchange: Hashable, Sendable {
        /// To send pending change sets, and to receive.
        case sending
        /// To receive only: the last answer did not have all revisions.
        case receiving
        /// To receive exactly the revisions up to those of kept rows.
        case approaching(KeptRows)
    }

    /// What a recall asks.
    enum Doubt: Hashable, Sendable {
        /// Only for verdicts that got lost.
        case verdicts
        /// Also whether the server's history is still the file's.
        case history
    }

    /// The zone's rows of rebuilt tables that the device has kept for a comparison.
    struct KeptRows: Hashable, Sendable {
        let revision: Int64
        let schema: String?
    }

    /// What the sync is for.
    enum Aim: Sendable {
        case exchange
        case comparison(RowComparison, RowComparison.Footing)
    }

    /// How the device asks for news.
    enum ShortRequest: Hashable, Sendable {
        /// By a conditional GET, if it has nothing to send.
        case allowed
        /// The same, and the server has answered one.
        case answered
        /// By whole requests; with the reason why, if a conditional GET was refused.
        case withheld(ConditionalGetPolicy.Outcome?)

        /// The outcome of this sync's conditional GET; nil if it sent none.
        var outcome: ConditionalGetPolicy.Outcome? {
            switch self {
            case .allowed: nil
            case .answered: .answered
            case .withheld(let outcome): outcome
            }
        }
    }

    let purpose: SyncPurpose
    let limits: Limits
    private(set) var state = State.exchanging(.sending)
    private(set) var aim: Aim
    private(set) var trust = TakeSnapshot.BaseTrust.confirmed
    private(set) var shortRequest: ShortRequest
    /// How much of accepted change sets an answer repeats.
    private(set) var echo = SyncRequest.Echo.ids
    /// Whether an answer may delete many records.
    private(set) var consent = MassDeletion.Consent.none
    /// Whose rows of rebuilt tables the server is asked about, before a snapshot brings them back.
    private(set) var missingRows = TakeSnapshot.MissingRows.investigated
    /// The most change sets of the next request.
    private(set) var changeSetsMax: Int
    private(set) var attempts = Attempts()
    /// The result of a comparison of rows.
    var verification: Verification?

    init(for purpose: SyncPurpose, sendsConditionalGet: Bool, limits: Limits) {
        self.purpose = purpose
        self.limits = limits
        shortRequest = sendsConditionalGet ? .allowed : .withheld(nil)
        changeSetsMax = limits.changeSetsPerRequestMax
        switch purpose {
        case .sync(let isAccepting):
            aim = .exchange
            if isAccepting { consent = .approved }
        case .verify(let isRepairing): aim = .comparison(RowComparison(limits: limits, replaces: isRepairing), .behind)
        }
    }

    var isComparing: Bool { if case .comparison = aim { true } else { false } }

    /// Whether pending change sets are not sent yet, because the rows are not the server's latest.
    var isReceivingOnly: Bool { isComparing || state != .exchanging(.sending) }

    /// Whether a delta suffices: only if all other rows are the server's, and no consent is involved.
    var takesDelta: Bool {
        guard !isComparing, trust == .confirmed, case .none = consent else { return false }
        return true
    }

    /// The server's knowledge of the outbox; nil unless the state has it.
    var recall: Recall? { if case .fetchingSnapshot(let recall, _) = state { recall } else { nil } }

    /// What the recall that waits for its answer asks.
    var doubt: Doubt? { if case .recalling(let doubt, _) = state { doubt } else { nil } }

    /// How the sync has ended; nil while it goes on.
    var end: Result<Void, TidemarkError>? {
        switch state {
        case .even: .success(())
        case .left(let error): .failure(error)
        default: nil
        }
    }

    /// Begins a request; throws `fileDamaged` after too many without progress.
    mutating func begin(at mark: Attempts.Mark) throws(TidemarkError) { try attempts.begin(at: mark) }

    /// The revision that answers may not pass; nil for any.
    var revisionMax: Int64? { if case .exchanging(.approaching(let rows)) = state { rows.revision } else { nil } }
}

// MARK: Transitions

extension SyncMachine {
    /// Takes an event, and returns what the device does next.
    mutating func received(_ event: Event) -> Action {
        if case .left(let error) = state { return .fail(error) }
        guard expects(event) else {
            if case .failed(let error, _, _) = event { return .fail(error) }
            return state == .even ? .finish : .proceed
        }
        switch event {
        case .file(let file): return begin(file)
        case .unanswered:
            state = .recalling(.verdicts, of: fileState)
            return .recall
        case .answered(let applied, let sent, let made): return answered(applied, sent: sent, made: made)
        case .suspected(let deletion):
            guard attempts.begin(.confirmation) else {
                return .fail(deletion.error(because: "the zone changes faster than it can be asked."))
            }
            state = .confirming(then: state)
        case .confirmed(let revision, let fingerprint):
            consent = .confirmed(revision: revision, fingerprint: fingerprint)
            if case .confirming(let then) = state { state = then }
        case .recalled(let recall): state = .fetchingSnapshot(recall, of: fileState)
        case .questioned(let comparison): aim = .comparison(comparison, .level)
        case .compared(let comparison, let footing): compared(comparison, footing)
        case .tookSnapshot(.needsHistories): missingRows = .taken
        case .merged: if state == .even { state = .exchanging(.sending) }
        case .tookSnapshot, .tookSchema, .comparedRebuilt: state = .exchanging(.sending)
        case .keptRows(let rows): state = .exchanging(.approaching(rows))
        case .lostKeptRows: state = .fetchingRows(nil)
        case .outdatedRows(let rebuilt):
            state = .exchanging(.sending)
            if !attempts.begin(.outdatedRows) || rebuilt == .unkeyed { return .replaceRows }
        case .failed(let error, let cause, let revision): return failed(error, by: cause, at: revision)
        case .left(let error): state = .left(error)
        }
        return .proceed
    }

    /// Whether the state waits for an event; any other one comes too late, and changes nothing.
    private func expects(_ event: Event) -> Bool {
        switch (event, state) {
        case (.left, _), (.merged, _), (.file, _): true
        case (.failed, .even): false
        case (.failed, _): true
        case (.answered, .exchanging), (.recalled, .recalling), (.unanswered, .fetchingSnapshot),
            (.confirmed, .confirming), (.tookSnapshot, .fetchingSnapshot), (.tookSchema, .fetchingSchema):
            true
        case (.suspected, .exchanging), (.suspected, .fetchingSnapshot): true
        case (.questioned, .exchanging), (.compared, .exchanging): isComparing
        case (.keptRows, .fetchingRows), (.lostKeptRows, .fetchingRows), (.comparedRebuilt, .fetchingRows),
            (.outdatedRows, .fetchingRows):
            true
        default: false
        }
    }

    /// The file's state that the recall or snapshot is about.
    var fileState: FileState? {
        switch state {
        case .recalling(_, let file), .fetchingSnapshot(_, let file): file
        default: nil
        }
    }

    // MARK: Steps

    private mutating func begin(_ file: FileFacts) -> Action {
        // Another process has changed the file's state, so the recall is outdated.
        if case .fetchingSnapshot(_?, let state) = state, state != file.state { self.state = .exchanging(.sending) }
        if case .comparison(let comparison, let footing) = aim, file.rebuilt == .none {
            switch (file.tables, purpose) {
            case (.zones, _):
                if footing == .level, case .exchanging = state { return .compare(comparison) }
            case (.unfit, _): break
            case (.others, .sync): aim = .exchange
            case (.others, .verify):
                return .fail(
                    TidemarkError(
                        .schemaMismatch,
                        "This file's tables are others than the zone's, so their rows cannot be compared.",
                        fix: "Migrate the side that is behind, sync, and verify then."))
            }
        }
        if case .exchanging(let exchange) = state {
            if case .approaching(let rows) = exchange, file.rebuilt == .none || file.revision >= rows.revision {
                state = .exchanging(.sending)
            }
            if file.tables == .unfit, attempts.count(.schema) == 0 {
                // The zone's tables may have changed since, so that both sides agree now.
                return requireSchema()
            } else if file.needsSnapshot {
                state = .fetchingSnapshot(nil, of: nil)
            } else if file.rebuilt == .unkeyed {
                state = .fetchingRows(nil)
            }
        }
        switch state {
        case .exchanging: return .exchange
        case .recalling(let doubt, _):
            state = .recalling(doubt, of: file.state)
            return .recall
        case .fetchingSnapshot(let recall, let known):
            state = .fetchingSnapshot(recall, of: recall == nil ? file.state : known)
            return .fetchSnapshot(asDelta: recall?.isAboutOther != true && takesDelta)
        case .fetchingRows: return .fetchRows
        case .fetchingSchema: return .fetchSchema
        case .confirming: return .confirm
        case .even: return .finish
        case .left(let error): return .fail(error)
        }
    }

    private mutating func answered(_ applied: ApplyResult, sent: Int, made: Bool) -> Action {
        var goal: KeptRows?
        if case .exchanging(.approaching(let rows)) = state { goal = rows }
        guard applied.outcome == .applied else {
            setFooting(.behind)
            if applied.outcome == .needsRows { echo = .all }
            if goal == nil { state = .exchanging(.sending) }
            return applied.outcome == .needsSchema ? requireSchema() : .proceed
        }
        setFooting(applied.hasMore ? .behind : .level)
        // Rows of a rebuilt table can be compared only now that both sides are at one revision.
        if applied.hasRebuilt, !applied.hasMore || applied.revision == goal?.revision {
            state = .fetchingRows(goal)
        } else {
            state = .exchanging(goal.map(Exchange.approaching) ?? (applied.hasMore ? .receiving : .sending))
        }
        guard !isComparing else { return .proceed }
        if applied.isInSync, !made {
            state = .even
        } else if sent > 0, !applied.isInSync, !applied.hasMore, applied.settledCount == 0 {
            // The loop would never end.
            return .fail(Answer.inapplicable("it has no verdict on the change sets that were sent."))
        }
        return .proceed
    }

    private mutating func setFooting(_ footing: RowComparison.Footing) {
        if case .comparison(let comparison, _) = aim { aim = .comparison(comparison, footing) }
    }

    private mutating func compared(_ comparison: RowComparison, _ footing: RowComparison.Footing) {
        guard comparison.isDone else {
            aim = .comparison(comparison, footing)
            return
        }
        verification = comparison.report
        aim = .exchange
        trust = .confirmed
        if case .verify = purpose { state = .even }
    }

    private mutating func requireSchema() -> Action {
        guard attempts.begin(.schema) else {
            return .fail(
                TidemarkError(
                    .unavailable, "The zone's tables are being altered all the time.", fix: "Sync again in a moment."))
        }
        state = .fetchingSchema
        return .fetchSchema
    }
}

// MARK: Errors

/// How a sync goes on after an error.
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
extension SyncMachine {
    private mutating func failed(_ error: TidemarkError, by cause: Cause, at revision: Int64) -> Action {
        guard case .request(let outgoing, let isOpen) = cause else {
            if case .history(let question) = cause, error.recovery == .permanent || error.code == .invalidResponse {
                return .giveUp(question)
            }
            return react(to: error, nil, isOpen: true, at: revision)
        }
        // The pushed answer is invalid, so the device sends its request.
        if outgoing.pushedAnswer != nil, error.code == .invalidResponse { return .proceed }
        if outgoing.sendsConditionalGet, let outcome = ConditionalGetPolicy.Outcome(refusal: error) {
            shortRequest = .withheld(outcome)
            return .proceed
        }
        var error = error
        // The server names an unreadable change set by its index, because it has not read its id.
        if error.place.id == nil, let index = error.place.changeSet, outgoing.changeSets.indices.contains(index) {
            error.place.id = outgoing.changeSets[index]
        }
        if error.code == .tooLarge, error.place.id == nil, let first = outgoing.changeSets.first {
            changeSetsMax = max(1, outgoing.changeSets.count / 2)
            guard outgoing.changeSets.count == 1 else { return .proceed }
            error.place.id = first
            return .divide(error)
        }
        return react(to: error, outgoing, isOpen: isOpen, at: revision)
    }

    private mutating func react(
        to error: TidemarkError, _ outgoing: DeviceCore.Outgoing?, isOpen: Bool, at revision: Int64
    ) -> Action {
        switch error.recovery {
        case .resync where error.code == .snapshotRequired:
            return require(.fetchingSnapshot(nil, of: nil), after: error, at: revision)
        case .renew where error.code == .deviceTaken:
            guard isOpen else { return .proceed }
            let action = require(.recalling(.history, of: nil), after: error)
            if case .proceed = action { return .renewIdentity }
            return action
        case .leave: return .leave(error)
        case .resync, .renew,
            .retry where error.code == .predecessorMissing:
            // Another process may have handled it meanwhile; then the error is about an older state.
            return isOpen ? require(.recalling(.history, of: nil), after: error) : .proceed
        case .repair: return requireComparison(after: error, hasOtherHistory: outgoing?.isConfirmed ?? false)
        case .permanent where outgoing?.changeSets.contains(error.place.id ?? "") == true: return .park(error)
        case .permanent where outgoing == nil && [.serverBehind, .tooLarge].contains(error.code):
            // A pending change set cannot be sent: the zone dropped its table, or a value is too large.
            return .mend(error)
        case .retry where planted(PlantedBug.parksAfterTransientError) && outgoing != nil:
            var error = error
            error.place.id = outgoing?.changeSets.first
            return .park(error)
        case .permanent, .retry, .signIn:
            return Answer.isInapplicable(error) ? repeatOrRenew(after: error) : .fail(error)
        }
    }

    /// Repeats the request after an inapplicable answer; the second time, requires a snapshot; then the sync ends.
    ///
    /// Either side may be wrong about the device's rows. A snapshot makes them agree and keeps the outbox.
    private mutating func repeatOrRenew(after error: TidemarkError) -> Action {
        guard attempts.begin(.inapplicableAnswer) else { return .fail(error) }
        guard attempts.count(.inapplicableAnswer) > 1 else {
            shortRequest = .withheld(shortRequest.outcome)
            return .checkFile
        }
        let action = require(.fetchingSnapshot(nil, of: nil), after: error)
        if case .proceed = action { return .checkFile }
        return action
    }

    /// Requires a recall or a snapshot; one at a later `revision` than the last one does not count as an attempt.
    private mutating func require(_ state: State, after error: TidemarkError, at revision: Int64? = nil) -> Action {
        guard attempts.begin(.snapshot, at: revision) else { return .fail(error) }
        self.state = state
        aim = .exchange
        if case .verify = purpose { return .fail(error) }
        return .proceed
    }

    /// Requires a comparison that replaces rows that differ from the server's.
    ///
    /// `hasOtherHistory` means that the server had confirmed the same rows before. Then its history has
    /// changed, and references of pending changes may point to other records now.
    private mutating func requireComparison(after error: TidemarkError, hasOtherHistory: Bool) -> Action {
        guard attempts.begin(.comparison) else { return .fail(error) }
        var isAccepted = false
        if case .approved = consent { isAccepted = true }
        aim = .comparison(
            RowComparison(
                limits: limits, replaces: true, acceptsDeletion: isAccepted, hasOtherHistory: hasOtherHistory), .behind)
        // If a snapshot replaces the comparison, it is judged like one of another history.
        trust = .differing
        return .proceed
    }

    /// Notes that the server has answered the request, perhaps a conditional GET.
    mutating func heard(from outgoing: DeviceCore.Outgoing) {
        if outgoing.sendsConditionalGet, shortRequest == .allowed { shortRequest = .answered }
    }
}
