package import GRDB
package import TidemarkCore

/// One sync, as a state machine without input or output.
///
/// The shell loops: it calls ``next(_:)``, performs the step, and passes the result to
/// ``applyAnswer(_:to:in:)``, ``applyComparison(_:to:in:)``, ``applySnapshot(at:in:)``,
/// ``applyHistory(_:to:in:)`` or ``applySchema(_:in:)``. It passes each error of these functions or the network to
/// ``handle(_:during:in:)``. Every function runs a transaction of its own; the caller must not be in
/// one. The process may end between any two calls, and the state in memory may be lost at any time.
///
/// If an answer or a snapshot would delete suspiciously many records, the server first computes its
/// fingerprint from all rows. Then the device fetches it again; see ``MassDeletion``.
package struct SyncRound: Sendable {
    package enum Purpose: Sendable {
        /// To send pending change sets and apply newer revisions.
        case sync(acceptingMassDeletion: Bool)
        /// To compare all rows with the server's.
        case verify(repairing: Bool)
    }

    package enum Step: Sendable {
        case send(DeviceCore.Outgoing)
        case compare(RowComparison.Question)
        /// Download a snapshot of a zone into a file; with a base, a delta suffices.
        case fetchSnapshot(zone: String, since: DeltaBase?)
        case fetchSchema(zone: String)
        case askHistory(HistoryQuestion)
        /// Nothing: both sides have the same state.
        case finish
    }

    let core: DeviceCore
    let environment: SyncEngine.Environment
    let boundaries: @Sendable () -> KnownTransactions
    /// Gets the number of records that a snapshot has brought into the tables so far, of how many.
    private let onRecords: @Sendable (_ records: Int, _ total: Int) -> Void
    private let limits: Limits
    private let merges: [String: any RecordMerging]
    var changeSetsMax: Int
    var snapshotsTaken = 0
    /// The file's revision when the server last required a snapshot of a later one.
    var revisionBehind: Int64?
    var inapplicableAnswers = 0
    private var isCatchingUp = false
    private var bound = RoundBound()
    private var schemasTaken = 0
    /// The question about a record's history that waits for its answer.
    var openQuestion: HistoryQuestion?
    /// Whether the server is asked about rows that rebuilt tables lack, before a snapshot brings them back.
    private var asksAboutMissing = true
    /// The revision and the schema of the zone's rows that the device has kept for a comparison of rebuilt tables.
    var keptRows: (revision: Int64, schema: String?)?
    /// The number of comparisons of rebuilt tables that the zone's changes prevented.
    private var outdatedComparisons = 0
    var need = Need.request
    /// The file's state at the last recall, or at a snapshot request without recall.
    private var requestState: FileState?
    var isEven = false
    /// The error that ends the sync, after the device has reacted to it.
    var endingError: TidemarkError?
    let lock: SyncLock

    /// The data that the round needs from the server next.
    enum Need {
        case request
        /// The verdicts on sent change sets; with `isDoubted`, the server's history may have changed.
        case question(isDoubted: Bool)
        case snapshot(Recall?)
        /// A snapshot to compare rebuilt tables with.
        case comparison
        case schema
    }

    let purpose: Purpose
    /// The change that the server pushed; it can answer only the first request.
    private var pushedChange: PushedChange?
    var sendsConditionalGet: Bool
    /// The outcome of the conditional GET; nil until then.
    var conditionalGetOutcome: ConditionalGetPolicy.Outcome?
    /// Whether the server may answer accepted change sets with the new ids alone.
    private var takesIds = true
    /// The running comparison of rows; nil if there is none.
    var comparison: RowComparison?
    var comparisonsStarted = 0
    var verification: Verification?
    /// Whether an answer may delete many records.
    var consent: MassDeletion.Consent
    var needsConfirmation = false
    private var confirmationCount = 0
    /// Whether the file's rows differ from the rows of its revision.
    var hasMismatch = false
    static let snapshotsMax = 4
    private static let schemasMax = 4
    static let comparisonsMax = 2
    private static let outdatedComparisonsMax = 3
    private static let confirmationsMax = 5

    /// `pushedChange` answers one request; `onRecords` follows the records of a snapshot into the tables.
    package init(
        for purpose: Purpose = .sync(acceptingMassDeletion: false), sendsConditionalGet: Bool = true, limits: Limits,
        environment: SyncEngine.Environment, merges: [String: any RecordMerging] = [:],
        pushedChange: PushedChange? = nil,
        onRecords: @escaping @Sendable (_ records: Int, _ total: Int) -> Void = { _, _ in },
        boundaries: @escaping @Sendable () -> KnownTransactions
    ) {
        self.onRecords = onRecords
        self.purpose = purpose
        self.sendsConditionalGet = sendsConditionalGet
        self.pushedChange = pushedChange
        consent = .none
        switch purpose {
        case .sync(let isAccepting): if isAccepting { consent = .approved }
        case .verify(let isRepairing): comparison = RowComparison(limits: limits, replaces: isRepairing)
        }
        core = DeviceCore(limits: limits)
        self.limits = limits
        self.merges = merges
        self.environment = environment
        self.boundaries = boundaries
        changeSetsMax = limits.changeSetsPerRequestMax
        lock = SyncLock(environment)
    }

    /// Decides the next step, and freezes the change sets to send.
    package mutating func next(_ db: Database) throws -> Step {
        if let endingError { throw endingError }
        if isEven { return .finish }
        try fitIfNeeded(db)
        if let question = try comparisonStep(db) { return .compare(question) }
        var step = Step.finish
        var isFit = true
        try db.inTransaction(.immediate) {
            try lock.refuseOthers(db)
            let file = try DeviceFile(db)
            isFit = !FitSchema.isNeeded(file) || !file.tables.problems.isEmpty
            guard isFit else { return .rollback }
            // Another process has changed the file's state, so the recall is outdated.
            if case .snapshot(_?) = need, try requestState != FileState(file, in: db) { need = .request }
            // The zone's tables may have changed since, so that both sides agree now.
            if case .request = need, schemasTaken == 0, file.served != nil, !file.tables.problems.isEmpty {
                try requireSchema()
            }
            if case .request = need, file.needsSnapshot { need = .snapshot(nil) }
            // An answer names rows by their numbers, which rebuilt tables without a key do not have now.
            if case .request = need, try hasLostRowids(file) { need = .comparison }
            // The snapshot may contain sent change sets, so get their verdicts first.
            if case .snapshot(nil) = need, try core.hasFrozen(db) { need = .question(isDoubted: false) }
            switch need {
            case _ where needsConfirmation: step = .compare(try .confirmation(DeviceFile(db)))
            case .request:
                try bound.begin(isCatchingUp: isReceivingOnly, file, in: db)
                step = .send(try prepare(db))
            case .question:
                requestState = try FileState(file, in: db)
                step = .send(try core.prepareQuestion(db))
            case .snapshot(let recall):
                if recall == nil { requestState = try FileState(file, in: db) }
                let isSame = recall?.isAboutOther != true
                let base = isSame && takesDelta ? try core.deltaBase(db) : nil
                step = try nextQuestion(file, in: db) ?? .fetchSnapshot(zone: file.zone, since: base)
            case .comparison: step = try nextQuestion(file, in: db) ?? .fetchSnapshot(zone: file.zone, since: nil)
            case .schema: step = .fetchSchema(zone: file.zone)
            }
            // A request for news writes nothing, so it needs no lock.
            if case .send(let outgoing) = step, outgoing.isSettled { return .commit }
            try lock.take(db)
            return .commit
        }
        // Another program has altered the tables since they were fitted.
        return isFit ? step : try next(db)
    }

    package mutating func applyAnswer(_ answer: [UInt8], to outgoing: DeviceCore.Outgoing, in db: Database) throws
        -> [DeviceEvent]
    {
        if outgoing.sendsConditionalGet, conditionalGetOutcome == nil { conditionalGetOutcome = .answered }
        guard outgoing.exchange != .question else {
            var fileEpoch: String?
            if case .question(isDoubted: false) = need { fileEpoch = try DeviceFile(db).epoch }
            need = .snapshot(try Recall(answer, fileEpoch: fileEpoch, in: db))
            return []
        }
        let isComparing = comparison != nil
        var applied: ApplyResult
        var renumbered = RenumberTaken.Outcome()
        do {
            applied = try core.apply(
                answer, to: outgoing, in: db, boundaries: boundaries(), comparesFingerprint: !isComparing,
                consent: consent, now: environment.now(), newID: environment.newID
            ) { applied in
                // In the answer's transaction, so that no program sees the rows without these edits.
                if !isComparing, !applied.isStale, try applied.hasConflicts || RenumberTaken.mayBeNeeded(in: db) {
                    renumbered = try renumberTaken(in: db)
                }
                let isSettled = applied.isInSync && renumbered.ids.isEmpty
                if isSettled, !isComparing, merges.isEmpty { try lock.release(db) }
            }
        } catch let deletion as MassDeletion {
            try requireConfirmation(of: deletion)
            return []
        }
        if applied.needsSchema { try requireSchema() }
        if applied.needsEcho { takesIds = false }
        isCatchingUp = applied.hasMore
        // Rows of a rebuilt table can be compared only now that both sides are at one revision.
        if applied.canCompareRebuilt || applied.hasRebuilt && applied.revision == keptRows?.revision {
            need = .comparison
        }
        applied.events += try compareKept(db)
        guard !isComparing else {
            comparison?.isBehind = applied.hasMore || applied.isStale
            return applied.events
        }
        isEven = applied.isInSync && renumbered.ids.isEmpty
        if !applied.isInSync { try requireProgress(outgoing, applied) }
        // The server would refuse a merge with outdated rows again.
        let events = renumbered.replacing(applied.events)
        guard !applied.hasMore, !applied.isStale else { return events }
        return merges.isEmpty ? events : try mergeParked(events, in: db)
    }

    package mutating func applySnapshot(at path: String, in db: Database) throws -> [DeviceEvent] {
        var recall: Recall?
        if case .snapshot(let answer) = need { recall = answer }
        var snapshot = TakeSnapshot(
            db: db, snapshotPath: path, boundaries: boundaries(), recall: recall, limits: core.limits,
            now: environment.now(), newID: environment.newID)
        if case .comparison = need {
            need = .request
            switch try snapshot.compareRebuilt() {
            case .compared(let events): return events
            case .earlierFile(let revision):
                keptRows = (revision, try DeviceFile(db).tables.servedHash)
                return []
            case .outdated: outdatedComparisons += 1
            }
            if try outdatedComparisons >= Self.outdatedComparisonsMax || hasLostRowids(DeviceFile(db)) {
                // The zone has changed, so the device parks what differs from its rows.
                try db.execute(sql: "UPDATE tidemark_device SET stale = 1")
            }
            return []
        }
        snapshot.hasMismatch = hasMismatch
        snapshot.consent = consent
        snapshot.requestState = requestState
        snapshot.asksAboutMissing = asksAboutMissing
        snapshot.onRecords = onRecords
        do {
            var renumbered = RenumberTaken.Outcome()
            let applied = try snapshot.take { applied in
                if applied.hasConflicts { renumbered = try renumberTaken(in: db) }
            }
            if applied.needsHistories {
                // Rows that only the next snapshot has are not older than this one.
                asksAboutMissing = false
                return []
            }
            // The snapshot may be outdated and not applied; then the next request tries again.
            need = .request
            return renumbered.replacing(applied.events)
        } catch let deletion as MassDeletion {
            try requireConfirmation(of: deletion)
            return []
        }
    }

    package mutating func applySchema(_ answer: [UInt8], in db: Database) throws {
        need = .request
        try DeviceCore.take(
            schema: answer, in: db, boundaries: boundaries(), now: environment.now(), newID: environment.newID)
    }

    /// Ends the round early and releases the lock, so that other processes can sync at once.
    package mutating func end(in db: Database) throws { try lock.release(db) }

    /// Adapts the bookkeeping if the app altered its tables while the engine was open.
    private func fitIfNeeded(_ db: Database) throws {
        guard FitSchema.isNeeded(try DeviceFile(db)) else { return }
        try Transaction.withoutForeignKeys(db) {
            try FitSchema(db: db, now: environment.now(), boundaries: boundaries(), newID: environment.newID)
                .runIfNeeded()
        }
    }

    private func hasLostRowids(_ file: DeviceFile) throws -> Bool {
        try CompareRebuilt.tables(file).contains(where: \.hasRowidKey)
    }

    private mutating func requireSchema() throws {
        guard schemasTaken < Self.schemasMax else {
            throw TidemarkError(
                .unavailable, "The zone's tables are being altered all the time.", fix: "Sync again in a moment.")
        }
        schemasTaken += 1
        need = .schema
    }

    /// Whether a delta suffices: only if all other rows are the server's and no consent is involved.
    private var takesDelta: Bool {
        guard comparison == nil, !hasMismatch, case .none = consent else { return false }
        return true
    }

    /// Whether pending change sets are not sent yet, because the rows are not the server's latest.
    private var isReceivingOnly: Bool { isCatchingUp || comparison != nil }

    private mutating func prepare(_ db: Database) throws -> DeviceCore.Outgoing {
        var outgoing = try core.prepareRequest(
            db, boundaries: boundaries(), changeSetsMax: isReceivingOnly ? 0 : changeSetsMax,
            revisionsMax: try revisionsMax(db), checksRows: comparison == nil, takesDelta: takesDelta,
            takesIds: takesIds, now: environment.now(), newID: environment.newID)
        if let pushedChange, pushedChange.since == outgoing.conditionalGet?.tag {
            outgoing.pushedAnswer = pushedChange.answer
        }
        pushedChange = nil
        if !sendsConditionalGet { outgoing.conditionalGet = nil }
        return outgoing
    }

    /// Gives new ids to refused new records whose drawn id is taken; this sync sends them.
    private func renumberTaken(in db: Database) throws -> RenumberTaken.Outcome {
        try RenumberTaken(db: db, schema: DeviceFile(db).schema).run(
            boundaries: boundaries(), now: environment.now(), newID: environment.newID)
    }

    /// Merges refused change sets by the app's functions; this sync sends the results.
    private mutating func mergeParked(_ events: [DeviceEvent], in db: Database) throws -> [DeviceEvent] {
        var mergedIDs: [String] = []
        try db.inTransaction(.immediate) {
            mergedIDs = try MergeConflicts(db: db, schema: DeviceFile(db).schema, merges: merges, limits: limits).run(
                boundaries: boundaries(), now: environment.now(), newID: environment.newID)
            if isEven, mergedIDs.isEmpty { try lock.release(db) }
            return .commit
        }
        if !mergedIDs.isEmpty { isEven = false }
        let others = events.filter { event in !mergedIDs.contains { event == .conflict($0) } }
        return others + mergedIDs.map { .merged($0) }
    }

    /// Requires that the server computes its fingerprint from all rows before the answer is applied.
    private mutating func requireConfirmation(of deletion: MassDeletion) throws {
        guard confirmationCount < Self.confirmationsMax else {
            throw deletion.error(because: "the zone changes faster than it can be asked.")
        }
        confirmationCount += 1
        needsConfirmation = true
    }

    /// Refuses an answer without any verdict on the sent change sets, because the loop would never end.
    private func requireProgress(_ outgoing: DeviceCore.Outgoing, _ applied: ApplyResult) throws {
        guard !outgoing.changeSets.isEmpty, !applied.isStale, !applied.hasMore, applied.settledCount == 0 else {
            return
        }
        throw Answer.inapplicable("it has no verdict on the change sets that were sent.")
    }
}
