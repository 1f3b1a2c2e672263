import TidemarkCore
import TidemarkEngine
import TidemarkHistory

/// The way of requests over REST: lost, doubled, late or cut, and repeated until there is an answer.
extension World {
    /// A request of a client, on its way.
    struct RestCall {
        let client: Int
        let number: Int
        let attempt: Int
        let request: RestRequest
    }

    /// The steps of a request.
    enum RestStep {
        /// It arrives at the server.
        case arrive
        /// The answer reaches the client; nil: the connection breaks instead.
        case receive(RestAnswer?)
    }

    private static let patience: Int64 = 30_000_000

    /// Sends a new request of a client.
    func send(_ request: RestRequest, from client: RestClient, isForMirror: Bool = false) throws {
        requests += 1
        counters[request.isWrite ? .restWrites : .restReads] += 1
        note("\(client.name) sends request \(requests)", ": \(request.text)")
        client.exchange = .init(number: requests, request: request, isForMirror: isForMirror)
        if request.isWrite { try recorder.offered(request, by: client) }
        carry(RestCall(client: client.number, number: requests, attempt: 1, request: request))
    }

    private func carry(_ call: RestCall) {
        decisions.begin(.carry)
        // Whatever happens to it, at some time the client gives up this attempt.
        schedule(.rest(call, .receive(nil)), after: Self.patience)
        guard !isLost() else {
            counters[.lostRequests] += 1
            return note("request \(call.number) is lost")
        }
        schedule(.rest(call, .arrive), after: transit())
        guard !isHealed, decisions.chance(plan.doubled) else { return }
        counters[.doubled] += 1
        schedule(.rest(call, .arrive), after: transit())
    }

    /// Takes the next step of a request.
    func take(_ step: RestStep, of call: RestCall) throws -> Bool {
        decisions.begin(.carry)
        switch step {
        case .receive(let answer): return try receive(answer, call)
        case .arrive: return try arrive(call)
        }
    }

    // MARK: The server

    private func arrive(_ call: RestCall) throws -> Bool {
        guard server.isUp else {
            // The client learns it at once, and waits before it tries again.
            schedule(.rest(call, .receive(nil)), after: drawDelay(10_000_000))
            return true
        }
        note("request \(call.number) arrives")
        if call.request.isWrite { return try write(call) }
        try absorb()
        do {
            try reply(server.ask { try RestRoutes.answer(call.request, $0) }, call)
        } catch { try reply(RestRoutes.answer(call.request, refusedBy: error), call) }
        return true
    }

    private func write(_ call: RestCall) throws -> Bool {
        let writes: ClientWrites
        do { writes = try RestRoutes.writes(of: call.request) } catch {
            try reply(RestRoutes.answer(call.request, refusedBy: error), call)
            return true
        }
        let crash = drawCrash()
        let request = ZoneRequest(.write(writes), access: .local("main"))
        let result = try server.handle([request], crash: crash) { db, _, result in
            try recorder.served(db, request: nil, outcome(of: result), at: server.wall)
        }[0]
        if crash != .beforeCommit, case .success = result { try recorder.take(.judged(changeSet: writes.id)) }
        guard crash == .never else {
            counters[.lostAnswers] += 1
            try crashServer()
            return true
        }
        do {
            guard case .writes(let answers) = try result.get().content else { return false }
            try reply(RestRoutes.answer(call.request, answers.get()), call)
        } catch { try reply(RestRoutes.answer(call.request, refusedBy: error), call) }
        return true
    }

    /// Makes a revision of other programs' writes, as the server does before it reads.
    private func absorb() throws {
        try server.absorb()
        try recorder.served(server, request: nil, .success(nil))
    }

    private func reply(_ answer: RestAnswer, _ call: RestCall) throws {
        note("server answers \(call.number)", ": \(answer.text)")
        trace.add(answer.text.utf8)
        try recorder.answered(call.request, answer, client: clients[call.client - 1])
        guard !isLost() else {
            counters[.lostAnswers] += 1
            return note("answer \(call.number) is lost")
        }
        let isCut = !isHealed && decisions.chance(plan.garbled)
        if isCut { counters[.garbled] += 1 }
        schedule(.rest(call, .receive(isCut ? nil : answer)), after: transit())
    }

    // MARK: The client

    private func receive(_ answer: RestAnswer?, _ call: RestCall) throws -> Bool {
        let client = clients[call.client - 1]
        guard let exchange = client.exchange, exchange.number == call.number else { return false }
        guard let answer else {
            guard exchange.attempts == call.attempt else { return false }
            counters[.retries] += 1
            client.exchange?.attempts += 1
            note("\(client.name) repeats request \(call.number)")
            let next = RestCall(
                client: call.client, number: call.number, attempt: call.attempt + 1, request: call.request)
            carry(next)
            return true
        }
        note("\(client.name) takes in answer \(call.number)")
        client.exchange = nil
        client.take(answer, to: exchange)
        try count(answer, exchange)
        if exchange.isForMirror, let revision = client.mirror.revision {
            counters[.mirrors] += 1
            try recorder.take(.mirrored(client: client.name, revision: revision, rows: client.mirror.rows))
        }
        return true
    }

    private func count(_ answer: RestAnswer, _ exchange: RestClient.Exchange) throws {
        guard answer.kind == .problem else { return }
        if exchange.request.isWrite {
            counters[.restRefusals] += 1
        } else if exchange.isForMirror || answer.body?.contains("unknownRecord") != true {
            throw Finding("live", actor: "server", detail: "refuses \(exchange.request.text) with \(answer.text)")
        }
    }

    /// Lets every client bring its copy to the zone's present revision.
    func settleClients() throws {
        for client in clients {
            repeat {
                try send(client.mirror.request(limit: 1_000), from: client, isForMirror: true)
                try drain()
            } while client.mirror.revision != (try server.revision())
        }
    }
}
