import TidemarkCore

/// A request alone in its savepoint: its change sets form runs, and a refused one is refused by itself.
extension GroupRun {
    // MARK: A request alone

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
                    if case .refuse(let reasons) = decision, isFirst {
                        return try refuse(index, for: reasons, &turn)
                    }
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

    /// Refuses a change set that the database has refused.
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

    // MARK: Turns

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
            request,
            at: start,
            through: ledger.state.revision,
            in: zone
        )
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
            ids: request.device.flatMap { ledger.facts.permanentIDs[$0] } ?? [:]
        )
    }

    /// Repeats the stored verdict of a change set that was decided before.
    ///
    /// - Throws: ``NotSeparate`` for a change set of the run.
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
                .changeSetIdReused,
                "This change set id stands for another content.",
                fix: "Give every change set 128 new random bits as its id."
            )
        }
        turn.outcomes[index] = SyncHandler.Outcome(body: nil, revision: verdict.revision, storedVerdict: verdict)
        if let revision = verdict.revision { turn.accepted.append(revision) }
        return true
    }

    /// Adds an accepted change set to the run.
    mutating func add(
        _ decided: BuildRevision.Decided,
        index: Int,
        place: Int,
        to turn: inout Turn
    ) {
        run.elements.append(Run.Element(turn: place, index: index, decided: decided))
        run.footprint.add(decided.changeSet)
        run.time = max(run.time, decided.stamp.time)
        if let id = decided.envelope.id {
            run.ids.insert(id)
            turn.ancestors[id] = decided.ancestors + [decided.revision]
        }
        turn.accepted.append(decided.revision)
        turn.addedCount += 1
        for assigned in decided.permanentIDs { turn.ids[assigned.name] = assigned.id }
    }

    /// Takes a change set that was not written out of its turn.
    func withdraw(_ decided: BuildRevision.Decided, from turn: inout Turn) {
        if let id = decided.envelope.id { turn.ancestors[id] = nil }
        turn.accepted.removeAll { $0 == decided.revision }
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
