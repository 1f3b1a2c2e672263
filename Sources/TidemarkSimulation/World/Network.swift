import Tidemark
import TidemarkCore
import TidemarkHistory
import TidemarkEngine

/// The fate of messages: lost, doubled, late, cut, overtaken by others.
extension World {
    /// The timeout of a device's request, in microseconds.
    private static let timeout: Int64 = 30_000_000

    /// Sends a request of a device.
    func send(_ outgoing: DeviceCore.Outgoing, from device: SimulatedDevice, process: Int, number: Int) {
        decisions.begin(.carry)
        counters[.requests] += 1
        let message = Message(
            device: device.number, process: process, number: number, body: outgoing.body, short: outgoing.conditionalGet
        )
        // Whatever happens to the request, at some time the device gives up.
        schedule(.answer(message, .failure(Self.unreachable)), after: Self.timeout)
        guard device.isReachable, !isLost() else {
            counters[.lostRequests] += 1
            return note("request \(number) of \(device.name) is lost")
        }
        schedule(.arrive(message), after: transit())
        if !isHealed, decisions.chance(plan.doubled) {
            counters[.doubled] += 1
            var copy = message
            copy.isCopy = true
            schedule(.arrive(copy), after: transit())
        }
    }

    /// Delivers a request to the server, which answers it with the waiting ones.
    func arrive(_ message: Message) throws -> Bool {
        decisions.begin(.carry)
        guard server.isUp else {
            reply(message, .failure(Self.unreachable))
            return true
        }
        gathered.append(message)
        guard !waitsForOthers(message) else {
            note("request \(message.number) waits for the next commit")
            return true
        }
        let group = gathered
        gathered = []
        let crash = drawCrash()
        for message in group {
            if self[message.device].processes[message.process].exchange?.number != message.number {
                counters[.staleRequests] += 1
            }
            note("request \(message.number) arrives", message.isCopy ? ", a copy" : "")
        }
        if group.count > 1 { counters[.sharedCommits] += 1 }
        try listen()
        let answers = try serve(group, crash: crash)
        guard crash == .never else {
            note(crash == .beforeCommit ? "it is lost" : "its answer is lost")
            counters[.lostAnswers] += group.count
            try crashServer()
            return true
        }
        for (message, answer) in zip(group, answers) { reply(message, answer) }
        try announce()
        return true
    }

    /// Whether a request waits for another one, as it does during a commit.
    ///
    /// It draws nothing, so that worlds without groups stay the same.
    private func waitsForOthers(_ message: Message) -> Bool {
        options.profile.hasGroups(seed: options.seed) && !isHealed && gathered.count < 3
            && message.number.isMultiple(of: 2)
    }

    private func serve(_ group: [Message], crash: SimulatedServer.Crash) throws -> [Result<[UInt8], TidemarkError>] {
        let requests = group.map { ZoneRequest(.sync($0.body), access: .local("main")) }
        let shorts = group.map(\.short)
        let results = try server.handle(requests, shorts: shorts, crash: crash) { db, index, result in
            try recorder.served(db, request: group[index].number, outcome(of: result), at: server.wall)
        }
        return try zip(group, results).map { message, result in
            switch result {
            case .success(let answer):
                if let short = message.short {
                    counters[short.nothingNew == answer.text ? .unchanged : .shortAnswers] += 1
                }
                let text = String(decoding: answer.text, as: UTF8.self)
                trace.add(answer.text)
                note("server answers \(message.number)", ": \(text)")
                return .success(answer.text)
            case .failure(let error as TidemarkError):
                note("server refuses \(message.number): \(error.code.rawValue)", " \(error)")
                if error.code == .fullRequestRequired { counters[.askedInFull] += 1 }
                // The request as it travels: other facts are lost.
                return .failure(WireError(error).tidemarkError)
            case .failure(let error): throw error
            }
        }
    }

    func outcome(of result: ZoneResult) throws -> Result<[UInt8]?, Recorder.Refusal> {
        switch result {
        case .success(let answer): return .success(answer.text)
        case .failure(let error):
            guard let refusal = Problem(refusal: error, index: nil) else { throw error }
            return .failure(Recorder.Refusal(code: refusal.error.code.rawValue))
        }
    }

    private func reply(_ message: Message, _ answer: Result<[UInt8], TidemarkError>) {
        guard self[message.device].isReachable, !isLost() else {
            counters[.lostAnswers] += 1
            return note("answer \(message.number) is lost")
        }
        var answer = answer
        var message = message
        message.history = counters[.restores]
        if !isHealed, decisions.chance(plan.garbled), case .success(let body) = answer {
            counters[.garbled] += 1
            let length = decisions.decide(body.count)
            answer = .success(Array(body.prefix(length)))
            message.isCut = true
            note("answer \(message.number) is cut to \(length) bytes")
        }
        schedule(.answer(message, answer), after: transit())
    }

    func drawCrash() -> SimulatedServer.Crash {
        guard !isHealed, decisions.chance(plan.serverCrash) else { return .never }
        return decisions.chance(50) ? .beforeCommit : .afterCommit
    }

    func isLost() -> Bool { !isHealed && decisions.chance(plan.lost) }

    /// The time of a message: mostly some milliseconds, sometimes so long that later ones overtake
    /// it and the device has given up.
    func transit() -> Int64 {
        let isLate = !isHealed && decisions.chance(plan.late)
        return drawDelay(isLate ? 60_000_000 : 300_000)
    }

    /// Ends the server's process, and starts it again later.
    func crashServer() throws {
        counters[.serverCrashes] += 1
        note("server crashes")
        server.isUp = false
        // Waiting requests get no answer, and listeners no news.
        gathered = []
        listeners = Listeners(after: listeners)
        try recorder.take(.crashed(actor: "server"))
        let opensAnew = plan.drawsNewConnection(&decisions)
        try server.restart(opensAnew: opensAnew) { decisions.decide($0) }
        schedule(.serve, after: drawDelay(isHealed ? 1 : 20_000_000))
    }

    static let unreachable = TidemarkError(.unreachable, "The network lost the message.", fix: "Try again later.")
}
