package import TidemarkCore

/// A request alone in its savepoint: its change sets form runs, and a refused one is refused by itself.
extension GroupRun {
    mutating func answerAlone(_ place: Int) throws -> ZoneResult {
        if case .failure(let error)? = incoming[place] { return .failure(error) }
        let before = ledger
        let zone = zone
        let result = try zone.isolated(alone: group.count == 1 && !hasAbsorbed) { try answerOne(place) }
        guard case .failure(let error) = result else { return result }
        ledger = before
        run = Run(footprint: Footprint(rules))
        guard let error = error as? TidemarkError, let writes = request(at: place)?.writes else { return result }
        return .failure(writes.problem(error))
    }

    mutating func answerOne(_ place: Int) throws -> ZoneAnswer {
        guard let incoming = request(at: place) else {
            // Memory answers a conditional GET, or nobody does.
            if case .news = group[place].kind { return ZoneAnswer(.news(nil)) }
            let text = try ComparisonHandler(limits: limits).handle(group[place].text, in: zone)
            // It may have computed them again.
            ledger.fingerprints = [:]
            return ZoneAnswer(text: text)
        }
        let request = incoming.request
        if let question = request.question {
            let text = try answer(question, of: request, from: incoming.access.caller)
            return ZoneAnswer(text: text, tally: SyncTally(), device: request.device)
        }
        var turn = try begin(incoming, at: place)
        for index in incoming.changeSets.indices { try settle(index, &turn) }
        try writeRun(&turn)
        let answer = try render(turn, missed: turn.missed)
        try keepExchanges()
        return answer
    }

    /// Decides a change set, and lets it join the run of its request, if it can.
    mutating func settle(_ index: Int, _ turn: inout Turn) throws {
        try Self.placing(turn.request.changeSets[index]) {
            if run.ids.contains(turn.request.changeSets[index].id ?? "") { try writeRun(&turn) }
            if try takeStored(index, &turn) { return }
            while true {
                let isFirst = run.isEmpty
                let assigner = ledger.assigner
                if isFirst { run.assigner = assigner }
                do {
                    let decision = try decide(index, turn)
                    if case .accept(let decided) = decision, !isOwnRun(decided) || isFirst {
                        add(decided, index: index, place: 0, to: &turn)
                        if isOwnRun(decided) { try writeRun(&turn) }
                        return
                    }
                    if case .refuse(let reasons) = decision, isFirst { return try refuse(index, for: reasons, &turn) }
                } catch let error where error is NotSeparate || error is TidemarkError {
                    // The server tells the first fault of a request, which an earlier change set may have.
                    if isFirst { throw error }
                }
                // After the write of the others, its facts are others.
                ledger.assigner = assigner
                try writeRun(&turn)
            }
        }
    }

    /// Writes the run of a request; if the database refuses it, writes its change sets one by one.
    mutating func writeRun(_ turn: inout Turn) throws {
        let elements = run.elements
        guard let first = elements.first else { return }
        let zone = zone
        var before = ledger
        before.assigner = run.assigner
        run = Run(footprint: Footprint(rules))
        do {
            let written = try zone.attempt { try write(elements.map(\.decided)) }
            for (element, written) in zip(elements, written) { record(written, of: element.index, &turn) }
        } catch let error where error is NotSeparate || error is Violation {
            ledger = before
            for element in elements { withdraw(element.decided, from: &turn) }
            if elements.count == 1 { return try takeRefusal(error, of: first.index, &turn) }
            for element in elements {
                try settle(element.index, &turn)
                try writeRun(&turn)
            }
        }
    }

    mutating func takeRefusal(_ error: any Error, of index: Int, _ turn: inout Turn) throws {
        switch error {
        case Violation.conflict(let reasons): try refuse(index, for: reasons, &turn)
        case Violation.refusal(let error):
            if planted(PlantedBug.swallowsRefusal) {
                turn.outcomes[index] = SyncHandler.Outcome(body: "{}", revision: nil)
                return
            }
            var placed = error
            placed.place.changeSet = index
            placed.place.id = turn.request.changeSets[index].id
            throw placed
        default: throw error
        }
    }

    mutating func begin(_ incoming: Incoming, at place: Int) throws -> Turn {
        var incoming = incoming
        let request = incoming.request
        let written = ledger.state.revision
        if !request.changeSets.isEmpty, ledger.fingerprints[written] == nil {
            ledger.fingerprints[written] = try zone.fingerprint(at: written)
        }
        let start = upcoming
        try sync.admit(request, from: incoming.access.caller, to: start, knowing: known, in: zone)
        if var writes = incoming.writes {
            let hasVerdict = ledger.facts.verdicts[writes.id] != nil
            try PlanWrites(zone: zone, state: start).find(&writes, hasVerdict: hasVerdict)
            incoming.writes = writes
        }
        let missed = try sync.catchUp(
            request, for: incoming.access, at: start, through: ledger.state.revision, in: zone)
        var clock = HybridClock(last: start.time)
        return Turn(
            incoming: incoming,
            place: place,
            start: start,
            missed: missed,
            stamps: request.changeSets.map {
                sync.stamp(for: $0, of: request, from: incoming.access, clock: &clock, at: now)
            },
            outcomes: request.changeSets.map { _ in nil },
            ids: request.device.flatMap { ledger.facts.permanentIDs[$0] } ?? [:])
    }

    /// Repeats the stored verdict of a change set that was decided before; throws ``NotSeparate`` for one of the run.
    func takeStored(_ index: Int, _ turn: inout Turn) throws -> Bool {
        let envelope = turn.request.changeSets[index]
        guard let id = envelope.id else { return false }
        if run.ids.contains(id) { throw NotSeparate() }
        guard let verdict = ledger.facts.verdicts[id] else { return false }
        if planted(PlantedBug.forgetsVerdictOfSums), turn.incoming.changeSets[index].hasSums { return false }
        // Id and content identify the change set. The sender may have a new device id.
        guard verdict.hash == envelope.hash || planted(PlantedBug.ignoresContentHash),
            sync.isOwn(verdict, of: turn.request, from: turn.incoming.access.caller)
        else {
            throw TidemarkError(
                .changeSetIdReused, "This change set id stands for another content.",
                fix: "Give every change set 128 new random bits as its id.")
        }
        turn.outcomes[index] = SyncHandler.Outcome(body: nil, revision: verdict.revision, storedVerdict: verdict)
        if let revision = verdict.revision { turn.accepted.insert(revision) }
        return true
    }

    mutating func add(_ decided: BuildRevision.Decided, index: Int, place: Int, to turn: inout Turn) {
        run.elements.append(Run.Element(turn: place, index: index, decided: decided))
        run.footprint.add(decided.changeSet)
        run.time = max(run.time, decided.stamp.time)
        if let id = decided.envelope.id {
            run.ids.insert(id)
            turn.ancestors[id] = decided.seen.ancestors
        }
        turn.accepted.insert(decided.revision)
        turn.addedCount += 1
        for assigned in decided.permanentIDs { turn.ids[assigned.name] = assigned.id }
    }

    /// Takes a change set that was not written out of its turn.
    func withdraw(_ decided: BuildRevision.Decided, from turn: inout Turn) {
        if let id = decided.envelope.id { turn.ancestors[id] = nil }
        turn.accepted.remove(contentsOf: decided.revision..<decided.revision + 1)
        turn.addedCount -= 1
        for assigned in decided.permanentIDs { turn.ids[assigned.name] = nil }
    }

    /// Whether a change set is written by itself, because it may change records that it does not name.
    func isOwnRun(_ decided: BuildRevision.Decided) -> Bool {
        hasFarEffects || !decided.overrulings.isEmpty || mayRespell(decided.changeSet)
            || decided.changeSet.records.contains { rules.reachesFar($0.table, $0.operation) }
    }

    mutating func keepExchanges() throws {
        guard !ledger.exchanges.isEmpty else { return }
        var commit = ZoneCommit(zone: ledger.state, at: now)
        commit.exchanges = ledger.exchanges
        try zone.keep(commit)
        ledger.facts.exchanges.merge(ledger.exchanges) { $1 }
        ledger.exchanges = [:]
    }
}

/// The answer to a request whose change sets are written.
extension GroupRun {
    /// Makes the answer, and notes the exchange with the device.
    mutating func render(_ turn: Turn, missed: CatchUp) throws -> ZoneAnswer {
        let request = turn.request
        let outcomes = turn.outcomes.compactMap { $0 }
        if let changeSet = turn.incoming.writes { return try answer(outcomes, to: changeSet, turn) }
        try sync.checkSettled(request, missed, knowing: known, in: zone)
        let last = turn.start.revision + turn.addedCount
        let end = missed.hasMore ? missed.revision : last
        let notes = try notes(for: request, through: end)
        try noteExchange(request, end: end, user: turn.incoming.access.caller.userID)
        let lent = try sync.lend(request, in: zone)
        let canCompare = sync.hasShape(of: turn.start, request)
        let fingerprint = canCompare ? try ledger.fingerprints[end] ?? zone.fingerprint(at: end) : nil
        // Without a fingerprint the device cannot verify its own rows, so it receives whole copies.
        let ids = fingerprint == nil || !notes.isEmpty ? [] : outcomes.compactMap(\.ids)
        let isAsSent = !ids.isEmpty && ids.count == outcomes.count
        let changeSets = isAsSent ? ids : try sync.mergeChangeSets(missed, outcomes, of: request, in: zone)
        // Compact last: the answer may contain revisions before the new horizon.
        try compactLog()
        let answer = SyncAnswer(
            maxRevision: end, zone: turn.start, hasMore: end < last, fingerprint: fingerprint, overruled: notes,
            lent: lent, echo: isAsSent ? .ids : .all, changeSets: changeSets)
        return ZoneAnswer(
            text: answer.text, tally: sync.tally(of: outcomes, lag: turn.start.revision - request.maxRevision),
            device: request.device, revision: end)
    }

    /// Makes the answer to a client without rows: it has missed nothing, and the books keep nothing but its verdict.
    private mutating func answer(_ outcomes: [SyncHandler.Outcome], to changeSet: RecordChangeSet, _ turn: Turn) throws
        -> ZoneAnswer
    {
        let copies = try outcomes.contains { $0.verdict == nil } ? zone.authorsCopies(of: [changeSet.id], .ids) : [:]
        let verdict =
            outcomes.first?.verdict
            ?? copies[changeSet.id].flatMap {
                WriteVerdict(stored: $0, revision: outcomes.first?.revision, of: changeSet)
            }
        guard let verdict else { throw SyncHandler.missingVerdict(turn.request.changeSets[0]) }
        let answers = try AnswerWrites(changeSet: changeSet, zone: zone, state: ledger.state).answers(verdict)
        try compactLog()
        return ZoneAnswer(.writes(answers), tally: sync.tally(of: outcomes, lag: 0))
    }

    private mutating func compactLog() throws {
        guard sync.compactsLog(at: ledger.state) else { return }
        try sync.compact(zone, at: ledger.state)
        ledger.state = try zone.head().state
    }

    /// Returns the notes of the device's overruled values, and forgets those that it has applied.
    private func notes(for request: SyncRequest, through end: Int64) throws -> [String] {
        guard let device = request.device, ledger.facts.devicesWithNotes.contains(device) else { return [] }
        return try zone.overruledNotes(
            device: device, after: request.overruled, through: end, limit: limits.overruledPerAnswerMax)
    }

    /// Notes the exchange with the request's device, which belongs to the request's user from now on.
    private mutating func noteExchange(_ request: SyncRequest, end: Int64, user: String?) throws {
        guard let device = request.device else { return }
        let last = try known.exchange(device)
        if let lap = request.lap {
            ledger.exchanges[device] = Exchange(lap: lap.next, revision: end, user: last?.user ?? user)
        } else if let user, last?.user == nil {
            ledger.exchanges[device] = Exchange(lap: last?.lap ?? "", revision: last?.revision ?? end, user: user)
        }
    }
}

package struct SyncAnswer: Hashable, Sendable {
    /// The device's revision after it applies the answer.
    package let maxRevision: Int64
    package let zone: ZoneState
    package let hasMore: Bool
    /// The fingerprint of the zone's rows at ``maxRevision``, if it is known.
    package let fingerprint: Fingerprint?
    /// Notes of overruled values, JSON each.
    package var overruled: [String] = []
    /// The ids that the device is lent, by table.
    package var lent: [String: [LentIDs]] = [:]
    /// How much of the device's own change sets the answer repeats.
    package var echo = SyncRequest.Echo.all
    /// The change sets, JSON each, in the order in which they are applied.
    package let changeSets: [String]

    package var text: String {
        let notes = overruled.isEmpty ? "" : #""overruled":[\#(overruled.joined(separator: ","))],"#
        let fingerprintMember = fingerprint.map { #""fingerprint":"\#($0)","# } ?? ""
        let lent = lent.isEmpty ? "" : #""lent":{\#(lentMembers.joined(separator: ","))},"#
        let echo =
            switch echo {
            case .all: ""
            case .ids: #""echo":"ids","#
            }
        return #"{"maxRevision":\#(maxRevision),"epoch":"\#(zone.epoch)","schema":"\#(zone.schema)","#
            + #""more":\#(hasMore),\#(echo)\#(fingerprintMember)\#(notes)\#(lent)"#
            + #""changeSets":[\#(changeSets.joined(separator: ","))]}"#
    }

    /// Each table's lent ids: arrays of first, last, stride and width.
    private var lentMembers: [String] {
        lent.sorted { $0.key < $1.key }.map { table, ids in
            let list = ids.map { "[\($0.first),\($0.last),\($0.stride),\($0.width)]" }.joined(separator: ",")
            return "\(JSONText.quote(table)):[\(list)]"
        }
    }
}
