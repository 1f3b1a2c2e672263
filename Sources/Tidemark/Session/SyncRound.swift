package import GRDB
package import TidemarkCore
import TidemarkSQL

/// One sync without input or output: it does in the file what ``SyncMachine`` decides.
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
    private let merges: [String: any RecordMerging]
    /// The change that the server pushed; it can answer only the first request.
    private var pushedChange: PushedChange?
    let lock: SyncLock
    var machine: SyncMachine

    /// `pushedChange` answers one request; `onRecords` follows the records of a snapshot into the tables.
    package init(
        for purpose: SyncPurpose = .sync(acceptingMassDeletion: false), sendsConditionalGet: Bool = true,
        limits: Limits,
        environment: SyncEngine.Environment, merges: [String: any RecordMerging] = [:],
        pushedChange: PushedChange? = nil,
        onRecords: @escaping @Sendable (_ records: Int, _ total: Int) -> Void = { _, _ in },
        boundaries: @escaping @Sendable () -> KnownTransactions
    ) {
        self.onRecords = onRecords
        self.pushedChange = pushedChange
        self.merges = merges
        self.environment = environment
        self.boundaries = boundaries
        core = DeviceCore(limits: limits)
        lock = SyncLock(environment)
        machine = SyncMachine(for: purpose, sendsConditionalGet: sendsConditionalGet, limits: limits)
    }

    var moment: Moment { Moment(environment, boundaries: boundaries(), limits: core.limits) }

    // MARK: Steps

    /// Decides the next step, and freezes the change sets to send.
    package mutating func next(_ db: Database) throws -> Step {
        if let end = machine.end {
            try end.get()
            return .finish
        }
        try FitSchema(db: db, moment: moment).runAlone()
        var step: Step?
        var comparison: RowComparison?
        try db.inTransaction(.immediate) {
            try lock.refuseOthers(db)
            let file = try DeviceFile(db)
            guard !FitSchema.isNeeded(file) || !file.tables.problems.isEmpty else { return .rollback }
            switch machine.received(.file(try facts(file))) {
            case .compare(let running): comparison = running
            case let action: step = try self.step(for: action, file, in: db)
            }
            // A request for news writes nothing, so it needs no lock.
            if case .send(let outgoing)? = step, outgoing.isSettled { return .commit }
            try lock.take(db)
            return .commit
        }
        if let comparison { return .compare(try question(of: comparison, in: db)) }
        // Another program has altered the tables since they were fitted.
        return try step ?? next(db)
    }

    private mutating func step(for action: SyncMachine.Action, _ file: DeviceFile, in db: Database) throws -> Step? {
        switch action {
        case .exchange:
            try machine.begin(at: machine.isReceivingOnly ? .revision(file.revision) : Self.waiting(in: db))
            return .send(try prepare(file, in: db))
        case .recall: return .send(try core.prepareQuestion(db))
        case .fetchSnapshot(let asDelta):
            // The snapshot may contain sent change sets, so get their verdicts first.
            if machine.recall == nil, try core.hasFrozen(db) {
                return try step(for: machine.received(.unanswered), file, in: db)
            }
            let base = asDelta ? try core.deltaBase(db) : nil
            return try nextQuestion(file, in: db) ?? .fetchSnapshot(zone: file.zone, since: base)
        case .fetchRows: return try nextQuestion(file, in: db) ?? .fetchSnapshot(zone: file.zone, since: nil)
        case .fetchSchema: return .fetchSchema(zone: file.zone)
        case .confirm: return .compare(try .confirmation(file))
        case .fail(let error): throw error
        default: return nil
        }
    }

    func facts(_ file: DeviceFile) throws -> SyncMachine.FileFacts {
        let isUnfit = file.served != nil && !file.tables.problems.isEmpty
        return SyncMachine.FileFacts(
            state: FileState(file), revision: file.revision, needsSnapshot: file.needsSnapshot,
            tables: isUnfit ? .unfit : file.tables.isZones ? .zones : .others,
            rebuilt: try CompareRebuilt.state(of: file))
    }

    private static func waiting(in db: Database) throws -> Attempts.Mark {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT (SELECT min(seq) FROM tidemark_changeset),
                    (SELECT seq FROM sqlite_sequence WHERE name = 'tidemark_changeset')
                """)
        return .waiting(oldest: try row?.value(0), latest: try row?.value(1))
    }

    private mutating func prepare(_ file: DeviceFile, in db: Database) throws -> DeviceCore.Outgoing {
        var outgoing = try core.prepareRequest(
            db, at: moment, changeSetsMax: machine.isReceivingOnly ? 0 : machine.changeSetsMax,
            revisionsMax: machine.revisionMax.map { $0 - file.revision }, checksRows: !machine.isComparing,
            takesDelta: machine.takesDelta, takesIds: machine.echo == .ids)
        if let pushedChange, pushedChange.since == outgoing.conditionalGet?.tag {
            outgoing.pushedAnswer = pushedChange.answer
        }
        pushedChange = nil
        if case .withheld = machine.shortRequest { outgoing.conditionalGet = nil }
        return outgoing
    }

    /// Ends the round early and releases the lock, so that other processes can sync at once.
    package mutating func end(in db: Database) throws { try lock.release(db) }

    /// Tells the machine what has happened; throws the error with which that ends the sync.
    mutating func tell(_ event: SyncMachine.Event) throws {
        if case .fail(let error) = machine.received(event) { throw error }
    }

    // MARK: Answers

    package mutating func applyAnswer(_ answer: [UInt8], to outgoing: DeviceCore.Outgoing, in db: Database) throws
        -> [DeviceEvent]
    {
        machine.heard(from: outgoing)
        guard outgoing.exchange != .question else {
            let epoch = machine.doubt == .verdicts ? try DeviceFile(db).epoch : nil
            try tell(.recalled(Recall(answer, fileEpoch: epoch)))
            return []
        }
        let isComparing = machine.isComparing
        var applied: ApplyResult
        var renumbered = RenumberTaken.Outcome()
        do {
            applied = try core.apply(
                answer, to: outgoing, in: db, at: moment, comparesFingerprint: !isComparing, consent: machine.consent
            ) { applied in
                guard !isComparing, applied.outcome == .applied else { return }
                // In the answer's transaction, so that no program sees the rows without these edits.
                if try applied.hasConflicts || RenumberTaken.mayBeNeeded(in: db) {
                    renumbered = try renumberTaken(in: db)
                }
                if applied.isInSync, renumbered.ids.isEmpty, merges.isEmpty { try lock.release(db) }
            }
        } catch let deletion as MassDeletion {
            try tell(.suspected(deletion))
            return []
        }
        try tell(.answered(applied, sent: outgoing.changeSets.count, made: !renumbered.ids.isEmpty))
        applied.events += try compareKept(db)
        let events = renumbered.replacing(applied.events)
        // The server would refuse a merge with outdated rows again.
        guard !isComparing, !merges.isEmpty, !applied.hasMore, applied.outcome == .applied else { return events }
        return try mergeParked(events, in: db)
    }

    /// Merges refused change sets by the app's functions; this sync sends the results.
    private mutating func mergeParked(_ events: [DeviceEvent], in db: Database) throws -> [DeviceEvent] {
        var mergedIDs: [String] = []
        try db.inTransaction(.immediate) {
            mergedIDs = try MergeConflicts(
                round: RoundContext(db: db, file: DeviceFile(db), moment: moment), merges: merges
            ).run()
            if machine.state == .even, mergedIDs.isEmpty { try lock.release(db) }
            return .commit
        }
        if !mergedIDs.isEmpty { try tell(.merged) }
        let others = events.filter { event in !mergedIDs.contains { event == .conflict($0) } }
        return others + mergedIDs.map { .merged($0) }
    }

    package mutating func applySnapshot(at path: String, in db: Database) throws -> [DeviceEvent] {
        var snapshot = TakeSnapshot(
            db: db, snapshotPath: path, recall: machine.recall, moment: moment)
        if case .fetchingRows = machine.state { return try compareRebuilt(snapshot, in: db) }
        snapshot.trust = machine.trust
        snapshot.consent = machine.consent
        snapshot.requestState = machine.fileState
        snapshot.missingRows = machine.missingRows
        snapshot.onRecords = onRecords
        do {
            var renumbered = RenumberTaken.Outcome()
            let applied = try snapshot.take { applied in
                if applied.hasConflicts { renumbered = try renumberTaken(in: db) }
            }
            // The snapshot may be outdated and not applied; then the next request tries again.
            try tell(.tookSnapshot(applied.outcome))
            return renumbered.replacing(applied.events)
        } catch let deletion as MassDeletion {
            try tell(.suspected(deletion))
            return []
        }
    }

    /// Adopts the zone's schema; throws if it is none or does not fit, and keeps the outbox.
    package mutating func applySchema(_ answer: [UInt8], in db: Database) throws {
        try tell(.tookSchema)
        let tables = try String.fetchOne(
            db,
            sql: "SELECT CASE WHEN json_valid(?1) AND json_type(?1, '$.tables') = 'array' THEN ?1 -> '$.tables' END",
            arguments: [String(decoding: answer, as: UTF8.self)])
        guard let tables else {
            throw TidemarkError(
                .invalidResponse, "The answer is no schema of a Tidemark server.",
                fix: "Nothing was changed. Check the URL; a network's sign-in page may be in the way.")
        }
        try Transaction.withoutForeignKeys(db) { try FitSchema(db: db, moment: moment).run(served: tables) }
    }

    /// Gives new ids to refused new records whose drawn id is taken; this sync sends them.
    private func renumberTaken(in db: Database) throws -> RenumberTaken.Outcome {
        try RenumberTaken(round: RoundContext(db: db, file: DeviceFile(db), moment: moment)).run()
    }
}

// MARK: Comparisons

/// The comparison of rows, within a sync or by ``SyncEngine/verify(repairing:)``.
extension SyncRound {
    /// Returns the next request of a running comparison.
    mutating func question(of comparison: RowComparison, in db: Database) throws -> RowComparison.Question {
        var comparison = comparison
        let question = try comparison.next(db, at: moment)
        try tell(.questioned(comparison))
        return question
    }

    package mutating func applyComparison(_ answer: [UInt8], to question: RowComparison.Question, in db: Database)
        throws -> [DeviceEvent]
    {
        if case .confirming = machine.state {
            let answer = try ComparisonAnswer(answer, to: question, file: DeviceFile(db), in: db)
            try tell(.confirmed(revision: answer.revision, answer.fingerprint ?? .none))
            return []
        }
        guard case .comparison(var comparison, _) = machine.aim else { return [] }
        let (events, footing) = try comparison.apply(answer, to: question, in: db, at: moment)
        try tell(.compared(comparison, footing))
        guard comparison.isDone, case .verify(let isRepairing) = machine.purpose else { return events }
        if !isRepairing {
            if machine.verification?.records.isEmpty == false {
                try ConfirmedRows(db: db, file: DeviceFile(db)).requireCheck()
            }
            try reportUnsent(in: db)
        }
        try lock.release(db)
        return events
    }

    /// Adds the rows that neither server nor outbox has; a repair has captured them before the comparison instead.
    private mutating func reportUnsent(in db: Database) throws {
        let unsent = try UnsentRows(db: db, schema: DeviceFile(db).schema).find()
        let names = Set(unsent.map { [$0.table, $0.key] })
        machine.verification?.records.removeAll { names.contains([$0.table, $0.key]) }
        machine.verification?.records += unsent
    }
}

/// The comparison of tables that a migration has rebuilt.
///
/// The zone's rows come with a snapshot. If the zone has gone on meanwhile, the device keeps the snapshot's rows and
/// asks for exactly the revisions up to it. Then both are at one revision, however busy the zone is.
extension SyncRound {
    /// Returns the next question about a row of a rebuilt table, which precedes the snapshot; nil if none is left.
    func nextQuestion(_ file: DeviceFile, in db: Database) throws -> Step? {
        guard file.rebuilt != nil else { return nil }
        try EngineConnection.prepare(db, schema: file.schema)
        return try ReplacedRows(db: db, schema: file.schema).question(zone: file.zone).map { .askHistory($0) }
    }

    /// Applies a record's history, which tells edits of a rebuilt table from the values before them.
    package mutating func applyHistory(_ answer: [UInt8], to question: HistoryQuestion, in db: Database) throws
        -> [DeviceEvent]
    {
        try db.inTransaction(.immediate) {
            try ReplacedRows(db: db, schema: DeviceFile(db).schema).take(answer, to: question)
            return .commit
        }
        return try compareKept(db)
    }

    /// Notes that the server does not tell a record's history.
    mutating func giveUp(_ question: HistoryQuestion, after error: TidemarkError, in db: Database) throws
        -> [DeviceEvent]
    {
        try db.inTransaction(.immediate) {
            let isUnknown = [.unknownPath, .unknownTable].contains(error.code)
            try ReplacedRows(db: db, schema: DeviceFile(db).schema).giveUp(question, all: isUnknown)
            return .commit
        }
        return try compareKept(db)
    }

    /// Compares with the rows of a snapshot, or keeps them until the device is at their revision.
    mutating func compareRebuilt(_ snapshot: TakeSnapshot, in db: Database) throws -> [DeviceEvent] {
        switch try snapshot.compareRebuilt() {
        case .compared(let events):
            try tell(.comparedRebuilt)
            return events
        case .earlierFile(let revision):
            try tell(.keptRows(.init(revision: revision, schema: DeviceFile(db).tables.servedHash)))
        case .outdated:
            let action = machine.received(.outdatedRows(try CompareRebuilt.state(of: DeviceFile(db))))
            // The zone has changed, so the device parks what differs from its rows.
            if case .replaceRows = action { try db.execute(sql: "UPDATE tidemark_device SET stale = 1") }
        }
        return []
    }

    /// Compares with the kept rows, once the device is at their revision and has no question left.
    mutating func compareKept(_ db: Database) throws -> [DeviceEvent] {
        guard case .fetchingRows(let rows?) = machine.state else { return [] }
        let file = try DeviceFile(db)
        guard file.rebuilt != nil, rows.revision == file.revision, rows.schema == file.tables.servedHash else {
            try tell(.lostKeptRows)
            return []
        }
        guard try nextQuestion(file, in: db) == nil else { return [] }
        try tell(.comparedRebuilt)
        return try Transaction.withoutForeignKeys(db) {
            let round = try RoundContext(db, at: moment)
            try round.drain()
            let events = try CaptureRebuilt(round: round).compare(with: .keptRows)
            try CompareRebuilt.forgetRows(of: round.file, in: db)
            return events
        }
    }
}
