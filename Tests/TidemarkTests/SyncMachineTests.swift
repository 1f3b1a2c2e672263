import Testing
import TidemarkCore

@testable import Tidemark

/// A sync's next state and action, for every state and every event.
@Suite struct SyncMachineTests {
    private static let file = FileState(
        device: "d", user: nil, epoch: "e", revision: 7, laps: Laps(last: nil, open: "[]"))
    private static let otherFile = FileState(
        device: "d", user: nil, epoch: "e", revision: 8, laps: Laps(last: nil, open: "[]"))
    static let keptRows = SyncMachine.KeptRows(revision: 9, schema: "s")
    private static let recall = Recall(
        isAboutOther: false, epoch: "e", lastRevision: nil, knownIDs: [], changeSets: "[]", unchangedIDs: [],
        overruled: "[]")

    static func facts(
        _ state: FileState = file, needsSnapshot: Bool = false, tables: SyncMachine.Tables = .zones,
        rebuilt: CompareRebuilt.Waiting = .none
    ) -> SyncMachine.FileFacts {
        SyncMachine.FileFacts(
            state: state, revision: 7, needsSnapshot: needsSnapshot, tables: tables, rebuilt: rebuilt)
    }

    static func request(_ changeSets: [String] = ["a"], isShort: Bool = false, pushed: Bool = false)
        -> DeviceCore.Outgoing
    {
        let tag = ZoneTag(epoch: "e", schema: "s", revision: 7, fingerprint: .none)
        return DeviceCore.Outgoing(
            zone: "z", body: [],
            conditionalGet: isShort ? DeviceCore.ConditionalGet(device: "d", tag: tag, nothingNew: []) : nil,
            pushedAnswer: pushed ? [] : nil, revision: 7, changeSets: changeSets, takesIds: true,
            exchange: .lap("l"), isConfirmed: false)
    }

    static func error(_ code: ErrorCode, about id: String? = nil) -> TidemarkError {
        TidemarkError(code, "", fix: "", place: .init(id: id))
    }

    static func failed(
        _ code: ErrorCode, about id: String? = nil, _ request: DeviceCore.Outgoing = request(), isOpen: Bool = true
    ) -> SyncMachine.Event {
        .failed(error(code, about: id), .request(request, isOpen: isOpen), at: 7)
    }

    static func answer(
        _ outcome: ApplyResult.Outcome = .applied, hasMore: Bool = false, hasPending: Bool = false, settled: Int = 0,
        hasRebuilt: Bool = false, sent: Int = 0, made: Bool = false, revision: Int64 = 7
    ) -> SyncMachine.Event {
        let applied = ApplyResult(
            revision: revision, hasMore: hasMore, settledCount: settled, hasPending: hasPending, outcome: outcome,
            hasRebuilt: hasRebuilt)
        return .answered(applied, sent: sent, made: made)
    }

    // MARK: States

    /// How a sync gets into each state.
    private static let starts: [(name: String, events: [SyncMachine.Event])] = [
        ("sending", []), ("receiving", [answer(hasMore: true)]),
        ("approaching", [.file(facts(rebuilt: .unkeyed)), .keptRows(keptRows)]),
        ("recalling verdicts", [failed(.snapshotRequired), .unanswered]),
        ("recalling history", [failed(.revisionAhead)]),
        ("fetching a snapshot", [failed(.snapshotRequired)]),
        ("fetching a snapshot after a recall", [failed(.revisionAhead), .file(facts()), .recalled(recall)]),
        ("fetching rows", [.file(facts(rebuilt: .unkeyed))]),
        (
            "fetching rows, and has some",
            [.file(facts(rebuilt: .unkeyed)), .keptRows(keptRows), answer(hasRebuilt: true, revision: 9)]
        ), ("fetching the schema", [answer(.needsSchema)]),
        ("sending, behind a comparison", [failed(.fingerprintMismatch)]),
        ("sending, beside a comparison", [failed(.fingerprintMismatch), .file(facts()), answer()]),
        ("confirming", deletion.map { [.suspected($0)] } ?? []), ("even", [answer()]),
        ("left", [.left(error(.accessRevoked))]),
    ]

    static let deletion = MassDeletion([("notes", 90)], of: 100, limits: .standard)

    private static func name(of machine: SyncMachine) -> String {
        switch machine.aim {
        case .exchange: name(of: machine.state)
        case .comparison(_, .behind): name(of: machine.state) + ", behind a comparison"
        case .comparison(_, .level): name(of: machine.state) + ", beside a comparison"
        }
    }

    private static func name(of state: SyncMachine.State) -> String {
        switch state {
        case .exchanging(.sending): "sending"
        case .exchanging(.receiving): "receiving"
        case .exchanging(.approaching): "approaching"
        case .recalling(.verdicts, _): "recalling verdicts"
        case .recalling(.history, _): "recalling history"
        case .fetchingSnapshot(let recall, _):
            recall == nil ? "fetching a snapshot" : "fetching a snapshot after a recall"
        case .fetchingRows(nil): "fetching rows"
        case .fetchingRows: "fetching rows, and has some"
        case .fetchingSchema: "fetching the schema"
        case .confirming(let then): "confirming, then \(name(of: then))"
        case .even: "even"
        case .left: "left"
        }
    }

    private static func name(of action: SyncMachine.Action) -> String {
        switch action {
        case .exchange: "exchange"
        case .recall: "recall"
        case .fetchSnapshot(let asDelta): asDelta ? "fetch a delta" : "fetch a snapshot"
        case .fetchRows: "fetch rows"
        case .fetchSchema: "fetch the schema"
        case .confirm: "confirm"
        case .compare: "compare"
        case .proceed: "proceed"
        case .finish: "finish"
        case .fail(let error): "fail with \(error.code.rawValue)"
        case .giveUp: "give up"
        case .divide: "divide"
        case .park: "park"
        case .mend: "mend"
        case .renewIdentity: "renew the identity"
        case .leave: "leave"
        case .checkFile: "check the file"
        case .replaceRows: "replace rows"
        }
    }

    // MARK: Events

    private static let events: [(name: String, event: SyncMachine.Event)] = [
        ("a step begins", .file(facts())),
        ("a step begins, and the file lacks rows", .file(facts(needsSnapshot: true))),
        ("a step begins, and the tables cannot sync", .file(facts(tables: .unfit))),
        ("a step begins, and tables without a key are rebuilt", .file(facts(rebuilt: .unkeyed))),
        ("a step begins, and tables with a key are rebuilt", .file(facts(rebuilt: .keyed))),
        ("a step begins after another process", .file(facts(otherFile))), ("verdicts may be lost", .unanswered),
        ("an answer, and all is equal", answer()), ("an answer, and more follows", answer(hasMore: true)),
        ("an answer, and change sets wait", answer(hasPending: true, settled: 1, sent: 1)),
        ("an answer without a verdict", answer(hasPending: true, sent: 1)),
        ("an answer, and new change sets were made", answer(made: true)),
        ("an answer, and rebuilt tables wait", answer(hasRebuilt: true)),
        ("an answer at the revision of kept rows", answer(hasMore: true, hasRebuilt: true, revision: 9)),
        ("an answer that was overtaken", answer(.overtaken)), ("an answer of other tables", answer(.needsSchema)),
        ("ids that do not suffice", answer(.needsRows)),
        ("an answer would delete much", deletion.map(SyncMachine.Event.suspected) ?? .unanswered),
        ("the server confirms", .confirmed(revision: 7, .none)), ("the server recalls", .recalled(recall)),
        ("a comparison asks", .questioned(comparison)), ("a comparison goes on", .compared(comparison, .level)),
        ("a comparison is done", .compared(doneComparison, .level)), ("a snapshot is taken", .tookSnapshot(.applied)),
        ("a snapshot is overtaken", .tookSnapshot(.overtaken)),
        ("a snapshot needs histories", .tookSnapshot(.needsHistories)), ("rows are kept", .keptRows(keptRows)),
        ("kept rows are lost", .lostKeptRows), ("rebuilt tables are compared", .comparedRebuilt),
        ("rows with a key are outdated", .outdatedRows(.keyed)),
        ("rows without a key are outdated", .outdatedRows(.unkeyed)), ("the schema is taken", .tookSchema),
        ("conflicts are merged", .merged), ("the zone has left", .left(error(.accessRevoked))),
        ("the server wants a snapshot", failed(.snapshotRequired)),
        ("the history is another one", failed(.revisionAhead)),
        ("the history is another one, and the request outdated", failed(.revisionAhead, isOpen: false)),
        ("the identity is another user's", failed(.deviceTaken)), ("the access has ended", failed(.accessRevoked)),
        ("the rows differ", failed(.fingerprintMismatch)),
        ("a change set is refused", failed(.invalidValue, about: "a")),
        ("a request is refused", failed(.invalidValue)), ("the network fails", failed(.unreachable)),
        ("an answer cannot be applied", .failed(Answer.inapplicable("x"), .request(request(), isOpen: true), at: 7)),
        ("a pushed answer is none", failed(.invalidResponse, request(pushed: true))),
        ("a short request is refused", failed(.fullRequestRequired, request([], isShort: true))),
        ("several change sets are too large", failed(.tooLarge, request(["a", "b"]))),
        ("one change set is too large", failed(.tooLarge)),
        ("a change set cannot be sent", .failed(error(.serverBehind, about: "a"), .other, at: 7)),
        ("a history is not told", .failed(error(.unknownPath), .history(question), at: 7)),
    ]

    static let comparison = RowComparison(limits: .standard, replaces: true)
    static let doneComparison = RowComparison(limits: .standard, replaces: true, open: [])
    private static let question = HistoryQuestion(zone: "z", table: "t", key: "1", path: "1", since: 3)

    private static func outcome(of event: SyncMachine.Event, after events: [SyncMachine.Event]) -> String {
        var machine = SyncMachine(
            for: .sync(acceptingMassDeletion: false), sendsConditionalGet: true, limits: .standard)
        for event in events { _ = machine.received(event) }
        let before = (state: name(of: machine), others: variables(of: machine))
        let action = name(of: machine.received(event))
        let after = name(of: machine)
        let changes = zip(before.others, variables(of: machine)).filter { $0 != $1 }.map(\.1)
        return ([action + (after == before.state ? "" : " -> \(after)")] + changes).joined(separator: "; ")
    }

    /// The variables of a machine beside its state, in words.
    private static func variables(of machine: SyncMachine) -> [String] {
        let consent =
            switch machine.consent {
            case .none: "none"
            case .confirmed: "confirmed"
            case .approved: "approved"
            }
        let shortRequest =
            switch machine.shortRequest {
            case .allowed: "allowed"
            case .answered: "answered"
            case .withheld: "withheld"
            }
        return [
            "rows \(machine.trust)", "echo of \(machine.echo)", "consent \(consent)", "short requests \(shortRequest)",
            "missing rows \(machine.missingRows)", "at most \(machine.changeSetsMax) change sets",
            "verified: \(machine.verification != nil)",
        ] + Attempts.Kind.allCases.map { "\(machine.attempts.count($0)) tries of \($0)" }
    }

    /// The outcomes of an event, a line each with the states in which it has that outcome; the most common one last.
    private static func outcomes(of event: SyncMachine.Event) -> [String] {
        var states: [String: [String]] = [:]
        var order: [String] = []
        for (start, events) in starts {
            let text = outcome(of: event, after: events)
            if states[text] == nil { order.append(text) }
            states[text, default: []].append(start)
        }
        let count = { (text: String) in states[text]?.count ?? 0 }
        guard let common = order.max(by: { count($0) < count($1) }) else { return [] }
        let others = order.filter { $0 != common }.map { "  \(states[$0, default: []].joined(separator: ", ")): \($0)" }
        return others + ["  \(others.isEmpty ? "any" : "any other"): \(common)"]
    }

    @Test(arguments: events.map(\.name)) func `every state meets every event`(name: String) throws {
        let event = try #require(Self.events.first { $0.name == name }?.event)
        var table: [String: [String]] = [:]
        var last = ""
        for line in Self.table.split(separator: "\n").map(String.init) {
            if line.hasPrefix("  ") { table[last, default: []].append(line) } else { last = line }
        }
        #expect(Self.outcomes(of: event) == table[name])
    }

    private static let table = """
        a step begins
          approaching: exchange -> sending
          recalling verdicts, recalling history: recall
          fetching a snapshot, fetching a snapshot after a recall: fetch a delta
          fetching rows, fetching rows, and has some: fetch rows
          fetching the schema: fetch the schema
          sending, beside a comparison: compare
          confirming: confirm
          even: finish
          left: fail with accessRevoked
          any other: exchange
        a step begins, and the file lacks rows
          recalling verdicts, recalling history: recall
          fetching a snapshot, fetching a snapshot after a recall: fetch a delta
          fetching rows, fetching rows, and has some: fetch rows
          fetching the schema: fetch the schema
          sending, behind a comparison: fetch a snapshot -> fetching a snapshot, behind a comparison
          sending, beside a comparison: compare
          confirming: confirm
          even: finish
          left: fail with accessRevoked
          any other: fetch a delta -> fetching a snapshot
        a step begins, and the tables cannot sync
          recalling verdicts, recalling history: recall
          fetching a snapshot, fetching a snapshot after a recall: fetch a delta
          fetching rows, fetching rows, and has some: fetch rows
          fetching the schema: fetch the schema
          sending, behind a comparison: fetch the schema -> fetching the schema, behind a comparison; 1 tries of \
        schema
          sending, beside a comparison: fetch the schema -> fetching the schema, beside a comparison; 1 tries of \
        schema
          confirming: confirm
          even: finish
          left: fail with accessRevoked
          any other: fetch the schema -> fetching the schema; 1 tries of schema
        a step begins, and tables without a key are rebuilt
          recalling verdicts, recalling history: recall
          fetching a snapshot, fetching a snapshot after a recall: fetch a delta
          fetching rows, fetching rows, and has some: fetch rows
          fetching the schema: fetch the schema
          sending, behind a comparison: fetch rows -> fetching rows, behind a comparison
          sending, beside a comparison: fetch rows -> fetching rows, beside a comparison
          confirming: confirm
          even: finish
          left: fail with accessRevoked
          any other: fetch rows -> fetching rows
        a step begins, and tables with a key are rebuilt
          recalling verdicts, recalling history: recall
          fetching a snapshot, fetching a snapshot after a recall: fetch a delta
          fetching rows, fetching rows, and has some: fetch rows
          fetching the schema: fetch the schema
          confirming: confirm
          even: finish
          left: fail with accessRevoked
          any other: exchange
        a step begins after another process
          approaching, fetching a snapshot after a recall: exchange -> sending
          recalling verdicts, recalling history: recall
          fetching a snapshot: fetch a delta
          fetching rows, fetching rows, and has some: fetch rows
          fetching the schema: fetch the schema
          sending, beside a comparison: compare
          confirming: confirm
          even: finish
          left: fail with accessRevoked
          any other: exchange
        verdicts may be lost
          fetching a snapshot, fetching a snapshot after a recall: recall -> recalling verdicts
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer, and all is equal
          sending, receiving, approaching: proceed -> even
          sending, behind a comparison: proceed -> sending, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer, and more follows
          sending: proceed -> receiving
          sending, behind a comparison, sending, beside a comparison: proceed -> receiving, behind a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer, and change sets wait
          receiving: proceed -> sending
          sending, behind a comparison: proceed -> sending, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer without a verdict
          sending, approaching: fail with invalidResponse
          receiving: fail with invalidResponse -> sending
          sending, behind a comparison: proceed -> sending, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer, and new change sets were made
          receiving: proceed -> sending
          sending, behind a comparison: proceed -> sending, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer, and rebuilt tables wait
          sending, receiving: proceed -> fetching rows
          approaching: proceed -> fetching rows, and has some
          sending, behind a comparison, sending, beside a comparison: proceed -> fetching rows, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer at the revision of kept rows
          sending: proceed -> receiving
          approaching: proceed -> fetching rows, and has some
          sending, behind a comparison, sending, beside a comparison: proceed -> receiving, behind a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer that was overtaken
          receiving: proceed -> sending
          sending, beside a comparison: proceed -> sending, behind a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer of other tables
          sending, receiving, approaching: fetch the schema -> fetching the schema; 1 tries of schema
          sending, behind a comparison, sending, beside a comparison: fetch the schema -> fetching the schema, \
        behind a comparison; 1 tries of schema
          even: finish
          left: fail with accessRevoked
          any other: proceed
        ids that do not suffice
          sending, approaching, sending, behind a comparison: proceed; echo of all
          receiving: proceed -> sending; echo of all
          sending, beside a comparison: proceed -> sending, behind a comparison; echo of all
          even: finish
          left: fail with accessRevoked
          any other: proceed
        an answer would delete much
          sending: proceed -> confirming, then sending; 1 tries of confirmation
          receiving: proceed -> confirming, then receiving; 1 tries of confirmation
          approaching: proceed -> confirming, then approaching; 1 tries of confirmation
          fetching a snapshot: proceed -> confirming, then fetching a snapshot; 1 tries of confirmation
          fetching a snapshot after a recall: proceed -> confirming, then fetching a snapshot after a recall; 1 \
        tries of confirmation
          sending, behind a comparison: proceed -> confirming, then sending, behind a comparison; 1 tries of \
        confirmation
          sending, beside a comparison: proceed -> confirming, then sending, beside a comparison; 1 tries of \
        confirmation
          even: finish
          left: fail with accessRevoked
          any other: proceed
        the server confirms
          confirming: proceed -> sending; consent confirmed
          even: finish
          left: fail with accessRevoked
          any other: proceed
        the server recalls
          recalling verdicts, recalling history: proceed -> fetching a snapshot after a recall
          even: finish
          left: fail with accessRevoked
          any other: proceed
        a comparison asks
          sending, behind a comparison: proceed -> sending, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        a comparison goes on
          sending, behind a comparison: proceed -> sending, beside a comparison
          even: finish
          left: fail with accessRevoked
          any other: proceed
        a comparison is done
          sending, behind a comparison, sending, beside a comparison: proceed -> sending; rows confirmed; verified: \
        true
          even: finish
          left: fail with accessRevoked
          any other: proceed
        a snapshot is taken
          fetching a snapshot, fetching a snapshot after a recall: proceed -> sending
          even: finish
          left: fail with accessRevoked
          any other: proceed
        a snapshot is overtaken
          fetching a snapshot, fetching a snapshot after a recall: proceed -> sending
          even: finish
          left: fail with accessRevoked
          any other: proceed
        a snapshot needs histories
          fetching a snapshot, fetching a snapshot after a recall: proceed; missing rows taken
          even: finish
          left: fail with accessRevoked
          any other: proceed
        rows are kept
          fetching rows, fetching rows, and has some: proceed -> approaching
          even: finish
          left: fail with accessRevoked
          any other: proceed
        kept rows are lost
          fetching rows, and has some: proceed -> fetching rows
          even: finish
          left: fail with accessRevoked
          any other: proceed
        rebuilt tables are compared
          fetching rows, fetching rows, and has some: proceed -> sending
          even: finish
          left: fail with accessRevoked
          any other: proceed
        rows with a key are outdated
          fetching rows, fetching rows, and has some: proceed -> sending; 1 tries of outdatedRows
          even: finish
          left: fail with accessRevoked
          any other: proceed
        rows without a key are outdated
          fetching rows, fetching rows, and has some: replace rows -> sending; 1 tries of outdatedRows
          even: finish
          left: fail with accessRevoked
          any other: proceed
        the schema is taken
          fetching the schema: proceed -> sending
          even: finish
          left: fail with accessRevoked
          any other: proceed
        conflicts are merged
          even: proceed -> sending
          left: fail with accessRevoked
          any other: proceed
        the zone has left
          sending, behind a comparison: proceed -> left, behind a comparison
          sending, beside a comparison: proceed -> left, beside a comparison
          left: fail with accessRevoked
          any other: proceed -> left
        the server wants a snapshot
          recalling verdicts, recalling history, fetching a snapshot after a recall: proceed -> fetching a snapshot; \
        2 tries of snapshot
          fetching a snapshot: proceed; 2 tries of snapshot
          even: fail with snapshotRequired
          left: fail with accessRevoked
          any other: proceed -> fetching a snapshot; 1 tries of snapshot
        the history is another one
          recalling verdicts, fetching a snapshot, fetching a snapshot after a recall: proceed -> recalling history; \
        2 tries of snapshot
          recalling history: proceed; 2 tries of snapshot
          even: fail with revisionAhead
          left: fail with accessRevoked
          any other: proceed -> recalling history; 1 tries of snapshot
        the history is another one, and the request outdated
          even: fail with revisionAhead
          left: fail with accessRevoked
          any other: proceed
        the identity is another user's
          recalling verdicts, fetching a snapshot, fetching a snapshot after a recall: renew the identity -> \
        recalling history; 2 tries of snapshot
          recalling history: renew the identity; 2 tries of snapshot
          even: fail with deviceTaken
          left: fail with accessRevoked
          any other: renew the identity -> recalling history; 1 tries of snapshot
        the access has ended
          even, left: fail with accessRevoked
          any other: leave
        the rows differ
          receiving: proceed -> receiving, behind a comparison; rows differing; 1 tries of comparison
          approaching: proceed -> approaching, behind a comparison; rows differing; 1 tries of comparison
          recalling verdicts: proceed -> recalling verdicts, behind a comparison; rows differing; 1 tries of \
        comparison
          recalling history: proceed -> recalling history, behind a comparison; rows differing; 1 tries of comparison
          fetching a snapshot: proceed -> fetching a snapshot, behind a comparison; rows differing; 1 tries of \
        comparison
          fetching a snapshot after a recall: proceed -> fetching a snapshot after a recall, behind a comparison; \
        rows differing; 1 tries of comparison
          fetching rows: proceed -> fetching rows, behind a comparison; rows differing; 1 tries of comparison
          fetching rows, and has some: proceed -> fetching rows, and has some, behind a comparison; rows differing; \
        1 tries of comparison
          fetching the schema: proceed -> fetching the schema, behind a comparison; rows differing; 1 tries of \
        comparison
          sending, behind a comparison: proceed; 2 tries of comparison
          sending, beside a comparison: proceed -> sending, behind a comparison; 2 tries of comparison
          confirming: proceed -> confirming, then sending, behind a comparison; rows differing; 1 tries of comparison
          even: fail with fingerprintMismatch
          left: fail with accessRevoked
          any other: proceed -> sending, behind a comparison; rows differing; 1 tries of comparison
        a change set is refused
          even: fail with invalidValue
          left: fail with accessRevoked
          any other: park
        a request is refused
          left: fail with accessRevoked
          any other: fail with invalidValue
        the network fails
          left: fail with accessRevoked
          any other: fail with unreachable
        an answer cannot be applied
          even: fail with invalidResponse
          left: fail with accessRevoked
          any other: check the file; short requests withheld; 1 tries of inapplicableAnswer
        a pushed answer is none
          even: fail with invalidResponse
          left: fail with accessRevoked
          any other: proceed
        a short request is refused
          even: fail with fullRequestRequired
          left: fail with accessRevoked
          any other: proceed; short requests withheld
        several change sets are too large
          even: fail with tooLarge
          left: fail with accessRevoked
          any other: proceed; at most 1 change sets
        one change set is too large
          even: fail with tooLarge
          left: fail with accessRevoked
          any other: divide; at most 1 change sets
        a change set cannot be sent
          even: fail with serverBehind
          left: fail with accessRevoked
          any other: mend
        a history is not told
          even: fail with unknownPath
          left: fail with accessRevoked
          any other: give up
        """

    @Test func `the steps that reach each state do`() {
        for (start, events) in Self.starts {
            var machine = SyncMachine(
                for: .sync(acceptingMassDeletion: false), sendsConditionalGet: true, limits: .standard)
            for event in events { _ = machine.received(event) }
            #expect(Self.name(of: machine).hasPrefix(start))
        }
    }
}
