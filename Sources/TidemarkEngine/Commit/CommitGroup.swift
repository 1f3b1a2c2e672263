package import TidemarkCore

/// Answers the requests of a group in one transaction: out of the requests values, out of the values decisions, out of
/// the decisions rows and revisions.
///
/// The life of a change set:
///
/// 1. It is read once, into the positions of its values (``TidemarkCore/PendingChangeSet``).
/// 2. It is decided (``DecideChangeSet``): its temporary ids get permanent ones, and its records are judged by facts.
///    A conflict is found before anything is written.
/// 3. It joins a run: the longest series of change sets where none reads or writes what an earlier one writes
///    (``Footprint``). A run is written with the statements of one change set.
/// 4. The effects on the rows, as capture triggers saw them, become its revision (``BuildRevision``): they are the
///    only source of what other devices get.
/// 5. The answers are made after the write.
///
/// Requests join one run, too. If a request does not fit, or one of its change sets is refused, it is answered alone
/// in a savepoint; its change sets still form runs. If the database refuses a run, its savepoint is undone, and each
/// of its change sets is written by itself. No request of a group has an answer when the transaction fails.
///
/// The commit uses no clock, randomness or network. The same requests in the same order, at the same times, give the
/// same bytes.
package struct CommitGroup {
    package let limits: Limits

    package init(limits: Limits = .standard) { self.limits = limits }

    /// Answers a group in its order; `now` is the server's wall clock, in milliseconds since 1970.
    ///
    /// If the answers have no effect, the caller rolls back. When they reach the byte limit, the other requests have no
    /// effect and no result; they join the next group. An error has failed the whole transaction.
    package func handle(_ group: [ZoneRequest], at now: Int64, in transaction: some CommitTransaction) throws -> Answers
    {
        try withReaders(of: group[...], []) { readers in
            var run = GroupRun(group, readers, at: now, in: transaction, limits: limits)
            let results = try run.answer()
            let isAnyDone = results.contains { if case .success = $0 { true } else { false } }
            return Answers(results: results, state: run.ledger.state, haveEffect: isAnyDone || run.hasAbsorbed)
        }
    }

    /// What became of a group.
    package struct Answers {
        package let results: [ZoneResult]
        package let state: ZoneState
        /// Whether a request has an effect, or changes of programs became a revision; else a rollback needs no flush.
        package let haveEffect: Bool
    }

    /// Keeps the texts of all requests in memory while `body` runs.
    private func withReaders<Success>(
        of group: ArraySlice<ZoneRequest>, _ readers: [Result<JSONReader, TidemarkError>],
        _ body: ([Result<JSONReader, TidemarkError>]) throws -> Success
    ) throws -> Success {
        guard let request = group.first else { return try body(readers) }
        return try request.text.withUnsafeBufferPointer { bytes in
            let reader = Result { () throws(TidemarkError) in
                try JSONReader(bytes, depthMax: limits.jsonDepthMax, stringMax: ValueBound(limits).stringMax)
            }
            return try withReaders(of: group.dropFirst(), readers + [reader], body)
        }
    }
}

/// A change set is not separate from the others of its run.
struct NotSeparate: Error {}

/// A request of a group, as it was read.
struct Incoming {
    var request: SyncRequest
    let access: ZoneAccess
    let changeSets: [PendingChangeSet]
    /// The writes of a client without rows; nil for a request of a device.
    var writes: RecordChangeSet?
}

/// A request whose change sets are being decided.
struct Turn {
    let incoming: Incoming
    let place: Int
    /// The zone's state when its turn came.
    let start: ZoneState
    /// The revisions that it misses, as far as they are written.
    let missed: CatchUp
    /// The author and the time of each change set.
    let stamps: [Stamp]
    var outcomes: [SyncHandler.Outcome?]
    /// The revisions of its own change sets.
    var accepted = RangeSet<Int64>()
    var addedCount: Int64 = 0
    /// The revisions of ancestors that came in earlier requests, by the ids of the change sets of this one.
    var ancestors: [String: RangeSet<Int64>] = [:]
    /// The permanent ids of its temporary ones.
    var ids: [TemporaryName: Int64]

    var request: SyncRequest { incoming.request }
    /// How much of its change sets the answer repeats: with revisions of others, it has them whole.
    var echo: SyncRequest.Echo? {
        let hasMissed = !missed.isEmpty || missed.revision < start.revision
        return hasMissed && request.echo == .ids ? .all : request.echo
    }
}

/// What a commit knows of the zone; a value, so that an attempt can be taken back.
struct Ledger {
    /// The zone's state after the last written revision.
    var state: ZoneState
    /// The hash of the history up to there.
    var chain: String
    var fingerprints: [Int64: Fingerprint] = [:]
    var assigner = Identities.Assigner()
    var facts = Facts()
    /// The exchanges that are not stored yet.
    var exchanges: [String: Exchange] = [:]
    /// The texts of the revisions that this group has written, for the answers to others of it.
    var texts: [Int64: RevisionText] = [:]
    /// What the books knew of changes before the group wrote anything.
    var foreseen: [BasedChange: Foreseen] = [:]
    var changed: Set<RecordID> = []

    enum Foreseen {
        /// The author of the change knows everything about its record.
        case free
        case contended(ContendedRecord)
    }
}

/// Change sets that are decided and will be written together.
struct Run {
    /// A change set with the places of its request and of itself.
    struct Element {
        let turn: Int
        let index: Int
        let decided: BuildRevision.Decided
    }

    var elements: [Element] = []
    var footprint: Footprint
    /// The ids of new records before it.
    var assigner = Identities.Assigner()
    var ids: Set<String> = []
    /// The latest time of its change sets.
    var time: Int64 = 0

    var isEmpty: Bool { elements.isEmpty }
}

/// The way of a group through its transaction.
struct GroupRun<Transaction: CommitTransaction> {
    let zone: Transaction
    /// The server's wall clock, in milliseconds since 1970.
    let now: Int64
    let limits: Limits
    let sync: SyncHandler
    let schema: SyncSchema
    let rules: Footprint.Rules
    let identities: Identities
    let group: [ZoneRequest]
    /// The requests as they were read; nil for a request of another kind.
    let incoming: [Result<Incoming, any Error>?]
    /// Whether a write may change any record.
    var hasFarEffects = true
    /// Whether changes of other programs became a revision of this transaction.
    private(set) var hasAbsorbed = false
    var ledger: Ledger
    var run: Run
    /// The requests that have joined the run.
    var turns: [Turn] = []

    init(
        _ group: [ZoneRequest], _ readers: [Result<JSONReader, TidemarkError>], at now: Int64, in zone: Transaction,
        limits: Limits
    ) {
        self.zone = zone
        self.now = now
        self.limits = limits
        self.group = group
        sync = SyncHandler(limits: limits)
        schema = zone.schema
        rules = zone.schema.form { Footprint.Rules(zone.schema) }
        identities = Identities(zone.schema, rules)
        run = Run(footprint: Footprint(rules))
        ledger = Ledger(state: ZoneState(epoch: "", revision: 0, horizon: 0, schema: ""), chain: "")
        incoming = zip(group, readers).map { request, reader in
            switch request.kind {
            case .sync: Result { try Self.read(reader, limits: limits, from: request.access, in: zone) }
            case .write(let writes): Result { try Self.read(writes, limits: limits, from: request.access, in: zone) }
            case .fingerprints, .news: nil
            }
        }
    }

    private static func read(_ writes: ClientWrites, limits: Limits, from access: ZoneAccess, in zone: Transaction)
        throws -> Incoming
    {
        let set = try RecordChangeSet(writes, in: zone.schema)
        do {
            var (request, pending) = try set.read(names: zone.schema.wireNames, limits: limits)
            try zone.prepare(&pending)
            return Incoming(request: request, access: access, changeSets: [pending], writes: set)
        } catch let error as TidemarkError { throw set.problem(error) }
    }

    private static func read(
        _ reader: Result<JSONReader, TidemarkError>, limits: Limits, from access: ZoneAccess, in zone: Transaction
    ) throws -> Incoming {
        var reader = try reader.get()
        let names = zone.schema.wireNames
        var (request, changeSets) = try SyncRequest.read(&reader, names: names, limits: limits)
        request.changeSets = try changeSets.map { changeSet in
            try SyncRequest.Envelope(changeSet, hash: ContentHash.of(changeSet, in: reader), names: names, reader)
        }
        let pending = try zip(changeSets, request.changeSets).map { changeSet, envelope in
            var pending = PendingChangeSet(changeSet, reader)
            try placing(envelope) { try zone.prepare(&pending) }
            return pending
        }
        if access.caller == .anonymous {
            // A device belongs to no anonymous caller.
            request.device = nil
            request.lap = nil
            request.lend = []
        }
        return Incoming(request: request, access: access, changeSets: pending)
    }

    mutating func answer() throws -> [ZoneResult] {
        let zone = zone
        ledger.facts = try zone.facts(factsQuery)
        let head = try zone.head()
        guard head.hasOutsideChanges else { return try answerAll(since: head) }
        do { try zone.attempt { try zone.absorbOutsideChanges() } } catch let error as TidemarkError {
            // Every request meets the rows that the error names.
            return group.map { _ in .failure(error) }
        }
        hasAbsorbed = true
        return try answerAll(since: zone.head())
    }

    private mutating func answerAll(since head: CommitHead) throws -> [ZoneResult] {
        try begin(at: head)
        var results: [ZoneResult?] = group.map { _ in nil }
        var bytes = 0
        for place in group.indices {
            guard bytes < limits.groupBytesMax else { break }
            // An answer may compact the log, and the next request then meets another horizon.
            if !turns.isEmpty, sync.compactsLog(at: upcoming) { try finishTurns(&results) }
            if group.count > 1, try join(place) {
                bytes += turns.last?.missed.bodies.reduce(0) { $0 + $1.utf8.count } ?? 0
            } else {
                try finishTurns(&results)
                let result = try answerAlone(place)
                if case .success(let answer) = result { bytes += answer.text.count }
                results[place] = result
            }
        }
        try finishTurns(&results)
        return results.prefix { $0 != nil }.compactMap { $0 }
    }

    /// What all requests ask of the books.
    private var factsQuery: FactsQuery {
        var query = FactsQuery()
        for case .success(let request)? in incoming {
            query.changeSets += request.request.changeSets.compactMap(\.id)
            if let question = request.request.question { query.changeSets += question.recall + question.known }
            // A client without rows misses nothing.
            query.oldest = min(query.oldest ?? .max, request.writes == nil ? request.request.maxRevision : .max)
            guard let device = request.request.device else { continue }
            query.devices.insert(device)
            for changeSet in request.changeSets {
                // A later change set may name a record of an earlier one that is only repeated.
                let creations = changeSet.records.filter { $0.operation == .create }
                let created = creations.compactMap(identities.temporaryKey)
                let wanted = identities.wanted(by: changeSet).subtracting(created)
                if !wanted.isEmpty { query.temporaryIDs[device, default: []].formUnion(wanted) }
                if !created.isEmpty { query.newTemporaryIDs[device, default: []] += created }
            }
        }
        return query
    }

    private mutating func begin(at head: CommitHead) throws {
        ledger.state = head.state
        let count = requests.reduce(0) { $0 + $1.changeSets.count }
        guard count > 0 else { return }
        ledger.chain = head.chain
        ledger.fingerprints[head.state.revision] = head.fingerprint
        // A single change set is a run of its own, and asks by itself.
        guard count > 1 else { return }
        hasFarEffects = try schema.hasZeroReferences || zone.hasFarEffects
        try foresee()
    }

    /// What the commit knows without a query.
    var known: KnownState {
        let ledger = ledger
        let zone = zone
        return KnownState(
            exchange: { ledger.exchanges[$0] ?? ledger.facts.exchanges[$0] },
            fingerprint: { try ledger.fingerprints[$0] ?? zone.fingerprint(at: $0) })
    }

    /// The requests with change sets that were read.
    var requests: [Incoming] { group.indices.compactMap(request) }

    /// Adds the change set to the place of an error that `body` throws.
    static func placing(_ envelope: SyncRequest.Envelope, _ body: () throws -> Void) throws {
        do { try body() } catch var error as TidemarkError where error.place.changeSet == nil {
            error.place.changeSet = envelope.index
            error.place.id = envelope.id
            throw error
        }
    }

    /// Returns a request that was read; a client without rows is as far as the zone when its turn comes.
    func request(at place: Int) -> Incoming? {
        guard case .success(var request)? = incoming[place] else { return nil }
        if request.writes != nil { request.request.maxRevision = ledger.state.revision }
        return request
    }

    /// The zone's state after the run.
    var upcoming: ZoneState {
        ledger.state.with(
            revision: ledger.state.revision + Int64(run.elements.count), time: max(ledger.state.time, run.time))
    }

    /// Decides a request and lets it join the run, if all its change sets are accepted and separate from the others'.
    private mutating func join(_ place: Int) throws -> Bool {
        guard let request = request(at: place), request.request.question == nil,
            !turns.contains(where: { $0.request.device == request.request.device && $0.request.device != nil })
        else { return false }
        let before = (ledger: ledger, run: run)
        do {
            var turn = try begin(request, at: place)
            for index in request.changeSets.indices {
                if try takeStored(index, &turn) { continue }
                guard case .accept(let decided) = try decide(index, turn), !isOwnRun(decided) else {
                    throw NotSeparate()
                }
                add(decided, index: index, place: turns.count, to: &turn)
            }
            turns.append(turn)
            return true
        } catch let error
            where error is NotSeparate || error is TidemarkError || error is Violation || error is DamagedLog
            || error is Problem
        {
            // Alone, the request is answered or refused by itself.
            ledger = before.ledger
            run = before.run
            return false
        }
    }

    /// Writes the run, and answers its requests; if that fails, answers each alone.
    private mutating func finishTurns(_ results: inout [ZoneResult?]) throws {
        let waiting = turns
        guard !waiting.isEmpty else { return }
        let zone = zone
        let before = ledger
        let outcome = try zone.isolated(alone: false) { try writeTurns() }
        turns = []
        run = Run(footprint: Footprint(rules))
        switch outcome {
        case .success(let answers):
            for (turn, answer) in zip(waiting, answers) { results[turn.place] = .success(answer) }
        case .failure:
            // The error is about one of them.
            ledger = before
            ledger.assigner = Identities.Assigner()
            for turn in waiting { results[turn.place] = try answerAlone(turn.place) }
        }
    }

    private mutating func writeTurns() throws -> [ZoneAnswer] {
        var turns = turns
        let elements = run.elements
        run = Run(footprint: Footprint(rules))
        if !elements.isEmpty {
            let zone = zone
            let written = try zone.attempt { try write(elements.map(\.decided)) }
            for (element, written) in zip(elements, written) {
                record(written, of: element.index, &turns[element.turn])
            }
        }
        let answers = try turns.map { try render($0, missed: extended($0)) }
        try keepExchanges()
        return answers
    }

    /// Returns the revisions that a request misses, with those that earlier requests of the run have added.
    private func extended(_ turn: Turn) throws -> CatchUp {
        let missed = turn.missed
        guard turn.request.echo != nil, !missed.hasMore, missed.revision < turn.start.revision else { return missed }
        let bodies = ((missed.revision + 1)...turn.start.revision).compactMap { ledger.texts[$0]?.whole }
        let bytes = (missed.bodies + bodies).reduce(0) { $0 + $1.utf8.count }
        let countMax = min(turn.request.limit ?? .max, limits.revisionsPerAnswerMax)
        let isWhole = bodies.count == Int(turn.start.revision - missed.revision)
        let bytesMax = turn.request.takesDelta ? limits.deltaBytesMin : limits.catchUpBytesMax
        guard isWhole, bytes <= bytesMax, missed.bodies.count + bodies.count <= countMax else { throw NotSeparate() }
        return CatchUp(bodies: missed.bodies + bodies, revision: turn.start.revision, hasMore: false)
    }
}
