package import GRDB
package import TidemarkCore

/// One sync, as a machine without input or output: it says what has to be carried, is told what
/// came back, and decides what that means.
///
/// The shell loops: ``next(_:)``, do what the step says, then ``answered(_:to:in:)``,
/// ``took(snapshotAt:in:)`` or ``took(schema:in:)``; an error that any of these throws, or the
/// network, goes to ``failed(_:during:in:)``. Every function is given the database outside a
/// transaction and runs one of its own, so a process may end between any two of them; what the
/// machine itself remembers may be lost at any time.
///
/// | error | what follows |
/// | --- | --- |
/// | `snapshotRequired` | a snapshot, at most twice a sync |
/// | `renew`, `resync` | a question, then a snapshot under a new identity |
/// | `predecessorMissing` | the same: the server has forgotten what this device did |
/// | `repair` | what is new is taken in, then the rows are compared and replaced, at most twice |
/// | any refusal of a short question | the same question in full |
/// | `tooLarge` | half as many change sets; a single one is parked |
/// | `permanent`, about one change set | that one is parked with what depends on it |
/// | any other | the sync ends with it |
///
/// An answer or a snapshot that deletes suspiciously much is held back until the server has
/// computed its fingerprint from all rows, and is then asked for once more; see ``MassDeletion``.
package struct SyncRound: Sendable {
    /// What a round is for.
    package enum Purpose: Sendable {
        /// To send what waits and take in what is new.
        case sync(acceptingMassDeletion: Bool)
        /// To compare all rows with the server's.
        case verify(repairing: Bool)
    }

    /// What the shell has to do next.
    package enum Step: Sendable {
        /// Carry a request to the server.
        case send(DeviceCore.Outgoing)
        /// Carry a question about differing rows to the server.
        case compare(RowComparison.Question)
        /// Fetch a snapshot of a zone into a file; with a base, a delta will do.
        case fetchSnapshot(zone: String, since: DeltaBase?)
        /// Fetch the zone's schema.
        case fetchSchema(zone: String)
        /// Nothing: both sides are even.
        case finish
    }

    private let core: DeviceCore
    private let environment: SyncEngine.Environment
    private let boundaries: @Sendable () -> [Int64]
    private let limits: Limits
    private let merge: [String: MergeFunction]
    private var changeSetsMax: Int
    private var snapshotsTaken = 0
    private var isCatchingUp = false
    private var schemasTaken = 0
    private var hasCompared = false
    private var need = Need.request
    private var isEven = false
    private let lock: SyncLock

    /// What comes next.
    private enum Need {
        case request
        case question
        case snapshot(Recall?)
        /// A snapshot too, but only to compare rebuilt tables with it.
        case comparison
        case schema
    }

    private let purpose: Purpose
    /// What the server has told unasked; of use for the first question alone.
    private var told: PushedChange?
    /// Whether a settled device may ask in a few bytes.
    private var asksShort: Bool
    /// What became of that; nil while it has not.
    private(set) var shortOutcome: ShortQuestions.Outcome?
    /// Whether the new ids alone may come back of what is sent.
    private var takesIds = true
    /// Set while rows are compared, because they differ or because that is the purpose.
    private var comparison: RowComparison?
    private var comparisonsStarted = 0
    /// What the last comparison found.
    private(set) var verification: Verification?
    /// What may be done with an answer that deletes much.
    private var consent: MassDeletion.Consent
    private var needsConfirmation = false
    private var confirmationsAsked = 0
    /// Whether the rows of this file turned out not to be those that its revision stands for.
    private var hasMismatch = false

    private static let snapshotsMax = 2
    private static let schemasMax = 4
    private static let comparisonsMax = 2
    private static let confirmationsMax = 5

    /// Makes a machine at its start.
    ///
    /// `boundaries` are the numbers of captured changes at which transactions of the app are known
    /// to have ended; `merge` are the app's functions, by table. Without `asksShort` every question
    /// is asked in full; one whose answer has been `told` is not asked at all.
    package init(
        for purpose: Purpose = .sync(acceptingMassDeletion: false),
        asksShort: Bool = true,
        limits: Limits,
        environment: SyncEngine.Environment,
        merge: [String: MergeFunction] = [:],
        told: PushedChange? = nil,
        boundaries: @escaping @Sendable () -> [Int64]
    ) {
        (self.purpose, self.asksShort, self.told) = (purpose, asksShort, told)
        consent = .none
        switch purpose {
        case .sync(let isAccepting): if isAccepting { consent = .given }
        case .verify(let isRepairing):
            comparison = RowComparison(limits: limits, replaces: isRepairing)
        }
        core = DeviceCore(limits: limits)
        (self.limits, self.merge) = (limits, merge)
        (self.environment, self.boundaries) = (environment, boundaries)
        changeSetsMax = limits.changeSetsPerRequestMax
        lock = SyncLock(environment)
    }

    /// Decides the next step, and freezes what it sends.
    package mutating func next(_ db: Database) throws -> Step {
        if isEven {
            // Rows of a rebuilt table can be compared only now that both sides are at one revision.
            guard try DeviceFile(db).rebuilt != nil, !hasCompared else { return .finish }
            (need, isEven, hasCompared) = (.comparison, false, true)
        }
        try fitIfNeeded(db)
        if let question = try comparisonStep(db) { return .compare(question) }
        var step = Step.finish
        try db.inTransaction(.immediate) {
            try lock.refuseOthers(db)
            let file = try DeviceFile(db)
            if case .request = need, file.isStale { need = .snapshot(nil) }
            switch need {
            case _ where needsConfirmation:
                step = .compare(try .confirmation(DeviceFile(db)))
            case .request: step = .send(try prepare(db))
            case .question: step = .send(try core.prepareQuestion(db))
            case .snapshot(let recall):
                let base = recall == nil && takesDelta ? try core.deltaBase(db) : nil
                step = .fetchSnapshot(zone: file.zone, since: base)
            case .comparison: step = .fetchSnapshot(zone: file.zone, since: nil)
            case .schema: step = .fetchSchema(zone: file.zone)
            }
            // Whoever only asks what is new may do so beside others, and has written nothing.
            if case .send(let outgoing) = step, outgoing.isSettled { return .commit }
            try lock.take(db)
            return .commit
        }
        return step
    }

    /// Takes an answer in.
    package mutating func answered(
        _ answer: [UInt8],
        to outgoing: DeviceCore.Outgoing,
        in db: Database
    ) throws -> [SyncEvent] {
        if outgoing.asksShort, shortOutcome == nil { shortOutcome = .answered }
        guard outgoing.exchange != .question else {
            need = .snapshot(try Recall(answer, in: db))
            return []
        }
        let isComparing = comparison != nil
        let applied: Applied
        do {
            applied = try core.apply(
                answer,
                to: outgoing,
                in: db,
                boundaries: boundaries(),
                comparesFingerprint: !isComparing,
                consent: consent,
                now: environment.now(),
                newID: environment.newID
            ) { applied in
                if applied.isEven, !isComparing, merge.isEmpty { try lock.release(db) }
            }
        } catch let deletion as MassDeletion {
            try requireConfirmation(of: deletion)
            return []
        }
        if applied.knowsOldSchema { try requireSchema() }
        if applied.needsEcho { takesIds = false }
        isCatchingUp = applied.hasMore
        guard !isComparing else {
            comparison?.isBehind = applied.hasMore || applied.isStale
            return applied.events
        }
        isEven = applied.isEven
        if !isEven { try requireProgress(outgoing, applied) }
        // Merged with rows that are not the latest, it would only be refused again.
        guard !merge.isEmpty, !applied.hasMore, !applied.isStale else { return applied.events }
        return try mergeParked(applied.events, in: db)
    }

    /// Takes in what the server says about differing rows.
    package mutating func compared(
        _ answer: [UInt8],
        to question: RowComparison.Question,
        in db: Database
    ) throws -> [SyncEvent] {
        guard !needsConfirmation else {
            let answer = try ComparisonAnswer(answer, to: question, file: DeviceFile(db), in: db)
            needsConfirmation = false
            consent = .confirmed(
                revision: answer.revision,
                fingerprint: answer.fingerprint ?? .none
            )
            return []
        }
        guard var comparison else { return [] }
        let events = try comparison.answered(
            answer,
            to: question,
            in: db,
            environment: environment,
            boundaries: boundaries()
        )
        self.comparison = comparison
        guard comparison.isDone else { return events }
        verification = comparison.report
        self.comparison = nil
        hasMismatch = false
        if case .verify(let isRepairing) = purpose {
            isEven = true
            if !isRepairing, verification?.records.isEmpty == false {
                try ConfirmedRows(db: db, file: DeviceFile(db)).requireCheck()
            }
            try lock.release(db)
        }
        return events
    }

    /// Takes a snapshot in.
    package mutating func took(snapshotAt path: String, in db: Database) throws -> [SyncEvent] {
        var recall: Recall?
        if case .snapshot(let answer) = need { recall = answer }
        var snapshot = TakeSnapshot(
            db: db,
            snapshotPath: path,
            boundaries: boundaries(),
            recall: recall,
            limits: core.limits,
            now: environment.now(),
            newID: environment.newID
        )
        if case .comparison = need {
            need = .request
            isEven = try !snapshot.compareRebuilt()
            if isEven { try lock.release(db) }
            return []
        }
        (snapshot.hasMismatch, snapshot.consent) = (hasMismatch, consent)
        do {
            let applied = try snapshot.take()
            need = .request
            return applied.events
        } catch let deletion as MassDeletion {
            try requireConfirmation(of: deletion)
            return []
        }
    }

    /// Takes the zone's schema in.
    package mutating func took(schema answer: [UInt8], in db: Database) throws {
        need = .request
        try DeviceCore.take(
            schema: answer,
            in: db,
            boundaries: boundaries(),
            now: environment.now(),
            newID: environment.newID
        )
    }

    /// Decides what an error means for the sync.
    ///
    /// - Throws: The error, when it ends the sync.
    package mutating func failed(
        _ error: TidemarkError,
        during outgoing: DeviceCore.Outgoing?,
        in db: Database
    ) throws -> [SyncEvent] {
        // Told unasked what is no answer, the device asks.
        if outgoing?.told != nil, error.code == .invalidResponse { return [] }
        if outgoing?.asksShort == true, let outcome = ShortQuestions.Outcome(refusal: error) {
            (asksShort, shortOutcome) = (false, outcome)
            return []
        }
        var error = error
        // A change set that cannot be read is refused before its id is: its place is its index.
        if let sent = outgoing?.changeSets, error.place.id == nil,
            let index = error.place.changeSet, sent.indices.contains(index)
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
            try require(.question, after: error)
            return []
        case .repair:
            try requireComparison(after: error, hasOtherHistory: outgoing?.isConfirmed ?? false)
            return []
        case .permanent where outgoing?.changeSets.contains(error.place.id ?? "") == true:
            return try DeviceCore.park(
                error,
                in: db,
                boundaries: boundaries(),
                now: environment.now(),
                newID: environment.newID
            )
        case .retry where planted(PlantedBug.parksAfterTransientError) && outgoing != nil:
            error.place.id = outgoing?.changeSets.first
            return try DeviceCore.park(
                error,
                in: db,
                boundaries: boundaries(),
                now: environment.now(),
                newID: environment.newID
            )
        case .permanent, .retry: throw error
        }
    }

    /// Ends the machine before its time, so that others may sync at once.
    package mutating func ended(in db: Database) throws { try lock.release(db) }

    // MARK: Private

    /// The next question of a comparison that is under way and has all that is new.
    private mutating func comparisonStep(_ db: Database) throws -> RowComparison.Question? {
        guard let comparison else { return nil }
        let file = try DeviceFile(db)
        guard ConfirmedRows(db: db, file: file).isComparable else {
            guard case .verify = purpose else {
                self.comparison = nil
                return nil
            }
            throw TidemarkError(
                .schemaMismatch,
                "This file's tables are others than the zone's, so their rows cannot be compared.",
                fix: "Migrate the side that is behind, sync, and verify then."
            )
        }
        guard !comparison.isBehind, !needsConfirmation, case .request = need else { return nil }
        try db.inTransaction(.immediate) {
            try lock.take(db)
            return .commit
        }
        return try comparison.next(db, boundaries: boundaries(), environment: environment)
    }

    /// The app's tables were altered while the engine was open.
    private func fitIfNeeded(_ db: Database) throws {
        guard FitSchema.isNeeded(try DeviceFile(db)) else { return }
        try Transaction.withoutForeignKeys(db) {
            try FitSchema(
                db: db,
                now: environment.now(),
                boundaries: boundaries(),
                newID: environment.newID
            ).runIfNeeded()
        }
    }

    private mutating func requireSchema() throws {
        guard schemasTaken < Self.schemasMax else {
            throw TidemarkError(
                .unavailable,
                "The zone's tables are being altered all the time.",
                fix: "Sync again in a moment."
            )
        }
        schemasTaken += 1
        need = .schema
    }

    /// Whether rows that changed may come in a file: only where all others are the server's, and
    /// nobody has to be asked.
    private var takesDelta: Bool {
        guard comparison == nil, !hasMismatch, case .none = consent else { return false }
        return true
    }

    private mutating func prepare(_ db: Database) throws -> DeviceCore.Outgoing {
        var outgoing = try core.prepareRequest(
            db,
            boundaries: boundaries(),
            // Edits of rows that are not the server's are sent when they are.
            changeSetsMax: isCatchingUp || comparison != nil ? 0 : changeSetsMax,
            checksRows: comparison == nil,
            takesDelta: takesDelta,
            takesIds: takesIds,
            now: environment.now(),
            newID: environment.newID
        )
        if let told, told.since == outgoing.short?.tag { outgoing.told = told.answer }
        told = nil
        if !asksShort { outgoing.short = nil }
        return outgoing
    }

    /// Lets the app's functions merge what was refused; what they made is sent in this sync.
    private mutating func mergeParked(
        _ events: [SyncEvent],
        in db: Database
    ) throws -> [SyncEvent] {
        var settled: [String] = []
        try db.inTransaction(.immediate) {
            settled = try MergeConflicts(
                db: db,
                schema: DeviceFile(db).schema,
                functions: merge,
                limits: limits
            ).run(boundaries: boundaries(), now: environment.now(), newID: environment.newID)
            if isEven, settled.isEmpty { try lock.release(db) }
            return .commit
        }
        if !settled.isEmpty { isEven = false }
        let others = events.filter { event in !settled.contains { event == .conflict(id: $0) } }
        return others + settled.map { .merged(id: $0) }
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
    private mutating func requireComparison(
        after error: TidemarkError,
        hasOtherHistory: Bool
    ) throws {
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

    /// Has the server compute its fingerprint from all rows before the answer is applied.
    private mutating func requireConfirmation(of deletion: MassDeletion) throws {
        guard confirmationsAsked < Self.confirmationsMax else {
            throw deletion.error(because: "the zone changes faster than it can be asked.")
        }
        confirmationsAsked += 1
        needsConfirmation = true
    }

    /// An answer that settles nothing of what was sent would be asked for again for ever.
    private func requireProgress(_ outgoing: DeviceCore.Outgoing, _ applied: Applied) throws {
        guard !outgoing.changeSets.isEmpty, !applied.isStale, !applied.hasMore,
            applied.settledCount == 0
        else { return }
        throw TidemarkError(
            .invalidResponse,
            "The answer has no verdict on the change sets that were sent.",
            fix: "They are kept and sent again later. Compare the versions of both sides."
        )
    }
}
