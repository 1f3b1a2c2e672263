package import GRDB
package import TidemarkCore

/// One sync, as a machine without input or output: it says what has to be carried, is told what
/// came back, and decides what that means.
///
/// The shell loops: ``next(_:)``, do what the step says, then ``answered(_:to:in:)``,
/// ``took(snapshotAt:in:)`` or ``took(schema:in:)``; an error that any of these throws, or the
/// network, goes to ``failed(_:during:in:)``, which decides what follows. Every function is given
/// the database outside a transaction and runs one of its own, so a process may end between any two
/// of them; what the machine itself remembers may be lost at any time.
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

    let core: DeviceCore
    let environment: SyncEngine.Environment
    let boundaries: @Sendable () -> KnownTransactions
    private let limits: Limits
    private let merge: [String: MergeFunction]
    var changeSetsMax: Int
    var snapshotsTaken = 0
    /// How many answers could not be applied.
    var inapplicableAnswers = 0
    private var isCatchingUp = false
    private var bound = RoundBound()
    private var schemasTaken = 0
    private var hasCompared = false
    var need = Need.request
    /// The state of the file that the last question, or the snapshot asked for without one, is
    /// about.
    private var asked: FileState?
    var isEven = false
    let lock: SyncLock

    /// What comes next.
    enum Need {
        case request
        /// What became of what was sent; `isDoubted` where the file's history may be another than
        /// the server's.
        case question(isDoubted: Bool)
        case snapshot(Recall?)
        /// A snapshot too, but only to compare rebuilt tables with it.
        case comparison
        case schema
    }

    let purpose: Purpose
    /// What the server has told unasked; of use for the first question alone.
    private var told: PushedChange?
    /// Whether a settled device may ask in a few bytes.
    var asksShort: Bool
    /// What became of that; nil while it has not.
    var shortOutcome: ShortQuestions.Outcome?
    /// Whether the new ids alone may come back of what is sent.
    private var takesIds = true
    /// Set while rows are compared, because they differ or because that is the purpose.
    var comparison: RowComparison?
    var comparisonsStarted = 0
    /// What the last comparison found.
    var verification: Verification?
    /// What may be done with an answer that deletes much.
    var consent: MassDeletion.Consent
    var needsConfirmation = false
    private var confirmationsAsked = 0
    /// Whether the rows of this file turned out not to be those that its revision stands for.
    var hasMismatch = false

    static let snapshotsMax = 4
    private static let schemasMax = 4
    static let comparisonsMax = 2
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
        boundaries: @escaping @Sendable () -> KnownTransactions
    ) {
        self.purpose = purpose
        self.asksShort = asksShort
        self.told = told
        consent = .none
        switch purpose {
        case .sync(let isAccepting): if isAccepting { consent = .given }
        case .verify(let isRepairing): comparison = RowComparison(limits: limits, replaces: isRepairing)
        }
        core = DeviceCore(limits: limits)
        self.limits = limits
        self.merge = merge
        self.environment = environment
        self.boundaries = boundaries
        changeSetsMax = limits.changeSetsPerRequestMax
        lock = SyncLock(environment)
    }

    /// Decides the next step, and freezes what it sends.
    package mutating func next(_ db: Database) throws -> Step {
        if isEven {
            // Rows of a rebuilt table can be compared only now that both sides are at one revision.
            guard try DeviceFile(db).rebuilt != nil, !hasCompared else { return .finish }
            need = .comparison
            isEven = false
            hasCompared = true
        }
        try fitIfNeeded(db)
        if let question = try comparisonStep(db) { return .compare(question) }
        var step = Step.finish
        try db.inTransaction(.immediate) {
            try lock.refuseOthers(db)
            let file = try DeviceFile(db)
            // Somebody else has been at it since, and the server would say something else now.
            if case .snapshot(_?) = need, try asked != FileState(file, in: db) { need = .request }
            // The zone may have been altered since, so that both agree by now.
            if case .request = need, schemasTaken == 0, file.served != nil, !file.tables.problems.isEmpty {
                try requireSchema()
            }
            if case .request = need, file.isStale { need = .snapshot(nil) }
            // What was sent may be among the rows that come.
            if case .snapshot(nil) = need, try core.hasFrozen(db) { need = .question(isDoubted: false) }
            switch need {
            case _ where needsConfirmation: step = .compare(try .confirmation(DeviceFile(db)))
            case .request:
                try bound.begin(isCatchingUp: isTakingIn, file, in: db)
                step = .send(try prepare(db))
            case .question:
                asked = try FileState(file, in: db)
                step = .send(try core.prepareQuestion(db))
            case .snapshot(let recall):
                if recall == nil { asked = try FileState(file, in: db) }
                let isSame = recall?.isAboutOther != true
                let base = isSame && takesDelta ? try core.deltaBase(db) : nil
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
    package mutating func answered(_ answer: [UInt8], to outgoing: DeviceCore.Outgoing, in db: Database) throws
        -> [SyncEvent]
    {
        if outgoing.asksShort, shortOutcome == nil { shortOutcome = .answered }
        guard outgoing.exchange != .question else {
            var known: String?
            if case .question(isDoubted: false) = need { known = try DeviceFile(db).epoch }
            need = .snapshot(try Recall(answer, known: known, in: db))
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
            ) { applied in if applied.isEven, !isComparing, merge.isEmpty { try lock.release(db) } }
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
        snapshot.hasMismatch = hasMismatch
        snapshot.consent = consent
        snapshot.asked = asked
        do {
            let applied = try snapshot.take()
            // One that another process has overtaken is dropped, and the server is asked anew.
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

    /// Ends the machine before its time, so that others may sync at once.
    package mutating func ended(in db: Database) throws { try lock.release(db) }

    // MARK: Private

    /// The app's tables were altered while the engine was open.
    private func fitIfNeeded(_ db: Database) throws {
        guard FitSchema.isNeeded(try DeviceFile(db)) else { return }
        try Transaction.withoutForeignKeys(db) {
            try FitSchema(db: db, now: environment.now(), boundaries: boundaries(), newID: environment.newID)
                .runIfNeeded()
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

    /// Whether what waits is not sent yet: edits of rows that are not the server's are sent when
    /// they are.
    private var isTakingIn: Bool { isCatchingUp || comparison != nil }

    private mutating func prepare(_ db: Database) throws -> DeviceCore.Outgoing {
        var outgoing = try core.prepareRequest(
            db,
            boundaries: boundaries(),
            changeSetsMax: isTakingIn ? 0 : changeSetsMax,
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
    private mutating func mergeParked(_ events: [SyncEvent], in db: Database) throws -> [SyncEvent] {
        var settled: [String] = []
        try db.inTransaction(.immediate) {
            settled = try MergeConflicts(db: db, schema: DeviceFile(db).schema, functions: merge, limits: limits).run(
                boundaries: boundaries(),
                now: environment.now(),
                newID: environment.newID
            )
            if isEven, settled.isEmpty { try lock.release(db) }
            return .commit
        }
        if !settled.isEmpty { isEven = false }
        let others = events.filter { event in !settled.contains { event == .conflict(id: $0) } }
        return others + settled.map { .merged(id: $0) }
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
        guard !outgoing.changeSets.isEmpty, !applied.isStale, !applied.hasMore, applied.settledCount == 0 else {
            return
        }
        throw AnswerCheck.inapplicable("it has no verdict on the change sets that were sent.")
    }
}
