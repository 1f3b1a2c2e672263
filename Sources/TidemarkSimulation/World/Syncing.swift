import GRDB
import Tidemark
import TidemarkCore
import TidemarkHistory
import TidemarkSQL

/// The shell of a sync, as `SyncEngine` is in the product: it carries out the machine's requests,
/// one event for each step.
extension World {
    /// Begins a sync in a process, unless one of its own is under way.
    func beginSync(_ device: SimulatedDevice, process: Int) throws -> Bool {
        guard device.processes[process].round == nil else { return false }
        counters[.syncs] += 1
        note("\(device.name) begins a sync\(process == 0 ? "" : " in another process")")
        device.startRound(process)
        return try advance(device, process)
    }

    /// Carries out the machine's next request.
    func advance(_ device: SimulatedDevice, _ process: Int) throws -> Bool {
        guard device.processes[process].round != nil else { return false }
        let step: SyncRound.Step?
        drawDiskFault(device)
        do {
            step = try device.step(process) { try $0.next($1) }
            try recorder.stepped(device, "prepare")
        } catch let error as TidemarkError { return try fail(device, process: process, error: error, during: nil) }
        switch step {
        case nil: return false
        case .finish:
            note("\(device.name) is even")
            device.endRound(process)
        case .send(let outgoing) where outgoing.pushedAnswer != nil:
            applyPushedAnswer(outgoing, device: device, process: process)
        case .send(let outgoing):
            requests += 1
            trace.add(outgoing.body)
            let short = outgoing.conditionalGet.map { " in short, \($0.tag.entityTag)" } ?? ""
            note(
                "\(device.name) sends request \(requests)\(short)",
                ": \(String(decoding: outgoing.body, as: UTF8.self))")
            device.processes[process].exchange = (requests, outgoing)
            try recorder.recordRequest(outgoing.body, by: device, number: requests)
            send(outgoing, from: device, process: process, number: requests)
        case .compare(let question): try compare(question, device: device, process: process)
        case .fetchSnapshot(_, let base): try fetchSnapshot(device, process, since: base)
        case .fetchSchema: try fetchSchema(device, process)
        case .askHistory(let question): try ask(question, device: device, process: process)
        }
        return true
    }

    /// Delivers an answer to a process, or a timeout.
    func answered(_ message: Message, _ answer: Result<[UInt8], TidemarkError>) throws -> Bool {
        let device = self[message.device]
        guard let exchange = device.processes[message.process].exchange, exchange.number == message.number else {
            return false
        }
        // The run's history forgets everything that the server has forgotten since.
        if case .success = answer, message.history != counters[.restores] { return false }
        counters[.answers] += 1
        device.processes[message.process].exchange = nil
        decisions.begin(.carry)
        drawDiskFault(device)
        do {
            let body = try answer.get()
            note("\(device.name) takes in answer \(message.number)")
            if !message.isCut, exchange.outgoing.pushedAnswer == nil {
                try recorder.take(.delivered(device: device.name, request: message.number))
            }
            let events = try device.step(message.process) { try $0.applyAnswer(body, to: exchange.outgoing, in: $1) }
            try count(events ?? [], body)
            if exchange.outgoing.pushedAnswer != nil { counters[.pushedChanges] += 1 }
            try recorder.stepped(device, "apply", events: events ?? [])
        } catch let error as TidemarkError {
            guard message.isCut || error.code != .invalidResponse else {
                throw Finding("I10", actor: device.name, detail: "refuses an answer that came whole: \(error)")
            }
            return try fail(device, process: message.process, error: error, during: .send(exchange.outgoing))
        }
        continueSync(device, message.process)
        return true
    }

    /// An error ends the sync, or the machine goes on with another step.
    private func fail(
        _ device: SimulatedDevice, process: Int, error: TidemarkError, during step: SyncRound.Step?
    ) throws -> Bool {
        note("\(device.name) hears \(error.code.rawValue)", ": \(error)")
        // Nothing else writes behind the triggers' back here, so an alarm is false or shows a defect.
        guard error.code != .fingerprintMismatch || options.profile.followsFates else {
            throw Finding("rule 17", actor: device.name, detail: error.message)
        }
        do {
            let events = try device.step(process) { try $0.handle(error, during: step, in: $1) }
            try count(events ?? [], [])
            try recorder.stepped(device, "park", events: events ?? [])
            continueSync(device, process)
        } catch let error as TidemarkError {
            _ = try device.step(process) { try $0.end(in: $1) }
            try recorder.stepped(device, "end")
            device.endRound(process)
            counters[.retries] += 1
            guard Self.expectedEnds.contains(error.code) else {
                throw Finding("live", actor: device.name, detail: "a sync ends with \(error)")
            }
        }
        return true
    }

    /// The errors that may end a sync without a fault.
    private static let expectedEnds: Set<ErrorCode> = [
        .unreachable, .invalidResponse, .unavailable, .predecessorMissing, .syncInProgress,
    ]

    private func continueSync(_ device: SimulatedDevice, _ process: Int) {
        let life = device.processes[process].life
        schedule(.advance(device: device.number, process: process, life: life), after: drawDelay(50_000))
    }

    private func count(_ events: [DeviceEvent], _ body: [UInt8]) throws {
        for case .conflict(let id) in events {
            counters[.conflicts] += 1
            note("change set \(id) is a conflict")
        }
        if body.contain(Self.moreMark) { counters[.pages] += 1 }
    }

    private static let moreMark = Array(#""more":true"#.utf8)

    // MARK: Comparisons

    /// Compares rows at the server before a device deletes many of its own.
    private func compare(_ question: RowComparison.Question, device: SimulatedDevice, process: Int) throws {
        decisions.begin(.carry)
        guard device.isReachable, server.isUp else {
            _ = try fail(device, process: process, error: Self.unreachable, during: nil)
            return
        }
        do {
            let answer = try server.compare(question.body)
            try recorder.served(server, request: nil, .success(nil))
            let events = try device.step(process) { try $0.applyComparison(answer, to: question, in: $1) }
            try count(events ?? [], [])
            try recorder.stepped(device, "compare", events: events ?? [])
            continueSync(device, process)
        } catch let error as TidemarkError { _ = try fail(device, process: process, error: error, during: nil) }
    }

    // MARK: Snapshots

    private func fetchSnapshot(_ device: SimulatedDevice, _ process: Int, since base: DeltaBase?) throws {
        decisions.begin(.carry)
        guard device.isReachable, server.isUp else {
            _ = try fail(device, process: process, error: Self.unreachable, during: nil)
            return
        }
        counters[.snapshots] += 1
        note("\(device.name) takes a snapshot")
        let name = "snapshot-\(device.number)"
        try storage.remove(name)
        let keeper = try storage.open(name)
        try server.snapshot(to: storage.path(of: name))
        try recorder.served(server, request: nil, .success(nil))
        try keeper.writeWithoutTransaction { try recorder.madeSnapshot($0) }
        // All rows and a delta must lead to the same result.
        let delta = "delta-\(device.number)"
        try storage.remove(delta)
        let deltaKeeper = try storage.open(delta)
        let isDelta = try base.map { try server.delta(since: $0, to: storage.path(of: delta)) } ?? false
        if isDelta { counters[.deltas] += 1 }
        var failure: TidemarkError?
        do {
            let path = storage.path(of: isDelta ? delta : name)
            let events = try device.step(process) { try $0.applySnapshot(at: path, in: $1) }
            try count(events ?? [], [])
            try recorder.stepped(device, "snapshot", events: events ?? [])
        } catch let error as TidemarkError { failure = error }
        try keeper.close()
        try deltaKeeper.close()
        try storage.remove(name)
        try storage.remove(delta)
        if let failure {
            _ = try fail(device, process: process, error: failure, during: nil)
        } else {
            continueSync(device, process)
        }
    }

    private func fetchSchema(_ device: SimulatedDevice, _ process: Int) throws {
        decisions.begin(.carry)
        guard device.isReachable, server.isUp else {
            _ = try fail(device, process: process, error: Self.unreachable, during: nil)
            return
        }
        note("\(device.name) asks for the schema")
        let text = #"{"tables":\#(try SchemaText.encode(server.schema))}"#
        _ = try device.step(process) { try $0.applySchema(Array(text.utf8), in: $1) }
        try recorder.stepped(device, "schema")
        continueSync(device, process)
    }

    private func ask(_ question: HistoryQuestion, device: SimulatedDevice, process: Int) throws {
        decisions.begin(.carry)
        guard device.isReachable, server.isUp else {
            _ = try fail(device, process: process, error: Self.unreachable, during: .askHistory(question))
            return
        }
        note("\(device.name) asks for the history of \(question.table) \(question.key)")
        do {
            let answer = try server.history(of: question)
            try recorder.served(server, request: nil, .success(nil))
            let events = try device.step(process) { try $0.applyHistory(answer, to: question, in: $1) }
            try count(events ?? [], [])
            try recorder.stepped(device, "history", events: events ?? [])
            continueSync(device, process)
        } catch let error as TidemarkError {
            _ = try fail(device, process: process, error: error, during: .askHistory(question))
        }
    }

    /// Joins a new device.
    func join() throws {
        let number = devices.count + 1
        let virtual = VirtualEnvironment(seed: options.seed &* 1_000 &+ UInt64(number))
        virtual.advance(to: now)
        note("device \(number) joins")
        try storage.remove("device-\(number)")
        let file = try storage.open("device-\(number)")
        try server.absorb()
        try recorder.served(server, request: nil, .success(nil))
        try FileTemplates.join(
            file, zone: storage.path(of: SimulatedServer.fileName), schema: server.schema,
            through: "snapshot-\(number)", in: storage, virtual, inspect: { try recorder.madeSnapshot($0) })
        try file.close()
        try add(number, virtual)
    }

    // MARK: Conflicts

    /// Decides a conflict, as a user does.
    ///
    /// A conflict is retried only when it is alone. A retry gives a record a new id, which goes
    /// into the other parked sets, and the history has no event for that.
    func resolve(_ id: String, on device: SimulatedDevice, retries: Bool) throws {
        if options.profile.followsFates { return try decide(id, on: device, retries: retries) }
        let retries = try retries && device.waiting().conflicts == 1
        counters[retries ? .retried : .accepted] += 1
        note("\(device.name) \(retries ? "retries" : "accepts") \(id)")
        do {
            do { try resolve(id, on: device, retries ? .retry : .accept, seen: .asParked) } catch let error
                as TidemarkError where retries && error.code == .preconditionFailed
            {
                // The user looks at the conflict as it is now, and decides the same.
                note("it has changed again", ": \(error)")
                let now = try device.access { try SyncEngine.conflicts(in: $0) }
                guard let shown = now.first(where: { $0.id == id }) else { throw error }
                try resolve(id, on: device, .retry, seen: .shown(shown))
            }
        } catch let error as TidemarkError
            where retries && [.constraintViolated, .invalidArgument].contains(error.code)
        { note("it does not fit", ": \(error)") }
    }

    private func resolve(_ id: String, on device: SimulatedDevice, _ resolution: Resolution, seen: Seen) throws {
        try device.write { db in
            try ResolveConflict(db: db, schema: DeviceFile(db).schema, seen: seen).resolve(id, resolution)
        }
        try recorder.resolved(id, by: device)
    }
}

extension SimulatedDevice {
    /// The oldest conflict that waits for a decision.
    func firstConflict() throws -> String? {
        try access {
            try String.fetchOne($0.cachedStatement(sql: "SELECT id FROM tidemark_conflict ORDER BY number LIMIT 1"))
        }
    }

    /// The captured changes, change sets and conflicts that wait.
    func waiting() throws -> (edits: Int, conflicts: Int, revision: Int64, captured: Int) {
        try access { db in
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT (SELECT count(*) FROM tidemark_capture)
                                + (SELECT count(*) FROM tidemark_changeset) AS edits,
                            (SELECT count(*) FROM tidemark_conflict) AS conflicts, revision,
                            (SELECT count(*) FROM tidemark_capture) AS captured
                        FROM tidemark_state
                        """)
            )
            return (row?["edits"] ?? 0, row?["conflicts"] ?? 0, row?["revision"] ?? 0, row?["captured"] ?? 0)
        }
    }
}
